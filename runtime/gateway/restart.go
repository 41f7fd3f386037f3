package gateway

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/chancery-gateway/chancery/runtime/proof"
	"github.com/chancery-gateway/chancery/snapshot"
	"github.com/chancery-gateway/chancery/translators"
	"github.com/chancery-gateway/chancery/translators/envoy"
)

var codeBootstrap = snapshot.NewCode("CH-RUN-001", "Envoy runs with an older bootstrap",
	"A setting was changed that Envoy reads at its start only, such as a Module's regex_max_size or runtime_flags.",
	"Start Chancery again, or let it restart Envoy hot: set --envoy-base-id to a number that no other Envoy on the machine has.")

// bootstrapOf makes Envoy's bootstrap for a result.
func (g *Gateway) bootstrapOf(r *translators.Result) ([]byte, error) {
	base := g.settings.Bootstrap(r.Program)
	if at := g.receiver.address(); at.IsValid() {
		base.Statsd = g.settings.SendStatistics(at)
	}
	b, err := envoy.Bootstrap(base, envoy.BootstrapOptions{ADSAddress: g.at.ADS.String()})
	if err != nil {
		return nil, fmt.Errorf("bootstrap of Envoy: %w", err)
	}
	var data bytes.Buffer
	if err := envoy.WriteBootstrap(&data, b); err != nil {
		return nil, fmt.Errorf("bootstrap of Envoy: %w", err)
	}
	return data.Bytes(), nil
}

// reboot asks for a look at whether the bootstrap has changed.
func (g *Gateway) reboot() {
	select {
	case g.rebooted <- struct{}{}:
	default:
	}
}

// followBootstrap restarts Envoy hot when its bootstrap changes, or says that it runs with an older one; and restarts it when SIGHUP
// asks for that, as after an upgrade of the binary.
func (g *Gateway) followBootstrap(ctx context.Context) error {
	asked := make(chan os.Signal, 1)
	if g.settings.EnvoyBaseID > 0 {
		signal.Notify(asked, syscall.SIGHUP)
		defer signal.Stop(asked)
	}
	for {
		force := false
		select {
		case <-ctx.Done():
			return nil
		case <-g.rebooted:
		case <-asked:
			force = true
		}
		r := g.pipeline.Result()
		g.mu.Lock()
		running, child := g.running, g.supervisor
		g.mu.Unlock()
		if r == nil || child == nil {
			continue
		}
		wanted, err := g.bootstrapOf(r)
		if err != nil {
			g.log.Error("Envoy goes on with the bootstrap that it has", "error", err)
			continue
		}
		var found []snapshot.Diagnostic
		if changed := !bytes.Equal(wanted, running); changed || force {
			err := child.HotRestart(ctx, func() (_ []byte, err error) {
				wanted, err = g.bootstrapOf(g.pipeline.Result()) // it may have taken a while
				return wanted, err
			})
			switch {
			case ctx.Err() != nil:
				return nil
			case err != nil:
				g.log.Error("Envoy is not restarted", "error", err)
				if changed {
					found = proof.Diagnostics(codeBootstrap, "Envoy runs with an older bootstrap: "+err.Error(), codeBootstrap.Cure, r.Program.Bootstrap.Origins, r.Snapshot)
					for i := range found {
						found[i].Severity = snapshot.Warning
					}
				}
			default:
				g.mu.Lock()
				g.running = wanted
				g.mu.Unlock()
				g.leaveBootstrap(wanted)
				g.proving.renew()
			}
		}
		g.pipeline.Add("bootstrap", found)
	}
}
