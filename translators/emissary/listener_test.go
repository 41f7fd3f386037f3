package emissary

import (
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/chancery-gateway/chancery/translators/ir"
)

func TestListener(t *testing.T) {
	const all = `hostBinding: {namespace: {from: ALL}}`
	for _, c := range []struct{ spec, want, findings string }{
		{`port: 8080, protocol: HTTP, securityModel: XFP, ` + all, "0.0.0.0:8080 http xfp ingress_http", ""},
		{`port: 8443, protocol: HTTPS, securityModel: SECURE, ` + all, "0.0.0.0:8443 http+tls secure ingress_https", ""},
		{`port: 8080, protocol: HTTPPROXY, securityModel: XFP, ` + all, "0.0.0.0:8080 http+proxy xfp ingress_http", ""},
		{`port: 8443, protocol: HTTPSPROXY, securityModel: XFP, ` + all, "0.0.0.0:8443 http+tls+proxy xfp ingress_https", ""},
		{`port: 8443, protocolStack: [PROXY, TLS, HTTP, TCP], securityModel: XFP, ` + all, "0.0.0.0:8443 http+tls+proxy xfp ingress_https", ""},
		{`port: 6379, protocol: TLS, securityModel: SECURE, ` + all, "0.0.0.0:6379 tls secure ingress_tls_6379", ""},
		{`port: 6379, protocol: TCP, securityModel: INSECURE, ` + all, "0.0.0.0:6379 insecure ingress_tcp_6379", ""},
		{`port: 80, protocol: HTTP, protocolStack: [TLS, TCP], statsPrefix: mine, securityModel: XFP, ` + all, "0.0.0.0:80 tls xfp mine", "error CH-LISTENER-001 spec.protocol"},
		{`port: 443, protocolStack: [TLS, HTTP, UDP], securityModel: XFP, ` + all, "0.0.0.0:443 http+tls+udp xfp ingress_https", ""},
		{`port: 443, protocolStack: [HTTP, UDP], securityModel: XFP, ` + all, "0.0.0.0:443 http+tls+udp xfp ingress_http", ""},
		{`port: 443, protocolStack: [PROXY, TLS, HTTP, UDP], securityModel: XFP, ` + all, "", "error CH-LISTENER-001 spec.protocolStack"},
		{`port: 443, protocolStack: [UDP], securityModel: XFP, ` + all, "", "error CH-LISTENER-001 spec.protocolStack"},
		{`port: 443, protocolStack: [TCP, HTTP], securityModel: XFP, ` + all, "", "error CH-LISTENER-001 spec.protocolStack"},
		{`port: 443, protocol: UDP, securityModel: XFP, ` + all, "", "error CH-LISTENER-001 spec.protocol"},
		{`port: 443, securityModel: XFP, ` + all, "", "error CH-LISTENER-001 spec.protocol"},
		{`port: 443, protocol: HTTP, l7Depth: -1, securityModel: XFP, ` + all, "", "error CH-LISTENER-004 spec.l7Depth"},
	} {
		t.Run(c.spec, func(t *testing.T) {
			f := newWorld(t, `{kind: Listener, metadata: {name: l}, spec: {`+c.spec+`}}`).lower(t, "Listener/l")
			want(t, f, c.findings)
			if c.want == "" {
				if len(f.Listeners) > 0 {
					t.Error("there is a listener")
				}
				return
			}
			l := f.Listeners[0]
			var stack []string
			for _, e := range []struct {
				on   bool
				name string
			}{{l.HTTP, "http"}, {l.TLS, "tls"}, {l.ProxyProtocol, "proxy"}, {l.UDP, "udp"}} {
				if e.on {
					stack = append(stack, e.name)
				}
			}
			got := l.Address + ":" + strconv.Itoa(int(l.Port)) + " " + strings.Join(stack, "+")
			got = strings.TrimSpace(got) + " " + string(l.Security) + " " + l.TCPStatPrefix
			if got != c.want || l.Name != "app/l" || (l.Chain != nil) != l.HTTP || l.HTTP && l.Chain.StatPrefix != l.TCPStatPrefix {
				t.Errorf("got %s, want %s (%+v)", got, c.want, l)
			}
		})
	}
}

