package endtoend

import (
	"bytes"
	"context"
	"encoding/base64"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/chancery-gateway/chancery/runtime/metrics"
	"github.com/chancery-gateway/chancery/runtime/pipeline"
	"github.com/chancery-gateway/chancery/runtime/quarantine"
	"github.com/chancery-gateway/chancery/runtime/supervisor"
	"github.com/chancery-gateway/chancery/snapshot"
	"github.com/chancery-gateway/chancery/snapshot/api"
	"github.com/chancery-gateway/chancery/snapshot/porttest"
	"github.com/chancery-gateway/chancery/translators"
	"github.com/chancery-gateway/chancery/translators/emissary"
	"github.com/chancery-gateway/chancery/translators/envoy"
	"github.com/chancery-gateway/chancery/translators/ir"
	"github.com/chancery-gateway/chancery/xds"
	"github.com/chancery-gateway/chancery/xds/validator"
)

func decoded(b *testing.B, text string) *snapshot.Object {
	b.Helper()
	o, found := api.Decode([]byte(text), snapshot.Source{}, nil)
	if o == nil {
		b.Fatal(found)
	}
	return o
}

func resident(b *testing.B, pid int) float64 {
	b.Helper()
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/statm", pid))
	if err != nil {
		b.Fatal(err)
	}
	pages, err := strconv.Atoi(strings.Fields(string(data))[1])
	if err != nil {
		b.Fatal(err)
	}
	return float64(pages*os.Getpagesize()) / (1 << 20)
}

// computed is the processor time of a process (proc(5): stat, in ticks of 1/100 s).
func computed(b *testing.B, pid int) time.Duration {
	b.Helper()
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		b.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(data), ") ")
	fields := strings.Fields(rest)
	ticks := 0
	for _, f := range fields[11:13] {
		n, err := strconv.Atoi(f)
		if err != nil {
			b.Fatal(err)
		}
		ticks += n
	}
	return time.Duration(ticks) * 10 * time.Millisecond
}

// BenchmarkMappingToACK changes one Mapping among 5,000: from the snapshot, by compile, the validating Envoy's verdict and xDS, to the
// acknowledgement of the traffic's Envoy. They are served on 500 TLS hosts, each with a route configuration of its own, or all on one
// host in clear text, whose route configuration is sent whole.
func BenchmarkMappingToACK(b *testing.B) {
	b.Run("tls", func(b *testing.B) { mappingToACK(b, 500, "") })
	b.Run("clear", func(b *testing.B) { mappingToACK(b, 1, ", \"requestPolicy\": {\"insecure\": {\"action\": \"Route\"}}") })
}

