package wasm

import (
	"crypto/sha256"
	"encoding/binary"

	"github.com/chancery-gateway/chancery/snapshot"
	"github.com/chancery-gateway/chancery/wasm/abi"
	"github.com/chancery-gateway/chancery/wasm/fault"
)

// Unit is what modules are given at a time: a virtual host, a listener, a set of clusters, or all objects of a kind.
type Unit struct {
	// Key names the unit within its phase and stays the same over its changes.
	Key string
	// Tenant is the namespace that the unit belongs to, "" for one that belongs to the platform. Only modules that were
	// granted the namespace see the unit.
	Tenant string
	// Hash covers everything that Items returns: equal hashes mean equal items.
	Hash snapshot.Hash
	// Items returns the unit's content. It is called when some module has to see the unit, at most once per run.
	Items func() []abi.Item
}

// Outcome is what became of a unit.
type Outcome struct {
	// Changed says that modules changed the unit; Items is then its new content, sorted by kind, namespace and name.
	Changed bool
	Items   []abi.Item
	// Hash is the unit's hash when nothing changed, else one that covers the changes too.
	Hash snapshot.Hash
	// Writes tells each field that a module wrote.
	Writes []Write
	// Findings are the modules' own diagnostics.
	Findings []Finding
	// Failures are the modules that failed on the unit, with what was done about it.
	Failures []Failure
	// Blocked says that the unit must not go on: what is served stays.
	Blocked bool
}

// Finding is a module's diagnostic.
type Finding struct {
	Module string
	abi.Diagnostic
}

// Failure is one module's failure on one unit.
type Failure struct {
	Module string
	Digest Digest
	Err    error
	// Action is what was done: the module's failure policy, or block where nothing could be kept.
	Action FailurePolicy
}

func hashItems(items []abi.Item) snapshot.Hash {
	h := sha256.New()
	var size [4]byte
	put := func(s []byte) {
		binary.LittleEndian.PutUint32(size[:], uint32(len(s)))
		h.Write(size[:])
		h.Write(s)
	}
	for i := range items {
		put([]byte(items[i].Kind))
		put([]byte(items[i].Namespace))
		put([]byte(items[i].Name))
		put(items[i].Value)
	}
	var out snapshot.Hash
	copy(out[:], h.Sum(nil))
	return out
}

// HashItems returns a hash of a unit's content, for callers that have no cheaper one.
func HashItems(items []abi.Item) snapshot.Hash { return hashItems(items) }

func chain(a, b snapshot.Hash) snapshot.Hash {
	sum := sha256.Sum256(append(a[:], b[:]...))
	var out snapshot.Hash
	copy(out[:], sum[:])
	return out
}

// conflicts returns an error when a module wrote a field that another of equal priority wrote before it.
func conflicts(earlier, writes []Write) error {
	if len(earlier) == 0 || len(writes) == 0 {
		return nil
	}
	type place struct {
		item itemKey
		path string
	}
	written, above := map[place]*Write{}, map[place]*Write{} // above holds every field that something was written below
	for i := range earlier {
		w := &earlier[i]
		if w.priority != writes[0].priority {
			continue
		}
		k := itemKey{w.Kind, w.Namespace, w.Name}
		written[place{k, w.path.String()}] = w
		for n := range w.path {
			above[place{k, w.path[:n].String()}] = w
		}
	}
	if len(written) == 0 {
		return nil
	}
	for i := range writes {
		w := &writes[i]
		k := itemKey{w.Kind, w.Namespace, w.Name}
		e := above[place{k, w.path.String()}]
		for n := 0; e == nil && n <= len(w.path); n++ {
			e = written[place{k, w.path[:n].String()}]
		}
		if e != nil {
			return fault.New(fault.Conflict, "%s%s was written by %s, which has priority %d too", k, atField(w.path), e.Module, e.priority)
		}
	}
	return nil
}
