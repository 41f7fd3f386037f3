package engine

import (
	"context"
	"encoding/binary"
	"sync"

	"github.com/chancery-gateway/chancery/policies/index"
)

// Memory keeps what policies said about objects, by what they read of them: another object that agrees there need not be
// asked about. It holds for one set, one tenancy and one point; answers that depend on other objects are not kept. It is safe
// for concurrent use.
type Memory struct {
	mu  sync.Mutex
	all map[remembering]*answers
}

// NewMemory returns a memory of nothing.
func NewMemory() *Memory { return &Memory{all: map[remembering]*answers{}} }

type remembering struct {
	policy *Policy
	phase  Phase
}

// answers are those of one policy in one phase.
type answers struct {
	mu           sync.Mutex
	said         map[index.Print][]Result
	asked, found int
	// given is set when objects differ too much for it to be worth while.
	given bool
}

// The bounds of what is kept of one policy: that many answers, and after trial questions at least one in worth found.
const (
	maxAnswers = 4096
	trial      = 1000
	worth      = 8
)

func (m *Memory) of(p *Policy, ph Phase) *answers {
	m.mu.Lock()
	defer m.mu.Unlock()
	key := remembering{p, ph}
	if m.all[key] == nil {
		m.all[key] = &answers{said: map[index.Print][]Result{}}
	}
	return m.all[key]
}

// find returns what was said before. worthless says that it is of no use to keep anything.
func (a *answers) find(k index.Print) (said []Result, found, worthless bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.given {
		return nil, false, true
	}
	said, found = a.said[k]
	a.asked++
	if found {
		a.found++
	}
	if a.asked == trial {
		if a.found*worth < a.asked {
			a.given, a.said = true, nil
		}
		a.asked, a.found = 0, 0
	}
	return said, found, false
}

func (a *answers) keep(k index.Print, said []Result) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.given {
		return
	}
	if len(a.said) >= maxAnswers {
		clear(a.said)
	}
	a.said[k] = said
}

// recall is how a query remembers.
type recall struct {
	fields index.Fields
	// of is, by policy, what it remembers with; nil for one whose answers cannot be kept.
	of      []*answers
	readers []*reader
	// parts are the queries to some of the policies, by which.
	parts  sync.Map
	number sync.Mutex
	made   int
}

// reader is a projection with the places of its fields.
type reader struct {
	rules []placed
	roots []int
}

type placed struct {
	guard        int // -1 for none
	fields, next []int
	around, open bool
}

// hopeless reports whether no object can be told from another: the roots, which nothing guards, read too much.
func (r *reader) hopeless() bool {
	for _, n := range r.roots {
		if r.rules[n].open && r.rules[n].guard < 0 {
			return true
		}
	}
	return false
}

func newReader(p projection, ph Phase, fields *index.Fields) *reader {
	r := &reader{}
	for _, e := range ph.entries() {
		r.roots = append(r.roots, p.entries[e]...)
	}
	for _, one := range p.rules {
		at := placed{guard: -1, next: one.next, around: one.around, open: one.open}
		if one.guard != (index.Path{}) {
			at.guard = fields.Add(one.guard)
		}
		for _, path := range one.paths {
			at.fields = append(at.fields, fields.Add(path))
		}
		r.rules = append(r.rules, at)
	}
	return r
}

// key is a print of all that the policy would read of an object; ok is false when that cannot be told. What a rule reads
// counts only where its guard is there.
func (r *reader) key(prints []index.Print, around string) (k index.Print, ok bool) {
	text := make([]byte, 0, 512)
	seen := make([]bool, len(r.rules))
	add := func(at int) {
		text = binary.LittleEndian.AppendUint64(binary.LittleEndian.AppendUint64(text, prints[at][0]), prints[at][1])
	}
	var visit func(n int) bool
	visit = func(n int) bool {
		if seen[n] {
			return true
		}
		seen[n] = true
		one := &r.rules[n]
		if one.guard >= 0 {
			add(one.guard)
			if prints[one.guard] == (index.Print{}) {
				return true
			}
		}
		if one.open {
			return false
		}
		for _, at := range one.fields {
			add(at)
		}
		if one.around {
			text = append(append(text, around...), 0)
		}
		for _, to := range one.next {
			if !visit(to) {
				return false
			}
		}
		return true
	}
	for _, n := range r.roots {
		if !visit(n) {
			return index.Print{}, false
		}
	}
	return index.PrintOf(text), true
}