// mappingToACK does it for a number of hosts; policy is more of each Host's spec.
func mappingToACK(b *testing.B, hosts int, policy string) {
	binary, err := supervisor.Find(os.Getenv("CHANCERY_ENVOY"))
	if err != nil {
		b.Skip(err)
	}
	ports := porttest.Free(b, 3)
	cert, key := newAuthority(b).issue("*.example.com")
	objects := []*snapshot.Object{
		decoded(b, fmt.Sprintf(`{"apiVersion":"getambassador.io/v3alpha1","kind":"Listener","metadata":{"name":"l","namespace":"app"},"spec":{"port":%d,"protocol":"HTTPS","securityModel":"XFP","hostBinding":{"namespace":{"from":"ALL"}}}}`, ports[0])),
	}
	mapping := func(i, change int) *snapshot.Object {
		return decoded(b, fmt.Sprintf(`{"apiVersion":"getambassador.io/v3alpha1","kind":"Mapping","metadata":{"name":"m%d","namespace":"app"},"spec":{"hostname":"h%d.example.com","prefix":"/m%d/","service":"127.0.0.1:%d","timeout_ms":%d}}`, i, i%hosts, i, 10_000+i%500, 3000+change))
	}
	for i := range hosts { // a Secret each: hosts that share one share a chain and its route configuration
		objects = append(objects, decoded(b, fmt.Sprintf(`{"apiVersion":"v1","kind":"Secret","metadata":{"name":"tls%d","namespace":"app"},"type":"kubernetes.io/tls","data":{"tls.crt":%q,"tls.key":%q}}`,
			i, base64.StdEncoding.EncodeToString(cert), base64.StdEncoding.EncodeToString(key))))
		objects = append(objects, decoded(b, fmt.Sprintf(`{"apiVersion":"getambassador.io/v3alpha1","kind":"Host","metadata":{"name":"h%d","namespace":"app"},"spec":{"hostname":"h%d.example.com","tlsSecret":{"name":"tls%d"}%s}}`, i, i, i, policy)))
	}
	for i := range 5000 {
		objects = append(objects, mapping(i, 0))
	}
	log := slog.New(slog.DiscardHandler)
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	server := xds.New(xds.Options{Logger: log})
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		b.Fatal(err)
	}
	go server.Serve(ctx, l, nil)
	var judge *validator.Validator
	q, err := quarantine.New(quarantine.Options{Require: true, Open: func(ctx context.Context, boot *ir.Bootstrap) (quarantine.Judge, error) {
		var err error
		judge, err = validator.New(validator.Options{Envoy: binary, Version: "bench", Runtime: envoy.Runtime(boot)})
		return judge, err
	}})
	if err != nil {
		b.Fatal(err)
	}
	published := make(chan uint64, 1)
	p := pipeline.New(pipeline.Options{Publisher: server, Prover: q, Metrics: metrics.New("bench"), Log: log,
		NewCompiler: func() pipeline.Compiler {
			return translators.New(translators.Options{FrontEnds: []translators.FrontEnd{emissary.New(emissary.Options{AmbassadorID: "default", Namespace: "app", BindAddress: "127.0.0.1"})}})
		},
		Published: func(_ *translators.Result, n uint64) { published <- n }})
	go p.Run(ctx)
	s := snapshot.Empty().Derive(objects, nil, nil)
	begun := time.Now()
	p.Deliver(s)
	first := <-published
	b.Logf("whole state compiled and proven in %s: %+v", time.Since(begun).Round(time.Millisecond), judge.Status().Metrics)
	defer judge.Close()

	boot := ir.Bootstrap{AdminPort: uint32(ports[1]), ReadyPort: uint32(ports[2])}
	bootstrap, err := envoy.Bootstrap(&boot, envoy.BootstrapOptions{ADSAddress: l.Addr().String()})
	if err != nil {
		b.Fatal(err)
	}
	var text bytes.Buffer
	if err := envoy.WriteBootstrap(&text, bootstrap); err != nil {
		b.Fatal(err)
	}
	child := supervisor.New(supervisor.Options{Path: binary, Bootstrap: text.Bytes(), Dir: b.TempDir(), AdminAddress: fmt.Sprint("127.0.0.1:", ports[1]),
		ReadyAddress: fmt.Sprint("127.0.0.1:", ports[2]), Concurrency: 2, LogLevel: "error", Stdout: io.Discard, Log: log})
	ended := make(chan error, 1)
	stop, hurry := context.WithCancelCause(ctx)
	go func() { ended <- child.Run(stop) }()
	defer func() { hurry(supervisor.ErrHurry); <-ended }()
	begun = time.Now()
	if err := server.Acknowledged(ctx, first); err != nil {
		b.Fatal(err)
	}
	b.Logf("acknowledged by a new Envoy in %s", time.Since(begun).Round(time.Millisecond))

	var times, ours []time.Duration
	pids := []int{os.Getpid(), judge.Status().PID, child.Status().PID}
	var used []time.Duration
	for _, pid := range pids {
		used = append(used, computed(b, pid))
	}
	for i := 0; b.Loop(); i++ {
		s = s.Derive([]*snapshot.Object{mapping(i*37%5000, i+1)}, nil, nil)
		at := time.Now()
		p.Deliver(s)
		n := <-published
		ours = append(ours, time.Since(at))
		if err := server.Acknowledged(ctx, n); err != nil {
			b.Fatal(err)
		}
		times = append(times, time.Since(at))
	}
	for i, name := range []string{"own", "validator", "envoy"} {
		b.ReportMetric(float64((computed(b, pids[i])-used[i]).Microseconds())/1000/float64(len(times)), name+"-cpu-ms/op")
	}
	b.ReportMetric(float64(server.Counters().Timeouts), "timeouts")
	slices.Sort(times)
	slices.Sort(ours)
	ms := func(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }
	b.ReportMetric(ms(times[len(times)/2]), "median-ms")
	b.ReportMetric(ms(times[len(times)*99/100]), "p99-ms")
	b.ReportMetric(ms(times[len(times)-1]), "max-ms")
	b.ReportMetric(ms(ours[len(ours)/2]), "proven-median-ms")
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	b.ReportMetric(float64(m.HeapAlloc)/(1<<20), "heap-MiB")
	b.ReportMetric(resident(b, os.Getpid()), "own-MiB")
	b.ReportMetric(resident(b, judge.Status().PID), "validator-MiB")
}
