package envoy

import (
	"testing"

	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	"google.golang.org/protobuf/proto"

	"github.com/chancery-gateway/chancery/translators/ir"
)

// BenchmarkRules is the cost of the rules a route. In a program they stand in the constructors, so that the whole emission of a
// route is their upper bound; what a module wrote is decoded and walked.
func BenchmarkRules(b *testing.B) {
	const routes = 5_000
	prog := large(routes, 500)
	perRoute := func(b *testing.B, do func()) {
		b.ReportAllocs()
		before := processTime(b)
		for b.Loop() {
			do()
		}
		b.ReportMetric(float64((processTime(b)-before).Nanoseconds())/float64(b.N)/routes/1000, "cpu-us/route")
	}
	b.Run("program", func(b *testing.B) { perRoute(b, func() { emit(b, prog) }) })
	var written []*routev3.RouteConfiguration
	var resources []*ir.Resource
	for _, r := range emit(b, prog).Resources[ir.TypeRouteConfig] {
		m := &routev3.RouteConfiguration{}
		if err := proto.Unmarshal(r.Value, m); err != nil {
			b.Fatal(err)
		}
		written, resources = append(written, m), append(resources, r)
	}
	b.Run("written", func(b *testing.B) {
		perRoute(b, func() {
			var f faults
			for _, m := range written {
				f.message(m)
			}
			if len(f) > 0 {
				b.Fatal(f)
			}
		})
	})
	b.Run("references of what is written", func(b *testing.B) {
		perRoute(b, func() {
			for _, r := range resources {
				NeedsOf(r)
			}
		})
	})
}
