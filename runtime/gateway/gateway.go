// Package gateway is the whole running program: a source, the pipeline, the discovery server, a supervised Envoy, and
// the health port, started together and ended in order.
package gateway

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"net"
	"net/http"
	"strconv"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/chancery-gateway/chancery/runtime/health"
	"github.com/chancery-gateway/chancery/runtime/metrics"
	"github.com/chancery-gateway/chancery/runtime/modules"
	"github.com/chancery-gateway/chancery/runtime/pipeline"
	"github.com/chancery-gateway/chancery/runtime/quarantine"
	"github.com/chancery-gateway/chancery/runtime/settings"
	"github.com/chancery-gateway/chancery/runtime/supervisor"
	"github.com/chancery-gateway/chancery/snapshot"
	"github.com/chancery-gateway/chancery/translators"
	"github.com/chancery-gateway/chancery/translators/envoy"
	"github.com/chancery-gateway/chancery/translators/ir"
	"github.com/chancery-gateway/chancery/xds"
)

// Source delivers snapshots until ctx ends, and knows where objects stand now; *files.Source is one.
type Source interface {
	Run(ctx context.Context, deliver func(*snapshot.Snapshot)) error
	Resolve([]snapshot.Diagnostic)
}

// Options are what a gateway is made of.
type Options struct {
	Settings *settings.Settings
	Version  string
	Source   Source
	// NewCompiler returns a compiler that remembers nothing.
	NewCompiler func() pipeline.Compiler
	// Envoy is the binary to run, "" for none.
	Envoy string
	// StateDir keeps the last good state of this very source.
	StateDir string
	Log      *slog.Logger
	// Changed is told of findings that appear and vanish; Ready, which may be nil, is called once, when requests are answered.
	Changed func(appeared, vanished []snapshot.Diagnostic)
	Ready   func(at Addresses)
	// Observe, which may be nil, is told of the present state of things whenever that changed.
	Observe func(Observation)
	// Validating, which may be nil, is told of the validating Envoy as soon as there is one.
	Validating func(quarantine.Judge)
	// Collectors are further measurements for /metrics. Policies, which may be nil, returns what /ambassador/v0/diag/ says of them.
	Collectors []prometheus.Collector
	Policies   func() any
	// PolicyActions, which may be nil, does what an operator asks of the rules: POST .../{action}.
	PolicyActions http.Handler
	// Modules, which may be nil, are the WebAssembly modules that extend the compiler.
	Modules *modules.Modules
	// Snapshots shows the source's snapshots on snapshot-address and snapshot-external-address. Posted, which may be nil, takes
	// those that programs of this machine hand in.
	Snapshots bool
	Posted    http.Handler
	// EnvoyOutput takes Envoy's standard output (access logs); nil for our own.
	EnvoyOutput io.Writer
}

// Observation is what was compiled last and all that was found about it. Answered is what was said of Gateway API's objects in
// the last configuration that an Envoy has answered.
type Observation struct {
	Result   *translators.Result
	Findings []snapshot.Diagnostic
	Answered []*ir.Status
}

// Addresses are where the gateway's own servers listen.
type Addresses struct {
	ADS, Health net.Addr
}

// Gateway is one running program.
type Gateway struct {
	options  Options
	settings *settings.Settings
	log      *slog.Logger
	booted   time.Time
	metrics  *metrics.Metrics
	server   *xds.Server
	pipeline *pipeline.Pipeline
	at       Addresses

	first    chan struct{} // closed after the first publication
	once     sync.Once
	stopping atomic.Bool
	acked    atomic.Bool
	stale    atomic.Bool  // what is served is an earlier run's
	updated  atomic.Int64 // time of the last publication, Unix nanoseconds
	answered chan struct{}
	save     chan uint64
	awaited  chan uint64
	newest   atomic.Pointer[snapshot.Snapshot]
	rebooted chan struct{}               // the bootstrap may have changed
	fleet    func(context.Context) error // serves Envoys elsewhere; nil without any
	proving  *proving                    // nil without a validating Envoy
	receiver *receiver                   // of statistics; nil without a name to look up

	mu         sync.Mutex
	supervisor *supervisor.Supervisor
	version    string // Envoy's
	agreement  agreement
	statuses   statuses
	running    []byte // the bootstrap with which it was started
}

// InUse is the error of an address that another program has.
type InUse struct {
	What, Address, Setting string
	Err                    error
}

// Error says what is in use and which setting moves it.
func (e *InUse) Error() string {
	if errors.Is(e.Err, syscall.EADDRINUSE) {
		return fmt.Sprintf("%s %s is in use by another program; end that, or choose another with --%s", e.What, e.Address, e.Setting)
	}
	return fmt.Sprintf("%s %s cannot be used: %v; choose another with --%s", e.What, e.Address, e.Err, e.Setting)
}

