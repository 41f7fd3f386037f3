package gateway

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"time"
)

// patience is how long the first compile is waited for before Envoy starts with what the last run left: the source may
// be away for long.
const patience = 2 * time.Second

// leftBootstrap is Envoy's bootstrap as a run keeps it for the next one.
type leftBootstrap struct {
	// ADS is the address that the bootstrap names; a run on another one cannot use it.
	ADS       string          `json:"ads"`
	Bootstrap json.RawMessage `json:"bootstrap"`
}

func (g *Gateway) bootstrapFile() string {
	return filepath.Join(g.options.StateDir, "last-bootstrap.json")
}

// bootstrap returns what Envoy is started with: made of the first compile, or where that does not come while a last good
// state is being served, as the last run left it. It returns nil when ctx ended.
func (g *Gateway) bootstrap(ctx context.Context) ([]byte, error) {
	var waited <-chan time.Time
	left := g.leftBootstrap()
	if left != nil {
		waited = time.After(patience)
	}
	select {
	case <-ctx.Done():
		return nil, nil
	case <-waited:
		g.log.Warn("nothing can be compiled yet; Envoy starts with the last good state of the last run")
		return left, nil
	case <-g.first:
	}
	g.receiver.await(ctx)
	data, err := g.bootstrapOf(g.pipeline.Result())
	if err != nil {
		return nil, err
	}
	g.leaveBootstrap(data)
	return data, nil
}

// leftBootstrap returns the bootstrap of the last run if it can be used with the last good state, else nil.
func (g *Gateway) leftBootstrap() []byte {
	if !g.stale.Load() {
		return nil
	}
	var left leftBootstrap
	text, err := os.ReadFile(g.bootstrapFile())
	if err != nil || json.Unmarshal(text, &left) != nil || left.ADS != g.at.ADS.String() {
		return nil // then the first compile is waited for
	}
	return left.Bootstrap
}

func (g *Gateway) leaveBootstrap(data []byte) {
	text, err := json.Marshal(leftBootstrap{ADS: g.at.ADS.String(), Bootstrap: data})
	if err == nil {
		err = os.MkdirAll(g.options.StateDir, 0o700)
	}
	if err == nil {
		err = os.WriteFile(g.bootstrapFile(), text, 0o600)
	}
	if err != nil {
		g.log.Warn("the bootstrap is not kept for the next run", "error", err)
	}
}
