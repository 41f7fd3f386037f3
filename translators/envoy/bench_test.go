package envoy

import (
	"io"
	"syscall"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/chancery-gateway/chancery/translators/ir"
)

// BenchmarkColdEmit emits 10,000 routes on 500 hosts with a cluster each from nothing.
func BenchmarkColdEmit(b *testing.B) {
	prog := large(10_000, 500)
	b.ReportAllocs()
	defer cpuTime(b)()
	for b.Loop() {
		emit(b, prog)
	}
}

// BenchmarkMarshalOnly is the physical limit: deterministic protobuf of the same messages, which are at hand.
func BenchmarkMarshalOnly(b *testing.B) {
	rcs, clusters := messages(large(10_000, 500))
	b.ReportAllocs()
	defer cpuTime(b)()
	for b.Loop() {
		for _, m := range rcs {
			marshalOnly(b, m)
		}
		for _, m := range clusters {
			marshalOnly(b, m)
		}
	}
}

// cpuTime reports the process' own time (user and system, collector included) per operation, which a busy machine does not distort.
func cpuTime(b *testing.B) func() {
	b.Helper()
	start := processTime(b)
	return func() { b.ReportMetric(float64((processTime(b)-start).Nanoseconds())/float64(b.N), "cpu-ns/op") }
}

func processTime(b *testing.B) time.Duration {
	b.Helper()
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

func marshalOnly(b *testing.B, m proto.Message) {
	if _, err := deterministic.Marshal(m); err != nil {
		b.Fatal(err)
	}
}

// BenchmarkOneRoute changes one route of a virtual host that has all of them.
func BenchmarkOneRoute(b *testing.B) {
	for _, n := range []int{1_000, 10_000} {
		b.Run(map[int]string{1_000: "of1000", 10_000: "of10000"}[n], func(b *testing.B) {
			prog := large(n, 1)
			e := NewEmitter(Options{})
			e.Emit(prog)
			b.ReportAllocs()
			i := 0
			defer cpuTime(b)()
			for b.Loop() {
				i++
				prog = withRoute(prog, 0, i*37%n, aRoute(n+i, prog.Clusters[i%n].Name))
				e.Emit(prog)
			}
		})
	}
}

// BenchmarkOneRouteAndCluster changes one route to a cluster that comes new.
func BenchmarkOneRouteAndCluster(b *testing.B) {
	prog := large(10_000, 1)
	e := NewEmitter(Options{})
	e.Emit(prog)
	less := *withRoute(prog, 0, 5000, aRoute(1, prog.Clusters[0].Name))
	less.Clusters = append(append([]*ir.Cluster(nil), prog.Clusters[:5000]...), prog.Clusters[5001:]...)
	b.ReportAllocs()
	i := 0
	defer cpuTime(b)()
	for b.Loop() {
		if i++; i%2 == 0 {
			e.Emit(prog)
		} else {
			e.Emit(&less)
		}
	}
}

// BenchmarkWriteADS writes the text of 10,000 routes and clusters.
func BenchmarkWriteADS(b *testing.B) {
	out := emit(b, large(10_000, 500))
	size := &counter{}
	defer cpuTime(b)()
	for b.Loop() {
		size.n = 0
		if err := WriteADS(size, out.Resources, "1"); err != nil {
			b.Fatal(err)
		}
	}
	b.SetBytes(size.n)
}

// BenchmarkWriteStatic writes the text of the same as one configuration.
func BenchmarkWriteStatic(b *testing.B) {
	prog := large(10_000, 500)
	out := emit(b, prog)
	defer cpuTime(b)()
	for b.Loop() {
		if err := WriteStatic(io.Discard, prog.Bootstrap, out.Resources); err != nil {
			b.Fatal(err)
		}
	}
}

type counter struct{ n int64 }

func (c *counter) Write(b []byte) (int, error) { c.n += int64(len(b)); return len(b), nil }