func TestHostBinding(t *testing.T) {
	for _, c := range []struct{ binding, want, findings string }{
		{`{namespace: {from: ALL}}`, `{"Namespace":"","Labels":null,"None":false}`, ""},
		{`{namespace: {from: SELF}}`, `{"Namespace":"app","Labels":null,"None":false}`, ""},
		{`{selector: {matchLabels: {a: b}}}`, `{"Namespace":"app","Labels":{"a":"b"},"None":false}`, ""},
		{`{namespace: {from: ALL}, selector: {matchLabels: {a: b}}}`, `{"Namespace":"","Labels":{"a":"b"},"None":false}`, ""},
		{`{namespace: {from: SELECTOR}}`, `{"Namespace":"app","Labels":null,"None":false}`, "error CH-LISTENER-002 spec.hostBinding.namespace.from"},
		{`{}`, "", "error CH-LISTENER-002 spec.hostBinding"},
		{`{namespace: {from: ALL}, selector: {matchExpressions: [{key: a, operator: Exists}]}}`, "", "error CH-LISTENER-002 spec.hostBinding.selector.matchExpressions"},
	} {
		f := newWorld(t, `{kind: Listener, metadata: {name: l}, spec: {port: 80, protocol: HTTP, securityModel: XFP, hostBinding: `+c.binding+`}}`).lower(t, "Listener/l")
		want(t, f, c.findings)
		if (c.want != "") != (len(f.Listeners) == 1) {
			t.Errorf("%s: %d listeners", c.binding, len(f.Listeners))
			continue
		}
		if c.want != "" {
			equal(t, c.binding, f.Listeners[0].Hosts, c.want)
		}
	}
}

// l7Depth and the stream limit are each Listener's own (B036); the settings are the Module's, shared by pointer.
func TestListenerChain(t *testing.T) {
	w := newWorld(t, `
{kind: Listener, metadata: {name: edge}, spec: {port: 8080, protocol: HTTP, securityModel: XFP, l7Depth: 2, http2MaxConcurrentStreams: 7, hostBinding: {namespace: {from: ALL}}}}
---
{kind: Listener, metadata: {name: inner}, spec: {port: 8081, protocol: HTTP, securityModel: XFP, hostBinding: {namespace: {from: ALL}}}}
---
{kind: Module, metadata: {name: ambassador}, spec: {config: {buffer_limit_bytes: 5000, xff_num_trusted_hops: 9}}}
`, func(o *Options) { o.BindAddress = "::" })
	edge, inner := w.lower(t, "Listener/edge").Listeners[0], w.lower(t, "Listener/inner").Listeners[0]
	if edge.Chain.TrustedHops != 2 || edge.Chain.MaxConcurrentStreams != 7 || inner.Chain.TrustedHops != 0 || inner.Chain.MaxConcurrentStreams != 0 {
		t.Errorf("edge %+v, inner %+v", edge.Chain, inner.Chain)
	}
	if edge.Chain.Settings != inner.Chain.Settings || edge.BufferLimit != 5000 || edge.Address != "::" {
		t.Errorf("edge %+v", edge)
	}
	if len(edge.Chain.Filters) != 1 || edge.Chain.Filters[0].Name != ir.FilterCORS {
		t.Errorf("filters %v", edge.Chain.Filters)
	}
}