// maxParts bounds the queries to some of the policies.
const maxParts = 64

// Remember makes the query keep in the memory what the policies say.
func (q *Query) Remember(m *Memory) *Query {
	if q == nil || m == nil {
		return q
	}
	r, any := &recall{}, false
	for _, p := range q.policies {
		one := newReader(p.reads, q.phase, &r.fields)
		var of *answers
		if !one.hopeless() {
			of, any = m.of(p, q.phase), true
		}
		r.of, r.readers = append(r.of, of), append(r.readers, one)
	}
	if any {
		q.recall = r
	}
	return q
}

// About asks the question about an object whose text is the document's and whose namespace is around, as Ask does; what a
// policy has said of the same is taken again.
func (q *Query) About(ctx context.Context, document *index.Document, around string, input InputFunc, store *index.Store) Answer {
	if q == nil || q.recall == nil {
		return q.Ask(ctx, input, store)
	}
	r := q.recall
	prints := r.fields.Prints(document)
	if prints == nil {
		return q.Ask(ctx, input, store)
	}
	open, keys, known := make([]bool, len(q.policies)), make([]index.Print, len(q.policies)), make([][]Result, len(q.policies))
	left := 0
	for i, p := range q.policies {
		if of := r.of[i]; of != nil && !p.Quarantined() {
			if k, ok := r.readers[i].key(prints, around); ok {
				said, found, worthless := of.find(k)
				if found {
					known[i] = said
					continue
				}
				if !worthless {
					keys[i] = k
				}
			}
		}
		open[i] = true
		left++
	}
	part, whole := q.part(open, left)
	var a Answer
	for i, p := range q.policies {
		if whole || open[i] { // all are asked: what was found is said once more
			open[i] = true
			continue
		}
		p.Stats.Remembered.Add(1)
		for j := range known[i] {
			known[i][j].count()
		}
		a.Results = append(a.Results, known[i]...)
	}
	if left == 0 {
		return a
	}
	fresh := part.Ask(ctx, input, store)
	failed := map[*Policy]bool{}
	for _, f := range fresh.Failures {
		failed[f.Policy] = true
	}
	for i, p := range q.policies {
		if !open[i] || keys[i] == (index.Print{}) || failed[p] {
			continue
		}
		said := []Result{}
		for _, one := range fresh.Results {
			if one.Policy == p {
				said = append(said, one)
			}
		}
		r.of[i].keep(keys[i], said)
	}
	a.add(fresh)
	a.sort(q.policies)
	return a
}

// part returns the query to the open policies; whole when it is one to all of them.
func (q *Query) part(open []bool, left int) (part *Query, whole bool) {
	switch left {
	case 0:
		return nil, false
	case len(q.policies):
		return q, true
	}
	mask := make([]byte, (len(open)+7)/8)
	var some []*Policy
	for i, p := range q.policies {
		if open[i] {
			mask[i/8] |= 1 << (i % 8)
			some = append(some, p)
		}
	}
	if have, ok := q.recall.parts.Load(string(mask)); ok {
		return have.(*Query), false
	}
	q.recall.number.Lock()
	defer q.recall.number.Unlock()
	if q.recall.made >= maxParts {
		return q, true
	}
	q.recall.made++
	part = q.set.Prepare(q.phase, some)
	q.recall.parts.Store(string(mask), part)
	return part, false
}
