package gateway

import (
	"cmp"
	"context"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"sync"
	"time"

	"github.com/chancery-gateway/chancery/snapshot"
)

var codeStatsd = snapshot.NewCode("CH-RUN-002", "Nobody is sent Envoy's statistics",
	"statsd is set, and the name in statsd-host (Emissary: STATSD_HOST) leads to no address.",
	"Name a host that DNS knows, such as statsd-sink.monitoring, or an IP address; the name is looked up again twice a minute.")

// lookUpEvery is the time between two look-ups of the receiver of statistics.
const lookUpEvery = 30 * time.Second

// receiver is whoever takes Envoy's statistics. Envoy wants an address, so names are looked up here.
type receiver struct {
	host   string
	lookUp func(ctx context.Context, host string) ([]netip.Addr, error)

	looked chan struct{} // closed after the first look-up
	once   sync.Once
	mu     sync.Mutex
	at     netip.Addr
}

// newReceiver returns the receiver of this name; nil where there is nothing to look up.
func newReceiver(host string, wanted bool) *receiver {
	if _, err := netip.ParseAddr(host); !wanted || err == nil {
		return nil
	}
	return &receiver{host: host, looked: make(chan struct{}), lookUp: func(ctx context.Context, host string) ([]netip.Addr, error) {
		return net.DefaultResolver.LookupNetIP(ctx, "ip", host)
	}}
}

// address is the receiver's; the zero value while it is not known.
func (r *receiver) address() netip.Addr {
	if r == nil {
		return netip.Addr{}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.at
}

// await returns after the first look-up.
func (r *receiver) await(ctx context.Context) {
	if r == nil {
		return
	}
	select {
	case <-ctx.Done():
	case <-r.looked:
	}
}

// look asks for the address again. One that still counts is kept, and so is the last known one when nobody answers: a change
// costs a restart of Envoy. It returns an error only while no address is known.
func (r *receiver) look(ctx context.Context) (changed bool, err error) {
	bounded, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	all, err := r.lookUp(bounded, r.host)
	for i := range all {
		all[i] = all[i].Unmap()
	}
	slices.SortFunc(all, func(a, b netip.Addr) int { return cmp.Or(cmp.Compare(a.BitLen(), b.BitLen()), a.Compare(b)) }) // IPv4 first, as in Emissary
	r.mu.Lock()
	defer r.mu.Unlock()
	switch {
	case err == nil && len(all) > 0 && !slices.Contains(all, r.at):
		r.at, changed = all[0], true
	case r.at.IsValid():
		err = nil
	case err == nil && len(all) == 0:
		err = fmt.Errorf("%s has no address", r.host)
	}
	r.once.Do(func() { close(r.looked) })
	return changed, err
}

// followReceiver looks up the receiver of statistics until ctx ends, and has the bootstrap made anew when it is at another address.
func (g *Gateway) followReceiver(ctx context.Context) error {
	for {
		changed, err := g.receiver.look(ctx)
		if ctx.Err() != nil {
			return nil
		}
		var found []snapshot.Diagnostic
		if err != nil {
			found = []snapshot.Diagnostic{{Severity: snapshot.Error, Code: codeStatsd, Help: codeStatsd.Cure,
				Message: fmt.Sprintf("statistics are sent to nobody: statsd-host %q cannot be looked up: %v", g.receiver.host, err)}}
		}
		g.pipeline.Add("statsd", found)
		if changed {
			g.log.Info("statistics are sent", "host", g.receiver.host, "address", g.receiver.address())
			g.reboot()
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(lookUpEvery):
		}
	}
}
