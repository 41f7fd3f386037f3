package validator

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/chancery-gateway/chancery/translators/ir"
)

// judgement is one call of Judge.
type judgement struct {
	v   *Validator
	ctx context.Context
	out Verdicts
}

// order is the order of judgement: what others stand in or refer to comes first.
var order = []ir.UnitKind{ir.UnitSecret, ir.UnitExtension, ir.UnitEndpoints, ir.UnitCluster, ir.UnitRouteConfig, ir.UnitHost, ir.UnitRoute, ir.UnitListener, ir.UnitChain}

func (j *judgement) run(units []*ir.Unit) error {
	byKind := map[ir.UnitKind][]*candidate{}
	contents := make(map[key]*candidate, len(units)) // by the key of a unit, and by that of what Envoy is shown
	hits := uint64(0)
	known := func(u *ir.Unit, k key) (string, bool) {
		text, known := j.v.cache.get(k)
		if known {
			hits++
			if text != "" {
				j.out.Refused[u] = about(u, text)
			}
		}
		return text, known
	}
	for _, u := range units {
		k := j.v.cache.key(u)
		if c := contents[k]; c != nil {
			c.twins = append(c.twins, u)
			continue
		}
		if _, known := known(u, k); known {
			continue
		}
		x := inspect(u)
		form := k
		if x.shown != nil && x.refusal == "" && !x.files {
			form = j.v.cache.keyOf(u.Kind, u.Frame, x.shown)
			if c := contents[form]; c != nil {
				c.twins, c.keys = append(c.twins, u), append(c.keys, k)
				contents[k] = c
				continue
			}
			if text, known := known(u, form); known {
				j.v.cache.add(k, text, false)
				continue
			}
		}
		c := &candidate{unit: u, key: form, keys: []key{k}, inspection: x}
		contents[k], contents[form] = c, c
		if c.refusal != "" {
			j.settle(c, c.refusal, false)
			continue
		}
		byKind[u.Kind] = append(byKind[u.Kind], c)
	}
	j.v.count(func(s *Status) { s.CacheHits += hits })
	var all []*candidate
	for _, kind := range order {
		all = append(all, byKind[kind]...)
	}
	if len(all) == 0 {
		return nil
	}
	// Chains last: those in a listener whose head is refused are served nowhere, and would only share its fate.
	chains := len(all) - len(byKind[ir.UnitChain])
	err := j.judge(all[:chains])
	if err == nil {
		err = j.judge(slices.DeleteFunc(all[chains:], j.headless))
	}
	if err == nil {
		return nil
	}
	for _, c := range all {
		if !c.settled {
			j.out.Unjudged = append(append(j.out.Unjudged, c.unit), c.twins...)
		}
	}
	return err
}

// headless reports whether the head of a chain's listener has been refused.
func (j *judgement) headless(c *candidate) bool {
	if text, _ := j.v.cache.get(j.v.cache.keyOf(ir.UnitListener, nil, c.unit.Frame)); text != "" {
		return true
	}
	for u := range j.out.Refused {
		if u.Kind == ir.UnitListener && bytes.Equal(u.Value, c.unit.Frame) {
			return true
		}
	}
	return false
}

// settle records a verdict; text is "" for accepted.
func (j *judgement) settle(c *candidate, text string, volatile bool) {
	c.settled = true
	if text != "" && c.unread {
		text = sentence(c.unit, text)
	}
	text = probeNames.ReplaceAllString(text, probeCluster)
	if !c.files {
		for _, k := range append(c.keys, c.key) {
			j.v.cache.add(k, text, volatile)
		}
	}
	if text == "" {
		return
	}
	for _, u := range append(c.twins, c.unit) {
		j.out.Refused[u] = about(u, text)
	}
	j.v.count(func(s *Status) { s.Refused += uint64(1 + len(c.twins)) })
}

// probeNames are the names of clusters that Envoy cites.
var probeNames = regexp.MustCompile(regexp.QuoteMeta(probeCluster) + `[0-9]+-[0-9]+`)

// about puts the unit's own name into a sentence of Envoy's.
func about(u *ir.Unit, text string) string {
	if u.Kind != ir.UnitCluster {
		return text
	}
	return strings.ReplaceAll(text, probeCluster, u.Name)
}