func TestTCPMapping(t *testing.T) {
	cert, key := newPair(t, time.Now().Add(time.Hour))
	docs := []string{
		secretDoc("app/s", "kubernetes.io/tls", "tls.crt", cert, "tls.key", key),
		`{kind: Host, metadata: {name: wild}, spec: {hostname: "*.hosted.example.com", tlsSecret: {name: s}}}`,
		`{kind: TLSContext, metadata: {name: c}, spec: {hosts: [mq.example.com], secret: s}}`,
		`{kind: TLSContext, metadata: {name: d}, spec: {hosts: [broken.example.com], secret: no-such}}`,
	}
	for _, c := range []struct{ spec, sni, tls, findings string }{
		{`port: 6379, service: "redis:6379"`, "", "null", ""},
		{`port: 6379, service: "redis:6379", host: "*"`, "", "null", ""},
		{`port: 6379, service: "redis:6379", host: MQ.example.com, weight: 10, stats_name: mine, idle_timeout_ms: "500"`, "mq.example.com", `{"certificates":["app/s"]}`, ""},
		{`port: 6379, service: "redis:6379", host: a.hosted.example.com`, "a.hosted.example.com", "null", ""},
		{`port: 6379, service: "redis:6379", host: broken.example.com`, "", "", "error CH-TLS-001 spec.host"},
		{`port: 6379, service: redis, weight: 101`, "", "", "error CH-TCP-001 spec.weight"},
		{`port: 70000, service: redis`, "", "", "error CH-TCP-001 spec.port"},
		{`port: 6379, service: redis, address: here`, "", "", "error CH-TCP-001 spec.address"},
		{`port: 6379, service: redis, host: "a*b"`, "", "", "error CH-TCP-001 spec.host"},
		{`port: 6379, service: redis, idle_timeout_ms: soon`, "", "", "error CH-TCP-001 spec.idle_timeout_ms"},
		{`port: 6379, service: "redis}"`, "", "", "error CH-CLUSTER-001 spec.service"},
		{`port: 6379, service: redis, tls: none`, "", "", "error CH-CLUSTER-003 spec.tls"},
	} {
		t.Run(c.spec, func(t *testing.T) {
			w := newWorld(t, strings.Join(append(docs, `{kind: TCPMapping, metadata: {name: m}, spec: {`+c.spec+`}}`), "\n---\n"))
			f := w.lower(t, "TCPMapping/m")
			want(t, f, c.findings)
			if c.tls == "" {
				if len(f.TCPRoutes)+len(f.Clusters)+len(f.Listeners)+len(f.Secrets) > 0 {
					t.Errorf("a refused TCPMapping leaves fragments: %+v", f)
				}
				return
			}
			r := f.TCPRoutes[0]
			equal(t, "TLS", r.TLS, c.tls)
			if r.SNI != c.sni || r.Address != "0.0.0.0" || r.Port != 6379 || r.Cluster != cluster(t, f).Name {
				t.Errorf("%+v", r)
			}
			if r.Weight != nil && (*r.Weight != 10 || *r.IdleTimeoutMillis != 500 || cluster(t, f).StatName != "mine") {
				t.Errorf("weight %d", *r.Weight)
			}
		})
	}
}

// The TCPMappings of one port ask for one and the same listener, which reads TLS as soon as one has a server name.
func TestTCPListener(t *testing.T) {
	w := newWorld(t, `
{kind: TCPMapping, metadata: {name: a}, spec: {port: 5671, service: a}}
---
{kind: TCPMapping, metadata: {name: b}, spec: {port: 5671, host: b.example.com, service: b}}
---
{kind: TCPMapping, metadata: {name: c}, spec: {port: 7000, service: c}}
`)
	a, b, c := w.lower(t, "TCPMapping/a").Listeners[0], w.lower(t, "TCPMapping/b").Listeners[0], w.lower(t, "TCPMapping/c").Listeners[0]
	a.Origin, b.Origin = nil, nil
	if compact(t, a) != compact(t, b) || !a.TLS || !a.Synthesized || a.Name != "listener-0.0.0.0-5671" || a.TCPStatPrefix != "ingress_tls_5671" {
		t.Errorf("a %+v\nb %+v", a, b)
	}
	if c.TLS || c.TCPStatPrefix != "ingress_tcp_7000" {
		t.Errorf("c %+v", c)
	}
}