// Unwrap returns the system's error.
func (e *InUse) Unwrap() error { return e.Err }

// Run runs everything until ctx ends, then ends it in order and returns nil. It returns an *InUse for an address that cannot be had, and
// any other error when a part cannot go on.
func Run(ctx context.Context, o Options) error {
	s := o.Settings
	g := &Gateway{
		options: o, settings: s, log: o.Log, booted: time.Now(), metrics: metrics.New(o.Version),
		first: make(chan struct{}), answered: make(chan struct{}, 1), save: make(chan uint64, 1), awaited: make(chan uint64, 1), rebooted: make(chan struct{}, 1),
	}
	g.receiver = newReceiver(s.StatsdHost, s.Statsd && o.Envoy != "")
	if s.Statsd && o.Envoy == "" {
		o.Log.Warn("statsd has no effect: Envoys that others start have bootstraps of their own, which say where statistics go")
	}
	if o.Modules != nil {
		g.metrics.Register(o.Modules.Collector())
	}
	for _, c := range o.Collectors {
		g.metrics.Register(c)
	}
	ads, err := listen("tcp", s.ADSAddress, "the xDS address", "ads-address")
	if err != nil {
		return err
	}
	defer ads.Close()
	network := map[string]string{"ipv4_only": "tcp4", "ipv6_only": "tcp6"}[s.HealthFamily]
	if network == "" {
		network = "tcp"
	}
	probes, err := listen(network, net.JoinHostPort(s.HealthAddress, strconv.Itoa(s.HealthPort)), "the health address", "health-port")
	if err != nil {
		return err
	}
	defer probes.Close()
	fleet, security, err := g.listenFleet()
	if err != nil {
		return err
	}
	if fleet != nil {
		defer fleet.Close()
	}
	g.at = Addresses{ads.Addr(), probes.Addr()}
	if at, ok := probes.Addr().(*net.TCPAddr); ok {
		s.HealthPort = at.Port // by now the system has chosen one, where that was left to it
	}
	if o.Envoy != "" && !(s.EnvoyOutlives && supervisor.Alive(ctx, g.admin())) {
		if err := free(s.AdminPort, "Envoy's admin address", "admin-port"); err != nil {
			return err
		}
		if err := free(s.ReadyPort, "Envoy's ready address", "ready-port"); err != nil {
			return err
		}
	}
	g.server = xds.New(xds.Options{Logger: o.Log, RemovalGrace: s.DrainTime, Fit: envoy.Fit, OnStatus: func() { g.heard(0) }, Warm: g.warm, OnSent: g.sent, OnACK: func(a xds.ACK) { g.heard(a.Took) }, OnNACK: func(n xds.NACK) {
		g.metrics.Refused()
		g.log.Error("Envoy refuses a resource", "node", n.Node, "type", n.Type, "names", n.Names, "text", n.Text)
		g.heard(0)
	}})
	g.loadLastGood()
	g.proving = g.newProving()
	defer g.proving.close()
	g.pipeline = pipeline.New(pipeline.Options{
		NewCompiler: o.NewCompiler, Cold: !s.FastReconfigure, Publisher: g.server, Prover: g.proving.quarantine, Metrics: g.metrics, Log: o.Log,
		Resolve: o.Source.Resolve, Changed: g.changed, Published: g.published,
		Acknowledged: g.server.Acknowledged,
	})
	if fleet != nil {
		g.fleet = func(ctx context.Context) error { return g.serveFleet(ctx, fleet, security) }
	}
	snapshots, err := g.listenForSnapshots()
	if err != nil {
		return err
	}
	return g.run(ctx, ads, probes, snapshots)
}

