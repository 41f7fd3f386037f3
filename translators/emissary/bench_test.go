package emissary

import (
	"testing"

	"github.com/chancery-gateway/chancery/snapshot"
)

func BenchmarkMapping(b *testing.B) {
	for _, bench := range []struct{ name, spec string }{
		{"plain", `hostname: "*", prefix: /some/path/, service: "backend:8080"`},
		{"rich", `hostname: a.example.com, prefix: "/users/[0-9]+/", prefix_regex: true, service: backend, rewrite: "",
			headers: {x-a: b, x-c: d}, add_request_headers: {x-e: {value: "%REQ(:path)%"}}, retry_policy: {retry_on: 5xx, num_retries: 3},
			cors: {origins: ["https://a.example.com"]}, timeout_ms: 5000, weight: 10`},
	} {
		b.Run(bench.name, func(b *testing.B) {
			w := newWorld(b, `{kind: Mapping, metadata: {name: m}, spec: {`+bench.spec+`}}`)
			o := w.snapshot.Get(snapshot.GroupKind{Group: snapshot.EmissaryGroup, Kind: "Mapping"}, "app", "m")
			b.ReportAllocs()
			for b.Loop() {
				w.Lower(o, snapshot.NewView(w.snapshot))
			}
		})
	}
}
