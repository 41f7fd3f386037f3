package envoy

import (
	"encoding/binary"

	"github.com/cespare/xxhash/v2"
	"google.golang.org/protobuf/encoding/protowire"

	"github.com/chancery-gateway/chancery/translators/ir"
)

// refusals holds what a real Envoy said of units. They stand for the content, so they hold whenever it comes up again.
type refusals struct {
	texts map[uint64]string
	// generation changes with texts.
	generation uint64
	// shown are the units that were made since the emission began.
	shown []*ir.Unit
}

// maxRefusals bounds what is remembered of content that may be long gone. What is forgotten is shown again.
const maxRefusals = 10_000

// Refuse makes the next emissions do without the units: a route answers 503 to what it would have taken, other things are left
// out, and so is what needs them. texts holds Envoy's sentence for each unit, which is one of Output.Changed.
func (e *Emitter) Refuse(texts map[*ir.Unit]string) {
	if len(texts) == 0 {
		return
	}
	if e.refused.texts == nil || len(e.refused.texts) > maxRefusals {
		e.refused.texts = map[uint64]string{}
	}
	for u, text := range texts {
		e.refused.texts[u.ID] = text
	}
	e.refused.generation++
}

// has reports whether Envoy refused the unit of this identity.
func (r *refusals) has(id uint64) bool {
	_, refused := r.texts[id]
	return refused
}

// identity tells units of different kinds and frames apart.
func identity(kind ir.UnitKind, hash, frame uint64) uint64 {
	var b [24]byte
	binary.LittleEndian.PutUint64(b[:], xxhash.Sum64String(string(kind)))
	binary.LittleEndian.PutUint64(b[8:], hash)
	binary.LittleEndian.PutUint64(b[16:], frame)
	return contentHash(b[:])
}

// show returns the unit's identity, and lists it for Envoy's verdict unless that is a refusal already: then it is a fault.
func (r *refusals) show(kind ir.UnitKind, name string, value []byte, hash uint64, origins []ir.Origin, f *faults) uint64 {
	id := identity(kind, hash, 0)
	if !r.blame(id, f) {
		r.shown = append(r.shown, &ir.Unit{Kind: kind, Name: name, Value: value, Origins: origins, ID: id})
	}
	return id
}

// blame adds Envoy's sentence to the faults when there is one.
func (r *refusals) blame(id uint64, f *faults) bool {
	text, refused := r.texts[id]
	if refused {
		f.add(codeRefused, "", "Envoy says: %s", text)
	}
	return refused
}

// content returns what a length-delimited field holds.
func content(framed []byte) []byte {
	_, _, n := protowire.ConsumeTag(framed)
	if n < 0 {
		return nil
	}
	value, n := protowire.ConsumeBytes(framed[n:])
	if n < 0 {
		return nil
	}
	return value
}

// allOrigins are the objects that a chain is made of: those that want it, and those of its settings and filters.
func allOrigins(c *ir.FilterChain) []ir.Origin {
	if c.HTTP == nil {
		return c.Origins
	}
	all := c.Origins
	if c.HTTP.Settings != nil {
		all = sortOrigins(all, c.HTTP.Settings.Origins)
	}
	for _, x := range c.HTTP.Filters {
		all = sortOrigins(all, x.Origins)
	}
	return all
}
