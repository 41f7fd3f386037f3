package emissary

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/chancery-gateway/chancery/snapshot"
	api "github.com/chancery-gateway/chancery/snapshot/api/v3alpha1"
	"github.com/chancery-gateway/chancery/translators/ir"
)

// upstream is what an object says about the cluster it wants; field paths are those of Mapping.
type upstream struct {
	service string
	// field is the name of the field that service is from; "" is "service".
	field string
	// own marks a service of the gateway itself, for which the Module's load balancer is not meant.
	own          bool
	resolver     string
	tls          string
	hostRewrite  string
	tag          string
	statsName    string
	dnsType      string
	respectTTL   bool
	grpc         bool
	ipv4, ipv6   *bool
	connect      *api.Milliseconds
	idle         *api.Milliseconds
	lifetime     *api.Milliseconds
	breakers     []api.CircuitBreaker
	keepalive    *api.KeepAlive
	balancer     *api.LoadBalancer
	healthChecks []api.HealthCheck
}

// at is the path of the field that the service is from.
func (u *upstream) at() string {
	if u.field == "" {
		return "spec.service"
	}
	return "spec." + u.field
}

// defaultConnectTimeout is Emissary's, in milliseconds.
const defaultConnectTimeout = 3000

// cluster makes the cluster and what it names, adds them to the fragments and returns it, with the hash policies of its
// load balancer and the parsed service. It returns nil when the object has failed.
func (l *lowering) cluster(u upstream) (*ir.Cluster, []ir.HashPolicy, service) {
	at := u.at()
	svc, err := parseService(u.service)
	if err != nil {
		l.fail(codeClusterService, at, at+": "+err.Error()+" (in \""+u.service+"\")", "write [http://|https://]host[:port]")
	} else if svc.extra != "" {
		l.warn(codeClusterService, at, "\""+svc.extra+"\" is ignored: a service is a host and a port", "use rewrite for paths")
	}
	path, name := "spec.resolver", u.resolver
	if name == "" {
		path, name = "spec", l.set.resolver
	}
	kind, resolver := l.resolver(name)
	if kind == "" {
		l.fail(codeClusterResolver, path, "there is no resolver \""+name+"\"", "name a resolver object, or kubernetes-service or endpoint")
	}
	ofConsul := kind == api.KindConsulResolver.Kind
	if ofConsul && svc.port != 0 {
		l.warn(codeClusterService, at, "port "+strconv.Itoa(int(svc.port))+" is ignored: in Consul each instance has its own", "leave the port out")
		svc.port = 0
	}
	if !l.set.ownNamespaceServices && !ofConsul {
		svc = svc.qualify(l.o.Namespace, l.f.options.Namespace)
	}
	tls := l.upstreamTLS(u, svc.scheme)
	svc = svc.withPort(tls != nil)

	c := &ir.Cluster{
		Host: svc.host, Port: svc.port, HTTP2: u.grpc, TLS: tls,
		ConnectTimeoutMillis: l.millis("spec.connect_timeout_ms", u.connect, defaultConnectTimeout),
		IdleTimeoutMillis:    l.optionalMillis("spec.cluster_idle_timeout_ms", u.idle, l.set.clusterIdle),
		MaxConnectionMillis:  l.optionalMillis("spec.cluster_max_connection_lifetime_ms", u.lifetime, l.set.clusterLifetime),
		RespectDNSTTL:        u.respectTTL,
		CircuitBreakers:      l.set.breakers,
		Keepalive:            l.set.keepalive,
		Origins:              l.origins(),
	}
	if u.connect != nil && *u.connect == 0 {
		l.fail(codeClusterLimit, "spec.connect_timeout_ms", "0 leaves no time to connect", "a positive number of milliseconds")
	}
	if !u.grpc {
		c.HeaderCase = l.set.headerCase
	}
	if u.breakers != nil {
		c.CircuitBreakers = l.circuitBreakers("spec.circuit_breakers", u.breakers)
	}
	if u.keepalive != nil {
		c.Keepalive = l.keepalive("spec.keepalive", u.keepalive)
	}
	switch { // What is wrong beside service and resolver is told at once with them.
	case err != nil || kind == "":
	case ofConsul:
		l.discoverByConsul(c, u, resolver, svc)
	default:
		l.discover(c, u, kind, svc)
	}
	hash := l.balance(c, u, kind, svc)
	l.healthChecks(c, u.healthChecks)
	if l.failed {
		return nil, nil, svc
	}
	c.StatName = statName(cmp.Or(u.statsName, l.set.statsName), svc, tls != nil)
	c.Name = clusterName(c, u.tag, l.scratch[:0])
	l.out.Clusters = append(l.out.Clusters, c)
	return c, hash, svc
}

// discover decides how the endpoints are found.
func (l *lowering) discover(c *ir.Cluster, u upstream, kind string, svc service) {
	c.Discovery = ir.DiscoveryStrictDNS
	switch u.dnsType {
	case "", "strict_dns":
	case "logical_dns":
		c.Discovery = ir.DiscoveryLogicalDNS
	default:
		l.report(snapshot.Error, codeClusterLimit, "spec.dns_type", "unknown DNS type \""+u.dnsType+"\"; strict_dns is used", "strict_dns or logical_dns")
	}
	if svc.ip {
		c.Discovery, c.RespectDNSTTL = ir.DiscoveryStatic, false
		return
	}
	own := l.o.Namespace
	if l.set.ownNamespaceServices || own == "" {
		own = l.f.options.Namespace
	}
	if ns, name, ok := svc.kubernetes(own); ok {
		c.Namespace, c.Service = ns, name
	}
	if kind == api.KindKubernetesEndpointResolver.Kind && c.Service != "" {
		c.Discovery, c.Host, c.Port, c.RespectDNSTTL = ir.DiscoveryEDS, "", 0, false
		c.EndpointSet = "k8s/" + c.Namespace + "/" + c.Service + "/" + strconv.Itoa(int(svc.port))
		l.out.EndpointSets = append(l.out.EndpointSets, ir.EndpointRequest{Name: c.EndpointSet, Namespace: c.Namespace, Service: c.Service, Port: svc.port})
		l.checkService(c.Namespace, c.Service, svc.port)
		return
	}
	c.DNSFamily = l.dnsFamily(u)
	if l.derived != nil && l.derived.Checked && c.Service != "" {
		l.checkService(c.Namespace, c.Service, svc.port)
	}
}

