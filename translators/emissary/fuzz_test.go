package emissary

import (
	"testing"

	"github.com/chancery-gateway/chancery/snapshot"
	"github.com/chancery-gateway/chancery/snapshot/api"
)

// Nothing that passes the schema makes the front end panic, and what it refuses leaves no fragments.
func FuzzLower(f *testing.F) {
	seed := func(kind, spec string) { f.Add(kind, spec) }
	seed("Mapping", `{"prefix":"/a","service":"https://b:1","hostname":"*.x","host":"y*","regex_headers":{"A":"(x"},"add_request_headers":{"x":{"value":"%REQ(a)%"}},"rewrite":"","weight":3}`)
	seed("Mapping", `{"prefix":"^/(a)$","prefix_regex":true,"service":"b","host_redirect":true,"regex_redirect":{"pattern":"a","substitution":"\\1"},"load_balancer":{"policy":"maglev","cookie":{"name":"c","ttl":"5s"}},"resolver":"endpoint"}`)
	seed("Host", `{"hostname":"[::1]:80","tlsSecret":{"name":"a.b"},"tls":{"ca_secret":"c","alpn_protocols":",","cipher_suites":["[A|B]"]},"mappingSelector":{"matchLabels":{}}}`)
	seed("Listener", `{"port":1,"protocol":"HTTP","protocolStack":["TCP"],"securityModel":"XFP","hostBinding":{"selector":{}}}`)
	seed("TCPMapping", `{"port":1,"host":"*.x","service":"[::1]:2","tls":"z"}`)
	seed("TLSContext", `{"hosts":["a"],"secret":".","crl_secret":"x."}`)
	seed("Module", `{"config":{"defaults":{"httpmapping":{"add_request_headers":{"a":{"value":1}}}},"cors":{"origins":[1]},"diagnostics":[],"runtime_flags":{"a":{}},"envoy_log_format":{"a":"%"},"envoy_log_type":"json"}}`)
	f.Fuzz(func(t *testing.T, kind, spec string) {
		name := "x"
		if kind == "Module" {
			name = moduleName
		}
		doc := `{"apiVersion":"getambassador.io/v3alpha1","kind":"` + kind + `","metadata":{"name":"` + name + `","namespace":"app"},"spec":` + spec + `}`
		o, _ := api.Decode([]byte(doc), snapshot.Source{}, nil)
		if o == nil || o.Spec == nil {
			return
		}
		s := snapshot.Empty().Derive([]*snapshot.Object{o}, nil, nil)
		front := New(Options{})
		first := front.Lower(o, snapshot.NewView(s))
		if first == nil {
			return
		}
		front.Ambient(snapshot.NewView(s))
		if kind == "Mapping" && len(first.Routes) == 0 && (len(first.Clusters) > 0 || len(first.Diagnostics) == 0) {
			t.Errorf("a refused Mapping leaves %+v", first)
		}
		again := New(Options{}).Lower(o, snapshot.NewView(s))
		if compact(t, first) != compact(t, again) {
			t.Error("lowering twice gives two results")
		}
	})
}
