package settings

import "github.com/chancery-gateway/chancery/translators/ir"

// Bootstrap returns the program's bootstrap with the ports that are set. p may be nil.
func (s *Settings) Bootstrap(p *ir.Program) *ir.Bootstrap {
	b := ir.Bootstrap{}
	if p != nil && p.Bootstrap != nil {
		b = *p.Bootstrap
	}
	b.AdminPort, b.ReadyPort = uint32(s.AdminPort), uint32(s.ReadyPort)
	return &b
}
