package wasm

import (
	"container/list"
	"sync"

	"github.com/chancery-gateway/chancery/snapshot"
	"github.com/chancery-gateway/chancery/wasm/abi"
)

// maxMemo bounds the number of units that are remembered per module.
const maxMemo = 200_000

type unitKey struct {
	phase abi.Phase
	key   string
}

// answer is what became of one unit: a pure function of the module's digest, its settings and the unit's content.
type answer struct {
	// in is the hash of the unit as the module saw it, out the one afterwards; equal when nothing changed.
	in, out snapshot.Hash
	// after is the unit with the module's operations applied; nil when nothing changed.
	after []abi.Item
	// before is the unit as it was, where nothing changed.
	before      []abi.Item
	writes      []Write
	diagnostics []abi.Diagnostic
	// stale answers are those of an earlier version of the module: good to fall back on, not to answer with.
	stale bool
}

// memo remembers the last good answer for every unit, and forgets those that were not asked for for longest.
type memo struct {
	mu      sync.Mutex
	answers map[unitKey]*list.Element
	order   list.List
	limit   int
}

type memoEntry struct {
	key    unitKey
	answer *answer
}

func newMemo(limit int) *memo {
	return &memo{answers: map[unitKey]*list.Element{}, limit: limit}
}

// get returns the last good answer for the unit, whatever its input was, or nil.
func (m *memo) get(k unitKey) *answer {
	m.mu.Lock()
	defer m.mu.Unlock()
	e := m.answers[k]
	if e == nil {
		return nil
	}
	m.order.MoveToFront(e)
	return e.Value.(*memoEntry).answer
}

func (m *memo) put(k unitKey, a *answer) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if e := m.answers[k]; e != nil {
		e.Value.(*memoEntry).answer = a
		m.order.MoveToFront(e)
		return
	}
	m.answers[k] = m.order.PushFront(&memoEntry{k, a})
	if m.order.Len() > m.limit {
		last := m.order.Back()
		delete(m.answers, m.order.Remove(last).(*memoEntry).key)
	}
}

// copyFrom takes over the answers of another memo as the last good ones: the first calls of a new version of a module
// may fail, and then the units keep what the old version gave them. They are marked, so that none is taken for an
// answer of the new version.
func (m *memo) copyFrom(o *memo) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for e := o.order.Back(); e != nil; e = e.Prev() {
		old := e.Value.(*memoEntry)
		a := *old.answer
		a.stale = true
		m.put(old.key, &a)
	}
}
