package translators_test

import (
	"fmt"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"

	"github.com/chancery-gateway/chancery/snapshot"
	"github.com/chancery-gateway/chancery/snapshot/api"
	"github.com/chancery-gateway/chancery/translators"
)

// benchSizes are the numbers of Mappings at which everything is measured.
var benchSizes = []int{100, 1000, 10_000, 50_000}

// bench input: n Mappings spread over hosts Hosts with TLS, a Service and an EndpointSlice for each Mapping.
func benchDocuments(n, hosts int, wildcard bool) []string {
	var docs []string
	add := func(format string, args ...any) { docs = append(docs, fmt.Sprintf(format, args...)) }
	for i, protocol := range []string{"HTTP", "HTTPS"} {
		add(`{"apiVersion":"getambassador.io/v3alpha1","kind":"Listener","metadata":{"name":"l%d","namespace":"gw"},"spec":{"port":%d,"protocol":%q,"securityModel":"XFP","hostBinding":{"namespace":{"from":"ALL"}}}}`, i, 8080+i, protocol)
	}
	for h := range hosts {
		add(`{"apiVersion":"v1","kind":"Secret","metadata":{"name":"cert-%d","namespace":"team-%d"},"type":"kubernetes.io/tls","data":{"tls.crt":"$CERT","tls.key":"$KEY"}}`, h, h%20)
		add(`{"apiVersion":"getambassador.io/v3alpha1","kind":"Host","metadata":{"name":"host-%d","namespace":"team-%d"},"spec":{"hostname":"h%05d.example.com","tlsSecret":{"name":"cert-%d"}}}`, h, h%20, h, h)
	}
	for i := range n {
		docs = append(docs, benchMapping(i, hosts, wildcard, 3000+i%5*1000))
		add(`{"apiVersion":"v1","kind":"Service","metadata":{"name":"svc-%05d","namespace":"team-%d"},"spec":{"type":"ClusterIP","clusterIP":"10.96.%d.%d","ports":[{"name":"http","port":8080,"protocol":"TCP","targetPort":8080}]}}`, i, i%20, i/256%256, i%256)
		add(`{"apiVersion":"discovery.k8s.io/v1","kind":"EndpointSlice","metadata":{"name":"svc-%05d-a","namespace":"team-%d","labels":{"kubernetes.io/service-name":"svc-%05d"}},"addressType":"IPv4","ports":[{"name":"http","port":8080,"protocol":"TCP"}],"endpoints":[{"addresses":["10.1.%d.%d"],"conditions":{"ready":true}}]}`, i, i%20, i, i/256%256, i%256)
	}
	for i := range docs {
		docs[i] = withKeys(docs[i])
	}
	return docs
}

func benchMapping(i, hosts int, wildcard bool, timeout int) string {
	hostname := fmt.Sprintf("h%05d.example.com", i%hosts)
	if wildcard {
		hostname = "*"
	}
	path, extra := fmt.Sprintf("/h%d/svc-%d/api/v1/", i%hosts, i), ""
	switch i % 10 {
	case 0:
		path, extra = fmt.Sprintf("/r%d/[a-z0-9-]+/[0-9]{1,8}", i), `,"prefix_regex":true`
	case 1, 2:
		extra = fmt.Sprintf(`,"headers":{"x-tenant":"t%d"}`, i%7)
	case 3:
		extra = `,"retry_policy":{"retry_on":"5xx","num_retries":2}`
	case 4:
		extra = `,"add_request_headers":{"x-team":{"value":"a","append":false}}`
	}
	return fmt.Sprintf(`{"apiVersion":"getambassador.io/v3alpha1","kind":"Mapping","metadata":{"name":"mapping-%06d","namespace":"team-%d"},"spec":{"hostname":%q,"prefix":%q,"service":"svc-%05d:8080","timeout_ms":%d%s}}`,
		i, i%20, hostname, path, i, timeout, extra)
}