// run starts the parts. What traffic needs ends last: first Envoy, then everything that it talks to.
func (g *Gateway) run(ctx context.Context, ads, probes net.Listener, snapshots []net.Listener) error {
	rest, end := context.WithCancel(context.WithoutCancel(ctx))
	var parts sync.WaitGroup
	failed := make(chan error, 8)
	part := func(name string, f func(context.Context) error) {
		parts.Go(func() {
			if err := f(rest); err != nil && rest.Err() == nil {
				failed <- fmt.Errorf("%s: %w", name, err)
			}
		})
	}
	part("xDS server", func(ctx context.Context) error { return g.server.Serve(ctx, ads, nil) })
	if g.fleet != nil {
		part("xDS server of the fleet", g.fleet)
	}
	part("health server", func(ctx context.Context) error { return health.Serve(ctx, probes, g.handler()) })
	part("pipeline", func(ctx context.Context) error { g.pipeline.Run(ctx); return nil })
	part("source", func(ctx context.Context) error {
		return g.options.Source.Run(ctx, func(s *snapshot.Snapshot) {
			g.newest.Store(s)
			g.pipeline.Deliver(s)
		})
	})
	for _, s := range snapshots {
		part("snapshot server", func(ctx context.Context) error { return health.Serve(ctx, s, g.snapshotHandler()) })
	}
	part("answers of Envoys", g.followAnswers)
	part("publications", g.followPublications)
	part("last good state", g.keepLastGood)
	part("bootstrap of Envoy", g.followBootstrap)
	part("version of Envoy", g.askVersion)
	part("sockets of Envoy", g.followSockets)
	if g.receiver != nil {
		part("receiver of statistics", g.followReceiver)
	}
	part("proof", g.prove)
	if m := g.options.Modules; m != nil {
		part("modules", func(ctx context.Context) error {
			return m.Run(ctx, func(found []snapshot.Diagnostic) { g.pipeline.Add("modules", found) })
		})
	}
	if g.options.Ready != nil {
		part("readiness", func(ctx context.Context) error { g.tellReady(ctx); return nil })
	}
	child := make(chan error, 1)
	watched, stop := context.WithCancelCause(ctx)
	if g.options.Envoy != "" {
		go func() { child <- g.supervise(watched) }()
	} else {
		go func() { <-watched.Done(); child <- nil }()
	}
	var err error
	select {
	case err = <-failed:
		stop(supervisor.ErrHurry)
		<-child
	case err = <-child:
	case <-ctx.Done():
		g.stopping.Store(true)
		g.log.Info("ending: no new work, requests in flight are waited for")
		stop(context.Cause(ctx))
		err = <-child
	}
	stop(nil)
	end()
	parts.Wait()
	g.log.Info("ended")
	return err
}

// listen takes an address for good.
func listen(network, address, what, setting string) (net.Listener, error) {
	l, err := net.Listen(network, address)
	if err != nil {
		return nil, &InUse{What: what, Address: address, Setting: setting, Err: err}
	}
	return l, nil
}

// free checks an address that Envoy will take.
func free(port int, what, setting string) error {
	l, err := listen("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(port)), what, setting)
	if err != nil {
		return err
	}
	return l.Close()
}

// loadLastGood serves what was good in the last run, until the first compile is there.
func (g *Gateway) loadLastGood() {
	set, err := xds.Load(g.options.StateDir)
	switch {
	case errors.Is(err, fs.ErrNotExist):
	case err != nil:
		g.log.Warn("the last good state cannot be used", "error", err)
	default:
		g.server.Publish(set)
		g.stale.Store(true)
		g.log.Info("serving the last good state until the first compile", "dir", g.options.StateDir)
	}
}

// keepLastGood writes what is served to disk once an Envoy has taken all of it.
func (g *Gateway) keepLastGood(ctx context.Context) error {
	for {
		var publication uint64
		select {
		case <-ctx.Done():
			return nil
		case publication = <-g.save:
		}
		if g.options.Envoy != "" && publication > 0 {
			waiting, cancel := context.WithTimeout(ctx, 30*time.Second)
			err := g.server.Acknowledged(waiting, publication)
			cancel()
			if err != nil {
				continue // refused or without an answer: what is on disk stays the last good
			}
		}
		begun := time.Now()
		if err := xds.Save(g.options.StateDir, g.server.Served()); err != nil {
			g.log.Warn("the last good state is not kept", "error", err)
		}
		g.proving.save()
		g.metrics.Stage("save", time.Since(begun))
		select { // endpoint changes come in bursts; once a second is often enough
		case <-ctx.Done():
			return nil
		case <-time.After(time.Second):
		}
	}
}

// changed is told of findings that appeared and vanished by the pipeline.
func (g *Gateway) changed(appeared, vanished []snapshot.Diagnostic) {
	if g.options.Changed != nil {
		g.options.Changed(appeared, vanished)
	}
	g.observe(g.pipeline.Result())
}

func (g *Gateway) observe(r *translators.Result) {
	if g.options.Observe == nil || r == nil {
		return
	}
	g.mu.Lock()
	answered := g.statuses.answered
	g.mu.Unlock()
	g.options.Observe(Observation{r, g.pipeline.Findings(), answered})
}

// published is told of each publication by the pipeline.
func (g *Gateway) published(r *translators.Result, publication uint64) {
	if publication > 0 {
		g.publish(r.Program, publication)
		g.await(r, publication)
		g.observe(r)
		g.reboot()
	}
	g.updated.Store(time.Now().UnixNano())
	g.once.Do(func() {
		g.stale.Store(false)
		close(g.first)
	})
	newest(g.save, publication)
}