// discoverByConsul takes the endpoints that the source found by way of the resolver.
func (l *lowering) discoverByConsul(c *ir.Cluster, u upstream, resolver *snapshot.Object, svc service) {
	if u.dnsType != "" {
		l.warn(codeClusterLimit, "spec.dns_type", "accepted, but without effect: the endpoints are those of Consul", "")
	}
	c.Discovery, c.Host, c.Port, c.RespectDNSTTL = ir.DiscoveryEDS, "", 0, false
	c.EndpointSet = "consul/" + resolver.Namespace + "/" + resolver.Name + "/" + svc.host
	l.out.EndpointSets = append(l.out.EndpointSets, ir.EndpointRequest{
		Name: c.EndpointSet, Namespace: resolver.Namespace, Service: snapshot.ConsulSlices(resolver.Name, svc.host), Resolver: resolver.Ref,
	})
}

func (l *lowering) dnsFamily(u upstream) string {
	v4, v6 := l.set.ipv4, l.set.ipv6
	if u.ipv4 != nil {
		v4 = *u.ipv4
	}
	if u.ipv6 != nil {
		v6 = *u.ipv6
	}
	switch {
	case v4 && v6:
		return "auto"
	case v6:
		return "v6"
	}
	return "v4"
}

// millis reads a timeout that has to be there.
func (l *lowering) millis(path string, m *api.Milliseconds, fallback int64) int64 {
	if m == nil {
		return fallback
	}
	if l.checkMillis(path, m) {
		return int64(*m)
	}
	return fallback
}

// optionalMillis reads a timeout that may be absent.
func (l *lowering) optionalMillis(path string, m *api.Milliseconds, fallback *int64) *int64 {
	if m == nil || !l.checkMillis(path, m) {
		return fallback
	}
	n := int64(*m)
	return &n
}

// maxMillis is about 3,000 years, well inside of what a protobuf duration can hold.
const maxMillis = 1e14

func (l *lowering) checkMillis(path string, m *api.Milliseconds) bool {
	if *m < 0 || *m > maxMillis {
		l.fail(codeClusterLimit, path, fmt.Sprintf("%d is no time span", *m), "a number of milliseconds, 0 or more")
		return false
	}
	return true
}

// statName returns alt_stat_name: the user's, or the whole service with unusual characters as "_".
func statName(user string, svc service, tls bool) string {
	if user != "" {
		return user
	}
	name := svc.host
	if plain := uint32(80); svc.port != plain && !(tls && svc.port == 443) || tls && svc.port == plain {
		name = svc.hostPort()
	}
	return string(appendMangled(make([]byte, 0, 64), name))
}

// appendMangled appends s with everything but letters and digits as "_".
func appendMangled(b []byte, s string) []byte {
	for i := range len(s) {
		c := s[i]
		if c >= '0' && c <= '9' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' {
			b = append(b, c)
		} else {
			b = append(b, '_')
		}
	}
	return b
}

// checkNumber converts to uint32, or reports what is out of range.
func (l *lowering) checkNumber(path string, n *int64) *uint32 {
	if n == nil {
		return nil
	}
	if *n < 0 || *n > math.MaxUint32 {
		l.fail(codeClusterLimit, path, fmt.Sprintf("%d is out of range", *n), "a whole number from 0 to 4294967295")
		return nil
	}
	u := uint32(*n)
	return &u
}

func (l *lowering) circuitBreakers(path string, list []api.CircuitBreaker) []ir.CircuitBreaker {
	out := make([]ir.CircuitBreaker, 0, len(list))
	for i, b := range list {
		at := path + "[" + strconv.Itoa(i) + "]"
		priority := cmp.Or(b.Priority, "default")
		if priority != "default" && priority != "high" {
			l.fail(codeClusterLimit, at+".priority", "unknown priority \""+priority+"\"", "default or high")
			continue
		}
		if slices.ContainsFunc(out, func(other ir.CircuitBreaker) bool { return other.Priority == priority }) {
			l.fail(codeClusterLimit, at+".priority", "priority \""+priority+"\" stands twice", "one entry for each of default and high")
			continue
		}
		out = append(out, ir.CircuitBreaker{
			Priority:           priority,
			MaxConnections:     l.checkNumber(at+".max_connections", b.MaxConnections),
			MaxPendingRequests: l.checkNumber(at+".max_pending_requests", b.MaxPendingRequests),
			MaxRequests:        l.checkNumber(at+".max_requests", b.MaxRequests),
			MaxRetries:         l.checkNumber(at+".max_retries", b.MaxRetries),
		})
	}
	slices.SortFunc(out, func(a, b ir.CircuitBreaker) int { return strings.Compare(a.Priority, b.Priority) })
	return out
}

func (l *lowering) keepalive(path string, k *api.KeepAlive) *ir.Keepalive {
	return &ir.Keepalive{
		Probes:   l.checkNumber(path+".probes", k.Probes),
		Time:     l.checkNumber(path+".idle_time", k.IdleTime),
		Interval: l.checkNumber(path+".interval", k.Interval),
	}
}
