package emissary

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"

	"github.com/chancery-gateway/chancery/translators/ir"
)

// clusterName returns a readable text with a hash of everything that makes the cluster what it is, Name and Origins apart.
// It does not depend on what other clusters there are. buf is room to work in.
func clusterName(c *ir.Cluster, tag string, buf []byte) string {
	const readable = 40
	sum := identity(c, tag, buf)
	name := append(buf, "cluster_"...)
	if tag != "" {
		name = append(appendMangled(name, tag), '_')
	}
	if c.EndpointSet != "" && c.Service == "" {
		name = appendMangled(name, c.EndpointSet)
	} else if c.EndpointSet != "" {
		name = appendMangled(append(appendMangled(name, c.Service), '_'), c.Namespace)
	} else {
		name = appendMangled(name, c.Host)
	}
	if c.TLS != nil {
		name = append(name, "_otls"...)
	}
	if len(name) > readable {
		name = name[:readable]
	}
	return string(hex.AppendEncode(append(name, '-'), sum[:8]))
}

// identity hashes every field of the cluster but Name and Origins, and the tag.
func identity(c *ir.Cluster, tag string, buf []byte) [sha256.Size]byte {
	e := encoder(buf)
	e.text(tag)
	e.text(c.StatName)
	e.text(string(c.Discovery))
	e.text(c.Host)
	e.number(uint64(c.Port))
	e.text(c.EndpointSet)
	e.text(c.Service)
	e.text(c.Namespace)
	e.number(uint64(c.ConnectTimeoutMillis))
	e.optional(c.IdleTimeoutMillis)
	e.optional(c.MaxConnectionMillis)
	e.text(c.DNSFamily)
	e.flag(c.RespectDNSTTL)
	e.text(c.LoadBalancer)
	e.flag(c.HTTP2)
	e.number(uint64(len(c.CircuitBreakers)))
	for i := range c.CircuitBreakers {
		b := &c.CircuitBreakers[i]
		e.text(b.Priority)
		e.optional32(b.MaxConnections)
		e.optional32(b.MaxPendingRequests)
		e.optional32(b.MaxRequests)
		e.optional32(b.MaxRetries)
	}
	e.flag(c.Keepalive != nil)
	if k := c.Keepalive; k != nil {
		e.optional32(k.Probes)
		e.optional32(k.Time)
		e.optional32(k.Interval)
	}
	e.number(uint64(len(c.HealthChecks)))
	for i := range c.HealthChecks {
		e.healthCheck(&c.HealthChecks[i])
	}
	e.flag(c.TLS != nil)
	if t := c.TLS; t != nil {
		e.text(t.SNI)
		e.text(t.Certificate)
		e.text(t.Validation)
		e.texts(t.VerifySAN)
		e.text(t.Params.MinVersion)
		e.text(t.Params.MaxVersion)
		e.texts(t.Params.CipherSuites)
		e.texts(t.Params.Curves)
		e.texts(t.Params.ALPN)
	}
	e.texts(c.HeaderCase)
	for _, t := range c.More {
		e.text(t.Host)
		e.number(uint64(t.Port))
	}
	return sha256.Sum256(e)
}

// encoder writes values so that no two different sequences have equal bytes.
type encoder []byte

func (e *encoder) number(n uint64) { *e = binary.AppendUvarint(*e, n) }

func (e *encoder) text(s string) {
	e.number(uint64(len(s)))
	*e = append(*e, s...)
}

func (e *encoder) texts(list []string) {
	e.number(uint64(len(list)))
	for _, s := range list {
		e.text(s)
	}
}

func (e *encoder) flag(b bool) {
	if b {
		*e = append(*e, 1)
	} else {
		*e = append(*e, 0)
	}
}

func (e *encoder) optional(n *int64) {
	e.flag(n != nil)
	if n != nil {
		e.number(uint64(*n))
	}
}

func (e *encoder) optional32(n *uint32) {
	e.flag(n != nil)
	if n != nil {
		e.number(uint64(*n))
	}
}

func (e *encoder) healthCheck(h *ir.HealthCheck) {
	e.number(uint64(h.TimeoutMillis))
	e.number(uint64(h.IntervalMillis))
	e.number(uint64(h.HealthyThreshold))
	e.number(uint64(h.UnhealthyThreshold))
	e.flag(h.HTTP != nil)
	if p := h.HTTP; p != nil {
		e.text(p.Path)
		e.text(p.Host)
		e.number(uint64(len(p.RequestHeaders.Add)))
		for _, v := range p.RequestHeaders.Add {
			e.text(v.Name)
			e.text(v.Value)
			e.flag(v.Append)
		}
		e.texts(p.RequestHeaders.Remove)
		e.number(uint64(len(p.ExpectedStatuses)))
		for _, r := range p.ExpectedStatuses {
			e.number(uint64(r.From))
			e.number(uint64(r.To))
		}
	}
	e.flag(h.GRPC != nil)
	if g := h.GRPC; g != nil {
		e.text(g.Service)
		e.text(g.Authority)
	}
}