// judge shows everything to Envoy: what runs no code all at once, in chunks, then the members of refused chunks, each alone;
// in lockstep what runs code, and what had no answer when the child ended.
func (j *judgement) judge(all []*candidate) error {
	j.v.count(func(s *Status) { s.Judged += uint64(len(all)) })
	var quick, slow [][]*candidate
	for i := 0; i < len(all); {
		k := i + 1
		for k < len(all) && all[k].unit.Kind == all[i].unit.Kind && all[k].careful == all[i].careful && !all[i].careful {
			k++
		}
		if all[i].careful {
			slow = append(slow, all[i:k])
		} else {
			quick = append(quick, chunked(all[i:k])...)
		}
		i = k
	}
	for _, size := range []int{chunk, 1} {
		if len(quick) == 0 {
			break
		}
		refused, lost, err := j.inFlight(quick)
		if err != nil {
			return err
		}
		slow = append(slow, lost...)
		quick = nil
		for _, cs := range refused {
			quick = append(quick, singles(cs)...)
		}
		if size == 1 && len(quick) > 0 {
			return errors.New("a unit alone was taken for several") // cannot be: those alone are settled
		}
	}
	for _, cs := range slow {
		if err := j.lockstep(cs); err != nil {
			return err
		}
	}
	return nil
}

func singles(cs []*candidate) [][]*candidate {
	out := make([][]*candidate, len(cs))
	for i := range cs {
		out[i] = cs[i : i+1]
	}
	return out
}

// inFlight sends every group at once. It returns the groups that were refused but have several members, and those without an answer.
func (j *judgement) inFlight(groups [][]*candidate) (refused, lost [][]*candidate, err error) {
	c, err := j.v.running(j.ctx)
	if err != nil {
		return nil, nil, err
	}
	j.v.count(func(s *Status) { s.Responses += uint64(len(groups)) })
	probes := make([]*probe, 0, len(groups))
	for i, cs := range groups {
		p, err := c.submit(cs, j.v.options.budget(len(cs)))
		probes = append(probes, p)
		if err != nil { // the child is gone
			c.kill()
			<-c.dead
			lost = append(lost, groups[i+1:]...)
			break
		}
	}
	for _, p := range probes {
		switch {
		case !c.wait(p):
			lost = append(lost, p.candidates)
		case p.refusal == "":
			for _, x := range p.candidates {
				j.settle(x, "", false)
			}
		case len(p.candidates) == 1:
			j.settle(p.candidates[0], p.refusal, false)
		default:
			refused = append(refused, p.candidates)
		}
	}
	for _, r := range c.withdrawals() {
		if c.send(r, nil) != nil {
			break // the child is gone, and what it held with it
		}
	}
	return refused, lost, nil
}

// patience multiplies the deadline of a unit that is judged alone, so that a busy machine convicts nobody.
const patience = 2

// lockstep judges one group with nothing else in flight, so that the end of the child has one cause; then its members alone. A
// unit is guilty of ending the child only when it does so twice: something else may have ended it once.
func (j *judgement) lockstep(cs []*candidate) error {
	budget := j.v.options.budget(len(cs))
	if len(cs) == 1 {
		budget *= patience
	}
	for try := 0; ; try++ {
		c, err := j.v.running(j.ctx)
		if err != nil {
			return err
		}
		if err := j.ctx.Err(); err != nil {
			return err
		}
		j.v.count(func(s *Status) { s.Responses++ })
		p, err := c.submit(cs, budget)
		if err != nil {
			c.kill()
		}
		if c.wait(p) {
			for _, r := range c.withdrawals() {
				if c.send(r, nil) != nil {
					break // the child is gone, and what it held with it
				}
			}
			switch {
			case p.refusal == "":
				for _, x := range cs {
					j.settle(x, "", false)
				}
			case len(cs) == 1:
				j.settle(cs[0], p.refusal, false)
			default:
				return j.each(cs)
			}
			return nil
		}
		if len(cs) > 1 {
			return j.each(cs)
		}
		if try == 0 {
			continue
		}
		if c.hung.Load() {
			j.settle(cs[0], fmt.Sprintf("Envoy does not answer any more once it has loaded this (waited for %s)", budget), true)
		} else {
			j.settle(cs[0], "Envoy ends when it loads this: "+c.exit, false)
		}
		return nil
	}
}

func (j *judgement) each(cs []*candidate) error {
	for _, one := range singles(cs) {
		if err := j.lockstep(slices.Clone(one)); err != nil {
			return err
		}
	}
	return nil
}
