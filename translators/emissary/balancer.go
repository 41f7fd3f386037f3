package emissary

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/chancery-gateway/chancery/snapshot"
	api "github.com/chancery-gateway/chancery/snapshot/api/v3alpha1"
	"github.com/chancery-gateway/chancery/translators/ir"
)

// balancer is a checked load balancer setting.
type balancer struct {
	policy string
	hash   []ir.HashPolicy
}

// balance sets the cluster's policy and returns the route's hash policies.
func (l *lowering) balance(c *ir.Cluster, u upstream, kind string, svc service) []ir.HashPolicy {
	b := l.set.balancer
	if u.own {
		b = nil
	}
	if u.balancer != nil {
		if kind == api.KindKubernetesServiceResolver.Kind {
			l.fail(codeClusterBalancer, "spec.load_balancer", "the service resolver knows no endpoints to choose among", "set resolver: endpoint, or remove load_balancer")
			return nil
		}
		own, err := checkBalancer(u.balancer)
		if err != nil {
			l.fail(codeClusterBalancer, "spec.load_balancer", err.Error(), "")
			return nil
		}
		b = own
	}
	c.LoadBalancer = "round_robin"
	if b == nil {
		return nil
	}
	c.LoadBalancer = b.policy
	return b.hash
}

// checkBalancer reads a load balancer setting.
func checkBalancer(b *api.LoadBalancer) (*balancer, error) {
	keys := 0
	var hash ir.HashPolicy
	if b.Cookie != nil {
		keys++
		cookie := &ir.HashCookie{Name: b.Cookie.Name, Path: b.Cookie.Path}
		if err := checkToken(b.Cookie.Name); err != nil {
			return nil, fmt.Errorf("cookie.name: %q is no cookie name", b.Cookie.Name)
		}
		if b.Cookie.TTL != "" {
			ttl, err := time.ParseDuration(b.Cookie.TTL)
			if err != nil || ttl < 0 {
				return nil, fmt.Errorf("cookie.ttl: %q is no duration such as \"60s\"", b.Cookie.TTL)
			}
			seconds := int64(ttl / time.Second)
			cookie.TTLSeconds = &seconds
		}
		hash.Cookie = cookie
	}
	if b.Header != "" {
		keys++
		if err := checkMatchName(b.Header); err != nil {
			return nil, fmt.Errorf("header: %w", err)
		}
		hash.Header = strings.ToLower(b.Header)
	}
	if b.SourceIP != nil {
		keys++
		hash.SourceIP = true
	}
	switch b.Policy {
	case "round_robin", "least_request":
		if keys > 0 {
			return nil, fmt.Errorf("%s takes no cookie, header or source_ip", b.Policy)
		}
		return &balancer{policy: b.Policy}, nil
	case "ring_hash", "maglev":
		if keys != 1 {
			return nil, fmt.Errorf("%s needs exactly one of cookie, header and source_ip, here are %d", b.Policy, keys)
		}
		return &balancer{policy: b.Policy, hash: []ir.HashPolicy{hash}}, nil
	}
	return nil, fmt.Errorf("unknown policy %q: round_robin, least_request, ring_hash and maglev are known", b.Policy)
}

// checkService warns when the Service behind a cluster, or its port, does not exist.
func (l *lowering) checkService(namespace, name string, port uint32) {
	o := l.v.Get(snapshot.KindService, namespace, name)
	if o == nil {
		l.warn(codeClusterMissing, "spec.service", "there is no Service "+namespace+"/"+name+"; requests are answered 503 until there is", "")
		return
	}
	s, ok := o.Spec.(*snapshot.Service)
	if !ok || s.Type == "ExternalName" {
		return
	}
	var known []string
	for _, p := range s.Ports {
		if uint32(p.Port) == port {
			return
		}
		known = append(known, strconv.Itoa(int(p.Port)))
	}
	l.warn(codeClusterMissing, "spec.service", fmt.Sprintf("Service %s/%s has no port %d; requests are answered 503", namespace, name, port), "its ports: "+strings.Join(known, ", "))
}

