// Package join makes one source of several: a cluster and a folder of manifests, for example. Where two of them have an
// object of one name, the source that stands first counts.
package join

import (
	"context"
	"errors"
	"maps"
	"slices"
	"sync"

	"github.com/chancery-gateway/chancery/snapshot"
	"github.com/chancery-gateway/chancery/snapshot/api"
)

var codeDuplicate = snapshot.NewCode("CH-JOIN-001", "an object is defined in two places",
	"An object of the same kind, namespace and name comes from two sources, such as the cluster and the folder of manifests.",
	"Remove or rename one of the two.")

// Source is what delivers snapshots.
type Source interface {
	Run(ctx context.Context, deliver func(*snapshot.Snapshot)) error
	Resolve([]snapshot.Diagnostic)
}

// Part is one of the sources that are joined.
type Part struct {
	Source
	// Name says in findings where the part's objects come from, such as "the cluster".
	Name string
	// Overrides marks a part whose objects are meant to stand in place of those of later parts: no finding says so.
	Overrides bool
}

// watcher is a source that watches further kinds when it is asked to; see runtime/modules.
type watcher interface {
	Also([]snapshot.GroupKind)
	Listed() bool
}

// New returns the source of all parts together. With a single part that is the part's own.
func New(parts ...Part) Source {
	if len(parts) == 1 {
		return parts[0].Source
	}
	j := &joined{parts: parts, last: make([]*snapshot.Snapshot, len(parts)), twice: map[snapshot.Ref]bool{}}
	for _, p := range parts {
		if w, ok := p.Source.(watcher); ok {
			return &watching{j, w}
		}
	}
	return j
}

// watching is a join in which one part is a watcher.
type watching struct {
	*joined
	watcher
}

type joined struct {
	parts []Part

	mu sync.Mutex
	// last is what each part delivered last, outer what was made of all of them.
	last  []*snapshot.Snapshot
	outer *snapshot.Snapshot
	// twice are the objects that several parts have.
	twice map[snapshot.Ref]bool
}

// Run runs all parts until the context ends or one of them fails. The first snapshot waits for the first of each part; then
// one is delivered for each that a part delivers.
func (j *joined) Run(ctx context.Context, deliver func(*snapshot.Snapshot)) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	errs := make([]error, len(j.parts))
	var running sync.WaitGroup
	for i, p := range j.parts {
		running.Go(func() {
			errs[i] = p.Run(ctx, func(s *snapshot.Snapshot) {
				j.mu.Lock()
				defer j.mu.Unlock()
				if out := j.take(i, s); out != nil && ctx.Err() == nil {
					deliver(out)
				}
			})
			if errs[i] != nil {
				cancel()
			}
		})
	}
	running.Wait()
	return errors.Join(errs...)
}

// Resolve lets each part point at the places of its objects.
func (j *joined) Resolve(ds []snapshot.Diagnostic) {
	for _, p := range j.parts {
		p.Resolve(ds)
	}
}

// take derives the snapshot in which part i says s; nil while a part has said nothing.
func (j *joined) take(i int, s *snapshot.Snapshot) *snapshot.Snapshot {
	before := j.last[i]
	j.last[i] = s
	if slices.Contains(j.last, nil) {
		return nil
	}
	if only := j.only(); only == i && (j.outer == nil || j.outer == before) {
		j.outer = s
		return s // the others have nothing: it passes as it is
	}
	var changes []snapshot.Change
	if j.outer == nil {
		j.outer = snapshot.Empty()
		for _, part := range j.last {
			changes = append(changes, part.Changes(snapshot.Empty())...)
		}
	} else {
		changes = s.Changes(before)
	}
	var put []*snapshot.Object
	var remove []snapshot.Ref
	for _, c := range changes {
		r := c.Ref()
		if o, several := j.counts(r); o != nil {
			put = append(put, o)
			if several {
				j.twice[r] = true
			} else {
				delete(j.twice, r)
			}
		} else {
			remove = append(remove, r)
			delete(j.twice, r)
		}
	}
	next, _ := j.outer.Advance(put, remove, j.findings())
	if s != j.outer {
		s.Forget()
	}
	j.outer = next
	return next
}

// only returns the one part that has anything to say, -1 where several have.
func (j *joined) only() int {
	at := -1
	for i, s := range j.last {
		if len(s.Findings()) == 0 && len(s.Kinds()) == 0 {
			continue
		}
		if at >= 0 {
			return -1
		}
		at = i
	}
	return at
}

// counts returns the object of the first part that has it, and whether others have it too.
func (j *joined) counts(r snapshot.Ref) (first *snapshot.Object, several bool) {
	for _, s := range j.last {
		if o := s.Get(r.GroupKind(), r.Namespace, r.Name); o != nil {
			if first != nil {
				return first, true
			}
			first = o
		}
	}
	return first, false
}

// findings are those of all parts, and one for each object that does not count.
func (j *joined) findings() []snapshot.Diagnostic {
	var out []snapshot.Diagnostic
	for _, s := range j.last {
		out = append(out, s.Findings()...)
	}
	for _, r := range slices.SortedFunc(maps.Keys(j.twice), snapshot.Ref.Compare) {
		winner := -1
		for i, s := range j.last {
			o := s.Get(r.GroupKind(), r.Namespace, r.Name)
			switch {
			case o == nil:
			case winner < 0:
				winner = i
			case !j.parts[winner].Overrides && api.Known(r.GroupKind()) && r.GroupKind() != snapshot.KindNamespace:
				out = append(out, o.About(snapshot.Error, codeDuplicate, "", "the one of "+j.parts[winner].Name+" counts, that of "+j.parts[i].Name+
					" does not", "remove or rename one of the two"))
			}
		}
	}
	if len(out) == 0 {
		return nil
	}
	return snapshot.SortDiagnostics(out)
}
