package gateway

import (
	"context"
	"errors"
	"path/filepath"
	"sync"

	"github.com/chancery-gateway/chancery/runtime/metrics"
	"github.com/chancery-gateway/chancery/runtime/quarantine"
	"github.com/chancery-gateway/chancery/runtime/supervisor"
	"github.com/chancery-gateway/chancery/translators/envoy"
	"github.com/chancery-gateway/chancery/translators/ir"
	"github.com/chancery-gateway/chancery/xds/validator"
)

// proving is the proof stage: Chancery's own rules, the validating Envoy where there is one, and what follows from their verdicts.
type proving struct {
	gateway    *Gateway
	quarantine *quarantine.Quarantine
	// asks: there is an Envoy to ask, or has to be one.
	asks bool

	mu        sync.Mutex
	validator *validator.Validator // nil before the first result
}

// newProving loads what earlier runs knew. The Envoy starts with the first result, whose settings it needs.
func (g *Gateway) newProving() *proving {
	p := &proving{gateway: g, asks: g.options.Envoy != "" && g.settings.Validator || g.settings.RequireValidator}
	o := quarantine.Options{Require: g.settings.RequireValidator, Dir: g.options.StateDir, Log: g.log}
	if p.asks {
		o.Open = p.open
	}
	var err error
	p.quarantine, err = quarantine.New(o)
	if err != nil {
		g.log.Warn("the last good forms of objects are not used", "error", err)
	}
	if !p.asks {
		return p
	}
	g.metrics.WatchValidator(func() metrics.Validator {
		s := p.status()
		return metrics.Validator{Up: s.Running, Judged: s.Judged, Refused: s.Refused, CacheHits: s.CacheHits, Responses: s.Responses, Took: s.Took, Starts: s.Starts, Deaths: s.Deaths, Hangs: s.Hangs,
			Held: uint64(p.quarantine.Held())}
	})
	return p
}

func (p *proving) open(ctx context.Context, b *ir.Bootstrap) (quarantine.Judge, error) {
	g := p.gateway
	if g.options.Envoy == "" || !g.settings.Validator {
		return nil, errors.New("a validating Envoy is required, but the settings leave none to start")
	}
	version, err := supervisor.Version(ctx, g.options.Envoy)
	if err != nil {
		return nil, err
	}
	v, err := validator.New(validator.Options{Envoy: g.options.Envoy, Version: version, Runtime: envoy.Runtime(b), Dir: filepath.Join(g.options.StateDir, "validator"), Log: g.log})
	if err != nil {
		return nil, err
	}
	p.mu.Lock()
	old := p.validator
	p.validator = v
	if tell := g.options.Validating; tell != nil {
		tell(v)
	}
	p.mu.Unlock()
	if old != nil { // the traffic has another Envoy now; what the last one said of it counts no more
		if err := old.Close(); err != nil {
			g.log.Warn("the verdicts of Envoy are not kept", "error", err)
		}
	}
	return v, nil
}

// renew has everything judged anew, by an Envoy such as the traffic has now: its settings or its version may be others.
func (p *proving) renew() {
	if p.asks {
		p.quarantine.Reopen()
		p.gateway.pipeline.Renew()
	}
}

// status returns the state of the validating Envoy; the zero value before there is one.
func (p *proving) status() validator.Status {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.validator == nil {
		return validator.Status{}
	}
	return p.validator.Status()
}

// save writes verdicts and last good forms to the disk.
func (p *proving) save() {
	if err := p.quarantine.Save(); err != nil {
		p.gateway.log.Warn("the last good forms of objects are not kept", "error", err)
	}
	p.mu.Lock()
	v := p.validator
	p.mu.Unlock()
	if v == nil {
		return
	}
	if err := v.Save(); err != nil {
		p.gateway.log.Warn("the verdicts of Envoy are not kept", "error", err)
	}
}

func (p *proving) close() {
	p.mu.Lock()
	v := p.validator
	p.mu.Unlock()
	if v == nil {
		return
	}
	if err := v.Close(); err != nil {
		p.gateway.log.Warn("the verdicts of Envoy are not kept", "error", err)
	}
}