// Defaults of active health checks (Emissary docs: "Active Health Checking").
const (
	healthTimeout  = 3 * time.Second
	healthInterval = 5 * time.Second
)

func (l *lowering) healthChecks(c *ir.Cluster, list []api.HealthCheck) {
	if len(list) == 0 {
		return
	}
	if c.Discovery != ir.DiscoveryEDS {
		l.warn(codeClusterHealth, "spec.health_checks", "accepted, but without effect: the resolver knows no endpoints", "set resolver: endpoint")
		return
	}
	for i := range list {
		at := "spec.health_checks[" + strconv.Itoa(i) + "]"
		h := &list[i]
		out := ir.HealthCheck{
			TimeoutMillis:      l.healthSpan(at+".timeout", h.Timeout, healthTimeout),
			IntervalMillis:     l.healthSpan(at+".interval", h.Interval, healthInterval),
			HealthyThreshold:   l.threshold(at+".healthy_threshold", h.HealthyThreshold, 1),
			UnhealthyThreshold: l.threshold(at+".unhealthy_threshold", h.UnhealthyThreshold, 2),
		}
		check := h.HealthCheck
		switch {
		case check.HTTP != nil && check.GRPC == nil:
			out.HTTP = l.httpHealthCheck(at+".health_check.http", check.HTTP)
		case check.GRPC != nil && check.HTTP == nil:
			out.GRPC = &ir.GRPCHealthCheck{Service: check.GRPC.UpstreamName, Authority: check.GRPC.Authority}
			if !c.HTTP2 {
				l.fail(codeClusterLimit, at+".health_check.grpc", "a gRPC check needs an HTTP/2 upstream", "set grpc: true")
			}
		default:
			l.fail(codeClusterLimit, at+".health_check", "exactly one of http and grpc is needed", "")
		}
		c.HealthChecks = append(c.HealthChecks, out)
	}
}

func (l *lowering) httpHealthCheck(path string, h *api.HTTPHealthCheck) *ir.HTTPHealthCheck {
	out := &ir.HTTPHealthCheck{Path: h.Path, Host: h.Hostname}
	if !strings.HasPrefix(h.Path, "/") {
		l.fail(codeClusterLimit, path+".path", "\""+h.Path+"\" is no path", "a path begins with \"/\"")
	}
	if err := checkHeaderText(h.Hostname); err != nil {
		l.fail(codeClusterLimit, path+".hostname", err.Error(), "")
	}
	out.RequestHeaders.Add = l.addedHeaders(path+".add_request_headers", h.AddRequestHeaders)
	out.RequestHeaders.Remove = l.removedHeaders(path+".remove_request_headers", h.RemoveRequestHeaders)
	for i, r := range h.ExpectedStatuses {
		if r.Min < 100 || r.Max > 599 || r.Min > r.Max {
			l.fail(codeClusterLimit, path+".expected_statuses["+strconv.Itoa(i)+"]", fmt.Sprintf("%d to %d is no range of statuses", r.Min, r.Max), "100 to 599, min not above max")
			continue
		}
		out.ExpectedStatuses = append(out.ExpectedStatuses, ir.StatusRange{From: r.Min, To: r.Max + 1})
	}
	return out
}

func (l *lowering) healthSpan(path string, d *api.Duration, fallback time.Duration) int64 {
	if d == nil {
		return fallback.Milliseconds()
	}
	if d.Duration() < time.Millisecond {
		l.fail(codeClusterLimit, path, "\""+d.Duration().String()+"\" is too short", "at least 1ms")
		return fallback.Milliseconds()
	}
	return d.Duration().Milliseconds()
}

func (l *lowering) threshold(path string, n *int64, fallback uint32) uint32 {
	if n == nil {
		return fallback
	}
	u := l.checkNumber(path, n)
	if u == nil {
		return fallback
	}
	if *u == 0 {
		l.fail(codeClusterLimit, path, "0 is no threshold", "1 or more")
	}
	return *u
}
