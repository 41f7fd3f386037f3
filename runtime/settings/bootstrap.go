package settings

import (
	"net"
	"net/netip"
	"strconv"

	"github.com/chancery-gateway/chancery/translators/ir"
)

// Bootstrap returns the program's bootstrap with the ports that are set, and with the receiver of statistics where it is set as
// an address: names are looked up by who runs Envoy. p may be nil.
func (s *Settings) Bootstrap(p *ir.Program) *ir.Bootstrap {
	b := ir.Bootstrap{}
	if p != nil && p.Bootstrap != nil {
		b = *p.Bootstrap
	}
	b.AdminPort, b.ReadyPort = uint32(s.AdminPort), uint32(s.ReadyPort)
	if at, err := netip.ParseAddr(s.StatsdHost); err == nil {
		b.Statsd = s.SendStatistics(at)
	}
	return &b
}

// SendStatistics says how Envoy sends its statistics to a receiver at this address; nil where it is not to send any.
func (s *Settings) SendStatistics(at netip.Addr) *ir.Statsd {
	if !s.Statsd {
		return nil
	}
	return &ir.Statsd{Address: at.Unmap().String(), Port: uint32(s.StatsdPort), FlushMillis: s.StatsdInterval.Milliseconds(), Datadog: s.DogStatsd, EntityID: s.StatsdEntityID}
}

// DiagnosticsAddress is where this machine reaches health, diagnostics and metrics.
func (s *Settings) DiagnosticsAddress() string {
	host := s.HealthAddress
	if a, err := netip.ParseAddr(host); err != nil || a.IsUnspecified() {
		host = "127.0.0.1"
		if err == nil && a.Is6() || s.HealthFamily == "ipv6_only" {
			host = "::1"
		}
	}
	return net.JoinHostPort(host, strconv.Itoa(s.HealthPort))
}
