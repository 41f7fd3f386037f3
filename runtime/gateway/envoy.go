package gateway

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strconv"
	"time"

	"github.com/chancery-gateway/chancery/runtime/proof"
	"github.com/chancery-gateway/chancery/runtime/supervisor"
	"github.com/chancery-gateway/chancery/snapshot"
	"github.com/chancery-gateway/chancery/translators/envoy"
	"github.com/chancery-gateway/chancery/translators/ir"
	"github.com/chancery-gateway/chancery/xds"
)

// supervise runs Envoy from the first publication on, or from when the last good state has to do.
func (g *Gateway) supervise(ctx context.Context) error {
	bootstrap, err := g.bootstrap(ctx)
	if bootstrap == nil || err != nil {
		return err
	}
	s := g.settings
	child := supervisor.New(supervisor.Options{
		Path: g.options.Envoy, Bootstrap: bootstrap, Dir: g.options.StateDir,
		AdminAddress: g.admin(), ReadyAddress: g.ready(), Concurrency: s.EnvoyConcurrency, BaseID: s.EnvoyBaseID,
		LogLevel: s.EnvoyLogLevel, DrainTime: s.DrainTime, Grace: s.ShutdownGrace, Outlives: s.EnvoyOutlives,
		Stdout: g.options.EnvoyOutput, Log: g.log,
	})
	g.mu.Lock()
	g.supervisor, g.running = child, bootstrap
	g.mu.Unlock()
	g.reboot()
	return child.Run(ctx)
}

// askVersion notes the version of the binary, and says so when it is too old.
func (g *Gateway) askVersion(ctx context.Context) error {
	if g.options.Envoy == "" {
		return nil
	}
	version, err := supervisor.Version(ctx, g.options.Envoy)
	if err != nil {
		return err
	}
	g.mu.Lock()
	g.version = version
	g.mu.Unlock()
	if !supervisor.Supported(version) {
		g.pipeline.Add("version", []snapshot.Diagnostic{{Severity: snapshot.Warning, Code: proof.Outdated,
			Message: fmt.Sprintf("%s is Envoy %s", g.options.Envoy, version), Help: "use Envoy 1.36 or later"}})
	}
	return nil
}

// child returns the state of the child process and its version; ok is false where there is none.
func (g *Gateway) child() (status supervisor.Status, version string, ok bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.options.Envoy == "" {
		return supervisor.Status{State: supervisor.Unwanted}, "", false
	}
	if g.supervisor == nil {
		return supervisor.Status{State: supervisor.Waiting}, "", false
	}
	return g.supervisor.Status(), g.version, true
}

func (g *Gateway) admin() string {
	return net.JoinHostPort("127.0.0.1", strconv.Itoa(g.settings.AdminPort))
}

func (g *Gateway) ready() string {
	return net.JoinHostPort("127.0.0.1", strconv.Itoa(g.settings.ReadyPort))
}

// sent times what is handed to an Envoy.
func (g *Gateway) sent(s xds.Sent) {
	if s.Type == ir.TypeEndpoint {
		g.metrics.Stage("send-endpoints", s.Waited)
		return
	}
	g.metrics.Stage("send", s.Waited)
}

// heard notes that an Envoy answered.
func (g *Gateway) heard(took time.Duration) {
	if took > 0 {
		g.metrics.Stage("acknowledge", took)
	}
	select {
	case g.answered <- struct{}{}:
	default:
	}
}

// followAnswers turns refusals that stand into findings about their objects, and what older Envoys do without.
func (g *Gateway) followAnswers(ctx context.Context) error {
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-g.answered:
		}
		var found []snapshot.Diagnostic
		s := snapshot.Empty()
		if r := g.pipeline.Result(); r != nil {
			s = r.Snapshot
		}
		nodes := g.server.Status()
		for _, node := range nodes {
			for _, t := range node.Types {
				for _, n := range t.Refused {
					help := "Envoy goes on with what it had before"
					found = append(found, proof.Diagnostics(proof.NotAccepted, n.Text, help, g.blame(&n), s)...)
				}
			}
		}
		if len(found) == 0 {
			g.agree(ctx)
		}
		g.pipeline.Add("answers of Envoys", snapshot.SortDiagnostics(append(found, older(nodes, s)...)))
		g.settle(ctx)
	}
}

