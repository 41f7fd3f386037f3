// Package translators is the compiler: it drives the front ends, the linker and the back end over snapshots, keeps what
// did not change, and hands out one Result per compile.
package translators

import (
	"time"

	"github.com/chancery-gateway/chancery/snapshot"
	"github.com/chancery-gateway/chancery/translators/ir"
)

// FrontEnd lowers the source objects of one API to fragments. Implementations are pure: equal reads give equal fragments.
type FrontEnd interface {
	// Name is a short noun for messages, for example "emissary".
	Name() string
	// Kinds are the kinds that Lower takes.
	Kinds() []snapshot.GroupKind
	// Lower turns one object into fragments. It reads other objects through the view only. It returns nil for an object
	// that is none of this instance's business (another ambassador_id).
	Lower(o *snapshot.Object, v *snapshot.View) *ir.Fragments
	// Ambient returns the fragments that follow from the input as a whole (synthesized hosts, probes, bootstrap); may be nil.
	Ambient(v *snapshot.View) *ir.Fragments
}

// Result is the outcome of one compile. Nothing in it changes afterwards.
type Result struct {
	Snapshot *snapshot.Snapshot
	// Admitted is what the front ends saw: the snapshot without refused objects, and with those that policies changed.
	Admitted  *snapshot.Snapshot
	Program   *ir.Program
	Resources ir.ResourceSet
	// Changed are the pieces of Resources that this compiler made since its last result: what has to be proven.
	Changed []*ir.Unit
	// Diagnostics of all stages, the snapshot's own findings included, sorted.
	Diagnostics []snapshot.Diagnostic
	// Statuses say what became of each object of Gateway API that is ours, sorted by object. One that says the same as in
	// the last result keeps its pointer, and the slice is the same one where all do.
	Statuses []*ir.Status
	// Written is every field that an extension wrote.
	Written [][]Written
	Counts  Counts
	Timings Timings
}

// Errors returns the number of diagnostics of severity Error.
func (r *Result) Errors() int { return r.count(snapshot.Error) }

// Warnings returns the number of diagnostics of severity Warning.
func (r *Result) Warnings() int { return r.count(snapshot.Warning) }

func (r *Result) count(s snapshot.Severity) int {
	n := 0
	for i := range r.Diagnostics {
		if r.Diagnostics[i].Severity == s {
			n++
		}
	}
	return n
}

// Counts says how much work a compile did; tests assert on it instead of on time.
type Counts struct {
	// Lowered is the number of objects lowered anew; Objects the number of all source objects that are lowered.
	Lowered, Objects int
	// Linked is the number of route groups linked anew.
	Linked int
	// Emitted is the number of units (routes, clusters, chains, listeners, secrets, virtual hosts) marshalled anew.
	Emitted int
	// Shown is the number of units that had to be proven; whoever does that fills it in.
	Shown int
	// EndpointSets is the number of endpoint sets made anew.
	EndpointSets int
}

// Timings is the time each stage took.
type Timings struct {
	Admit, Lower, Link, Endpoints, Emit, Total time.Duration
}
