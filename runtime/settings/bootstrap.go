package settings

import (
	"net"
	"net/netip"
	"strconv"

	"github.com/chancery-gateway/chancery/translators/ir"
)

// Bootstrap returns the program's bootstrap with the ports that are set. p may be nil.
func (s *Settings) Bootstrap(p *ir.Program) *ir.Bootstrap {
	b := ir.Bootstrap{}
	if p != nil && p.Bootstrap != nil {
		b = *p.Bootstrap
	}
	b.AdminPort, b.ReadyPort = uint32(s.AdminPort), uint32(s.ReadyPort)
	return &b
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