// prove asks Envoy once, at the start, for its verdict over what no validating Envoy judges: the bootstrap, or without such an
// Envoy the whole first configuration.
func (g *Gateway) prove(ctx context.Context) error {
	if g.options.Envoy == "" {
		return nil
	}
	select {
	case <-ctx.Done():
		return nil
	case <-g.first:
	}
	r := g.pipeline.Result()
	var static bytes.Buffer
	resources := r.Resources
	if g.proving.asks {
		resources = nil
	}
	if err := envoy.WriteStatic(&static, g.settings.Bootstrap(r.Program), resources); err != nil {
		g.log.Warn("Envoy could not be asked for its verdict", "error", err)
		return nil
	}
	begun := time.Now()
	refusal, err := proof.Validate(ctx, g.options.Envoy, static.Bytes(), os.TempDir())
	g.metrics.Stage("validate", time.Since(begun))
	switch {
	case ctx.Err() != nil:
	case err != nil:
		g.log.Warn("Envoy could not be asked for its verdict", "error", err)
	case refusal != "":
		g.pipeline.Add("proof", proof.Diagnostics(proof.Refused, refusal, "", proof.About(refusal, r.Resources), r.Snapshot))
	}
	return nil
}

// get asks Envoy itself over the loopback address.
func get(ctx context.Context, url string) (*http.Response, error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return nil, err
	}
	return http.DefaultClient.Do(r)
}

// isReady answers check_ready.
func (g *Gateway) isReady(ctx context.Context) (bool, string) {
	r := g.pipeline.Result()
	switch {
	case g.stopping.Load():
		return false, "Chancery is ending"
	case r == nil && !g.stale.Load():
		return false, "waiting for the first configuration"
	case r != nil && r.Errors() > 0 && len(r.Program.Listeners) == 0:
		return false, "nothing can be served: the input has errors and no usable Listener"
	case g.options.Envoy == "":
		return true, "Chancery is ready; it runs no Envoy"
	}
	if !g.acked.Load() {
		now, cancel := context.WithCancel(ctx)
		cancel() // only what is known now counts
		if err := g.server.Acknowledged(now, 1); err != nil {
			return false, "waiting for Envoy to acknowledge the first configuration"
		}
		g.acked.Store(true)
	}
	// The ready listener is answered by Envoy's workers, which are not held up by configuration as the admin interface is.
	bounded, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	resp, err := get(bounded, "http://"+g.ready()+"/ready")
	if err != nil {
		return false, "Envoy does not answer on its ready port"
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return false, fmt.Sprintf("Envoy is not ready: %s", resp.Status)
	}
	if g.stale.Load() {
		return true, "Envoy is ready, with the last good state of an earlier run: nothing could be compiled yet"
	}
	return true, "Chancery and Envoy are ready"
}

// longestStep is the time after which a step of the pipeline is taken for stuck.
const longestStep = 10 * time.Minute

// isAlive answers check_alive. A busy or absent Envoy, or a bad configuration, is no reason to be killed.
func (g *Gateway) isAlive(context.Context) (bool, string) {
	if busy := g.pipeline.Busy(); busy > longestStep {
		return false, fmt.Sprintf("one compile has been running for %s", busy.Round(time.Second))
	}
	return true, "Chancery is alive"
}

// tellReady calls Ready as soon as requests are answered.
func (g *Gateway) tellReady(ctx context.Context) {
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for {
		if ok, _ := g.isReady(ctx); ok {
			g.options.Ready(g.at)
			return
		}
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

// writeOwnMetrics writes our own metrics.
func (g *Gateway) writeOwnMetrics(w io.Writer) error {
	status, _, ok := g.child()
	g.metrics.Envoy(ok && status.State == supervisor.Running, status.Restarts)
	return g.metrics.Write(w)
}

// writeMetrics writes our own metrics and then Envoy's.
func (g *Gateway) writeMetrics(ctx context.Context, w io.Writer) error {
	status, _, ok := g.child()
	if err := g.writeOwnMetrics(w); err != nil {
		return err
	}
	if !ok || status.State != supervisor.Running {
		return nil
	}
	bounded, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	resp, err := get(bounded, "http://"+g.admin()+"/stats/prometheus")
	if err != nil {
		return fmt.Errorf("metrics of Envoy: %w", err)
	}
	defer resp.Body.Close()
	_, err = io.Copy(w, resp.Body)
	return err
}

// serverInfo is what is read of Envoy's /server_info.
type serverInfo struct {
	State string `json:"state"`
}

// envoyState asks Envoy for its own state, "" when it does not answer.
func (g *Gateway) envoyState(ctx context.Context) string {
	bounded, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	resp, err := get(bounded, "http://"+g.admin()+"/server_info")
	if err != nil {
		return ""
	}
	defer resp.Body.Close()
	var info serverInfo
	if json.NewDecoder(resp.Body).Decode(&info) != nil {
		return ""
	}
	return info.State
}