func decodeAll(tb testing.TB, docs []string) []*snapshot.Object {
	tb.Helper()
	out := make([]*snapshot.Object, 0, len(docs))
	for _, d := range docs {
		os, ds := api.DecodeAll([]byte(d), snapshot.Source{}, nil)
		if len(os) == 0 {
			tb.Fatalf("%s: %v", d, ds)
		}
		out = append(out, os...)
	}
	return out
}

// cpu is the process's user and system time: wall time means little on a shared machine.
func cpu() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		panic(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// messages decodes all resources of a result, for the limit: the time that marshalling them alone takes.
func messages(tb testing.TB, r *translators.Result) []proto.Message {
	tb.Helper()
	var out []proto.Message
	for _, rs := range r.Resources {
		for _, x := range rs {
			m, err := (&anypb.Any{TypeUrl: x.Type, Value: x.Value}).UnmarshalNew()
			if err != nil {
				tb.Fatal(err)
			}
			out = append(out, m)
		}
	}
	return out
}

func marshalAll(tb testing.TB, ms []proto.Message) (time.Duration, int) {
	tb.Helper()
	size := 0
	start := cpu()
	for _, m := range ms {
		b, err := proto.MarshalOptions{Deterministic: true}.Marshal(m)
		if err != nil {
			tb.Fatal(err)
		}
		size += len(b)
	}
	return cpu() - start, size
}

// median is what a measurement is on a machine that others use too.
func median(all []time.Duration) time.Duration {
	slices.Sort(all)
	return all[len(all)/2]
}

// BenchmarkCold compiles decoded objects from nothing. x-limit is the CPU time as a multiple of what marshalling the very
// same output takes (DESIGN: at most 3), both the median of as many runs; us-per-mapping shows the growth.
func BenchmarkCold(b *testing.B) {
	for _, n := range benchSizes {
		hosts := min(500, max(5, n/20))
		b.Run(fmt.Sprintf("mappings=%d/hosts=%d", n, hosts), func(b *testing.B) { benchCold(b, n, hosts, false) })
	}
	b.Run("wildcard/mappings=1000/hosts=50", func(b *testing.B) { benchCold(b, 1000, 50, true) })
}

func benchCold(b *testing.B, n, hosts int, wildcard bool) {
	objects := decodeAll(b, benchDocuments(n, hosts, wildcard))
	s := snapshot.Empty().Derive(objects, nil, nil)
	var r *translators.Result
	var spent []time.Duration
	b.ReportAllocs()
	b.ResetTimer()
	for b.Loop() {
		start := cpu()
		r = newCompiler().Compile(s)
		spent = append(spent, cpu()-start)
	}
	b.StopTimer()
	if r.Errors() > 0 {
		b.Fatal(r.Diagnostics[0])
	}
	ms := messages(b, r)
	var limits []time.Duration
	size := 0
	for range max(5, len(spent)) {
		limit, n := marshalAll(b, ms)
		limits, size = append(limits, limit), n
	}
	perOp, limit := median(spent), median(limits)
	b.ReportMetric(float64(perOp)/float64(limit), "x-limit")
	b.ReportMetric(float64(perOp.Microseconds())/float64(n), "us-cpu/mapping")
	b.ReportMetric(float64(size)/1e6, "MB-output")
	b.ReportMetric(float64(r.Timings.Lower.Microseconds())/1e3, "ms-lower")
	b.ReportMetric(float64(r.Timings.Link.Microseconds())/1e3, "ms-link")
	b.ReportMetric(float64(r.Timings.Emit.Microseconds())/1e3, "ms-emit")
}

// BenchmarkWarm changes one Mapping (or one endpoint) among n and brings everything up to date. The counts are part of
// the claim: one object lowered, one group linked. With clear text there is one route configuration of all hosts, whose
// bytes grow with n; over TLS alone a change touches its own host's, whatever n is.
func BenchmarkWarm(b *testing.B) {
	for _, n := range benchSizes {
		hosts := min(500, max(5, n/20))
		docs := benchDocuments(n, hosts, false)
		b.Run(fmt.Sprintf("mapping/of=%d", n), func(b *testing.B) { benchWarm(b, docs, n, hosts) })
		var tls []string
		for _, d := range docs {
			if !strings.Contains(d, `"protocol":"HTTP"`) {
				tls = append(tls, strings.Replace(d, `"securityModel":"XFP"`, `"securityModel":"SECURE"`, 1))
			}
		}
		b.Run(fmt.Sprintf("mapping-tls/of=%d", n), func(b *testing.B) { benchWarm(b, tls, n, hosts) })
	}
	b.Run("endpoint/of=10000", func(b *testing.B) {
		docs := benchDocuments(10_000, 500, false)
		for i := range docs {
			docs[i] = strings.Replace(docs[i], `"timeout_ms"`, `"resolver":"endpoint","timeout_ms"`, 1)
		}
		s := snapshot.Empty().Derive(decodeAll(b, docs), nil, nil)
		c := newCompiler()
		c.Compile(s)
		i := 0
		for b.Loop() {
			i++
			o := decodeAll(b, []string{fmt.Sprintf(`{"apiVersion":"discovery.k8s.io/v1","kind":"EndpointSlice","metadata":{"name":"svc-00007-a","namespace":"team-7","labels":{"kubernetes.io/service-name":"svc-00007"}},"addressType":"IPv4","ports":[{"name":"http","port":8080}],"endpoints":[{"addresses":["10.2.%d.%d"]}]}`, i/250%250, i%250)})
			s = s.Derive(o, nil, nil)
			if changed, ok := c.Endpoints(s); !ok || len(changed) != 1 {
				b.Fatalf("%d changed, %v", len(changed), ok)
			}
			s.Forget()
		}
	})
}

func benchWarm(b *testing.B, docs []string, n, hosts int) {
	c, s := newCompiler(), snapshot.Empty().Derive(decodeAll(b, docs), nil, nil)
	c.Compile(s)
	spent, i := time.Duration(0), 0
	b.ReportAllocs()
	for b.Loop() {
		i++
		o := decodeAll(b, []string{benchMapping(n/2, hosts, false, 10_000+i)})
		start := cpu()
		s = s.Derive(o, nil, nil)
		r := c.Compile(s)
		spent += cpu() - start
		s.Forget()
		if r.Counts.Lowered != 1 || r.Counts.Linked != 1 {
			b.Fatalf("lowered %d, linked %d", r.Counts.Lowered, r.Counts.Linked)
		}
	}
	b.ReportMetric(float64(spent.Microseconds())/float64(b.N)/1e3, "ms-cpu/change")
}

// BenchmarkDecode is the other half of the physical limit: all documents of the input to typed objects.
func BenchmarkDecode(b *testing.B) {
	docs := benchDocuments(10_000, 500, false)
	b.ReportAllocs()
	for b.Loop() {
		decodeAll(b, docs)
	}
}

// BenchmarkMemory reports the live heap of a compiler that holds 10,000 Mappings with their output.
func BenchmarkMemory(b *testing.B) {
	docs := benchDocuments(10_000, 500, false)
	for b.Loop() {
		var before, after runtime.MemStats
		debug.FreeOSMemory()
		runtime.ReadMemStats(&before)
		s := snapshot.Empty().Derive(decodeAll(b, docs), nil, nil)
		runtime.GC()
		runtime.ReadMemStats(&after)
		b.ReportMetric(float64(after.HeapAlloc-before.HeapAlloc)/1e6, "MB-snapshot")
		c := newCompiler()
		r := c.Compile(s)
		runtime.GC()
		runtime.ReadMemStats(&after)
		b.ReportMetric(float64(after.HeapAlloc-before.HeapAlloc)/1e6, "MB-all")
		runtime.KeepAlive(r)
		runtime.KeepAlive(c)
	}
}
