package translators

import (
	"slices"
	"strconv"
	"strings"

	"github.com/chancery-gateway/chancery/snapshot"
	"github.com/chancery-gateway/chancery/translators/envoy"
	"github.com/chancery-gateway/chancery/translators/ir"
	"github.com/chancery-gateway/chancery/translators/linker"
)

// Extender changes what the compiler makes, between its stages. The compiler asks; modules answer.
type Extender interface {
	// Begin returns what holds from the start of one compile to its end; nil when nothing is to be changed.
	Begin() Extension
	// Fresh reports whether the last answers stand for a snapshot in which nothing but endpoints has changed.
	Fresh() bool
}

// Extension is an Extender during one compile. Its answers depend on what it is given; what is as before keeps its pointers.
// The methods are called in this order, End last.
type Extension interface {
	// Lower turns objects of kinds that no front end knows into core objects and fragments.
	Lower(s *snapshot.Snapshot, known func(snapshot.GroupKind) bool) Lowered
	// Link changes the linked program, of which s are the objects. It returns p itself when nothing is to be changed.
	Link(s *snapshot.Snapshot, p *ir.Program) (*ir.Program, []snapshot.Diagnostic)
	// Emit changes the resources. It returns the set itself when nothing is to be changed.
	Emit(s *snapshot.Snapshot, set ir.ResourceSet) (ir.ResourceSet, []snapshot.Diagnostic)
	// Refused is told of a resource of Emit that Envoy refuses, with its words: the former one stands in.
	Refused(r *ir.Resource, text string) []snapshot.Diagnostic
	// End ends the compile and returns every field that was written, in lists as they came together: one for each unit.
	End() [][]Written
}

// Lowered is what became of the objects that no front end knows.
type Lowered struct {
	// Objects are core objects, sorted by Ref; Parent is the object that each comes from. They pass policies and front ends.
	Objects []*snapshot.Object
	// Fragments are by the object that they come from.
	Fragments   map[snapshot.Ref]*ir.Fragments
	Diagnostics []snapshot.Diagnostic
	// Answered, which may be nil, reports whether a source's finding does not hold any more, as that of an unknown kind.
	Answered func(snapshot.Diagnostic) bool
}

// Written is one field that an extension wrote.
type Written struct {
	// Module and Digest name the writer, Phase is where it did.
	Module string `json:"module"`
	Digest string `json:"digest"`
	Phase  string `json:"phase"`
	// Op says what was done, Reason why, in the module's words.
	Op     string `json:"op"`
	Reason string `json:"reason"`
	// Kind, Namespace and Name are those of what was written, Unit is what it was part of.
	Kind      string `json:"kind"`
	Namespace string `json:"namespace,omitempty"`
	Name      string `json:"name"`
	Unit      string `json:"unit"`
	// Path is the field as JSON pointer; "" for the whole.
	Path string `json:"path,omitempty"`
	// Objects are the source objects that the written thing comes from.
	Objects []snapshot.Ref `json:"objects"`
}

// extended is what the compiler remembers of extensions.
type extended struct {
	snapshot  *snapshot.Snapshot                  // the last one, with the lowered objects
	objects   map[snapshot.Ref]*snapshot.Object   // those of the last snapshot that were lowered
	fragments map[snapshot.Ref]*ir.Fragments      // the last ones
	rewritten map[*ir.Resource]*rewrittenResource // what stands for a resource that was rewritten
	needs     map[*ir.Resource]*needed            // what has been read of resources
}

type needed struct {
	*envoy.Needs
	used bool
}

// needsOf reads a resource once, for as long as it is asked for.
func (e *extended) needsOf(r *ir.Resource) *envoy.Needs {
	n := e.needs[r]
	if n == nil {
		n = &needed{Needs: envoy.NeedsOf(r)}
		if e.needs == nil {
			e.needs = map[*ir.Resource]*needed{}
		}
		e.needs[r] = n
	}
	n.used = true
	return n.Needs
}

// sweep forgets what has not been asked for since the last time.
func (e *extended) sweep() {
	for r, w := range e.rewritten {
		if !w.used {
			delete(e.rewritten, r)
		}
		w.used = false
	}
	for r, n := range e.needs {
		if !n.used {
			delete(e.needs, r)
		}
		n.used = false
	}
}

// written are the types that an extension may write, those first that others name.
var written = []string{ir.TypeEndpoint, ir.TypeCluster, ir.TypeRouteConfig, ir.TypeListener}

type rewrittenResource struct {
	units []*ir.Unit
	// shown: the units have been among those that are to be proven.
	shown, used bool
}

// extend adds what the extension makes of objects of unknown kinds.
func (c *Compiler) extend(x Extension, s *snapshot.Snapshot) (*snapshot.Snapshot, Lowered) {
	e := &c.extended
	var low Lowered
	if x != nil {
		low = x.Lower(s, func(k snapshot.GroupKind) bool { return c.byKind[k] != nil })
	}
	if len(low.Objects) == 0 && len(e.objects) == 0 {
		e.snapshot = s
		return s, low
	}
	now := make(map[snapshot.Ref]*snapshot.Object, len(low.Objects))
	put := make([]*snapshot.Object, 0, len(low.Objects))
	for _, o := range low.Objects {
		if there := s.Get(o.GroupKind(), o.Namespace, o.Name); there != nil || now[o.Ref] != nil {
			d := o.Parent.About(snapshot.Error, codeTaken, "", "a module makes "+o.Ref.String()+" of it, but there is another one of this name, which stands", "rename one of the two")
			low.Diagnostics = append(low.Diagnostics, d)
			continue
		}
		now[o.Ref] = o
		put = append(put, o)
	}
	var gone []snapshot.Ref
	for ref := range e.objects {
		if now[ref] == nil && s.Get(ref.GroupKind(), ref.Namespace, ref.Name) == nil {
			gone = append(gone, ref)
		}
	}
	for _, ch := range s.Changes(c.given) {
		if ch.New != nil {
			put = append(put, ch.New)
		} else if ref := ch.Ref(); now[ref] == nil {
			gone = append(gone, ref)
		}
	}
	slices.SortFunc(gone, snapshot.Ref.Compare)
	before := e.snapshot
	if before == nil {
		before = c.given
	}
	e.snapshot = before.Derive(put, slices.Compact(gone), s.Findings())
	for ref := range now {
		now[ref] = e.snapshot.Get(ref.GroupKind(), ref.Namespace, ref.Name)
	}
	c.findings.lower(now)
	e.objects = now
	return e.snapshot, low
}

// admitted drops what was made of objects that the policies refused.
func (c *Compiler) admitted(s *snapshot.Snapshot, low *Lowered) *snapshot.Snapshot {
	refused := func(o *snapshot.Object) bool { return s.Get(o.GroupKind(), o.Namespace, o.Name) == nil }
	var gone []snapshot.Ref
	for ref, o := range c.extended.objects {
		if o.Parent != nil && refused(o.Parent) {
			gone = append(gone, ref)
		}
	}
	for ref := range low.Fragments {
		if s.Get(ref.GroupKind(), ref.Namespace, ref.Name) == nil {
			delete(low.Fragments, ref)
		}
	}
	if len(gone) == 0 {
		return s
	}
	slices.SortFunc(gone, snapshot.Ref.Compare)
	return s.Derive(nil, gone, s.Findings())
}

// foreign returns the linker's changes for fragments that an extension made, in the order of the references.
func (c *Compiler) foreign(now map[snapshot.Ref]*ir.Fragments) []linker.Change {
	was := c.extended.fragments
	c.extended.fragments = now
	var edits []linker.Change
	for ref, f := range now {
		if was[ref] != f {
			edits = append(edits, linker.Change{Ref: ref, Old: was[ref], New: f})
		}
	}
	for ref, f := range was {
		if now[ref] == nil {
			edits = append(edits, linker.Change{Ref: ref, Old: f})
		}
	}
	slices.SortFunc(edits, func(a, b linker.Change) int { return a.Ref.Compare(b.Ref) })
	return edits
}

// rewrite lets the extension change the resources, and adds what changed to what has to be proven.
func (c *Compiler) rewrite(x Extension, s *snapshot.Snapshot, out *envoy.Output) []snapshot.Diagnostic {
	e := &c.extended
	set, found := x.Emit(s, out.Resources)
	if sameSet(set, out.Resources) && len(e.rewritten) == 0 {
		return found
	}
	own := map[*ir.Resource]bool{}
	former := map[string]*ir.Resource{}
	for _, rs := range out.Resources {
		for _, r := range rs {
			own[r] = true
			former[r.Type+"\x00"+r.Name] = r
		}
	}
	if e.rewritten == nil {
		e.rewritten = map[*ir.Resource]*rewrittenResource{}
	}
	final := ir.ResourceSet{}
	for url, rs := range set {
		final[url] = slices.Clone(rs)
	}
	found = append(found, c.keepNeeded(x, out.Resources, final)...)
	for _, url := range written {
		// A cluster may name others of its own type, so that one that is refused can take more along.
		for again := true; again; {
			again = false
			around := envoy.Around(final, e.needsOf)
			for i, r := range final[url] {
				if own[r] {
					continue
				}
				w := e.rewritten[r]
				if w == nil {
					w = &rewrittenResource{units: envoy.Pieces(r)}
					e.rewritten[r] = w
				}
				w.used = true
				text := c.emitter.Verdict(w.units)
				if text == "" {
					text = c.emitter.Against(r, around)
				}
				if text == "" {
					continue
				}
				found = append(found, x.Refused(r, text)...)
				if was := former[r.Type+"\x00"+r.Name]; was != nil {
					final[url][i] = was
				} else if final[url] = slices.Delete(final[url], i, i+1); len(final[url]) == 0 {
					delete(final, url)
				}
				again = true
				break
			}
		}
		for _, r := range final[url] {
			if w := e.rewritten[r]; w != nil && !w.shown {
				w.shown = true
				out.Changed = append(out.Changed, w.units...)
			}
		}
	}
	found = append(found, c.keepNeeded(x, out.Resources, final)...) // what stands in again may name what is gone
	e.sweep()
	out.Resources = final
	return found
}

// keepNeeded puts back what was removed although something names it.
func (c *Compiler) keepNeeded(x Extension, before, now ir.ResourceSet) (found []snapshot.Diagnostic) {
	for _, url := range []string{ir.TypeEndpoint, ir.TypeCluster, ir.TypeRouteConfig} {
		var gone []*ir.Resource
		for _, r := range before[url] {
			if _, there := slices.BinarySearchFunc(now[url], r.Name, func(n *ir.Resource, name string) int { return strings.Compare(n.Name, name) }); !there {
				gone = append(gone, r)
			}
		}
		for range gone { // each round puts one back
			missing := ""
			for _, rs := range now {
				for _, r := range rs {
					missing = max(missing, c.extended.needsOf(r).Missing(now))
				}
			}
			i := slices.IndexFunc(gone, func(r *ir.Resource) bool { return strings.HasSuffix(missing, strconv.Quote(r.Name)) })
			if i < 0 {
				break
			}
			found = append(found, x.Refused(gone[i], "it is needed still")...)
			now[url] = append(now[url], gone[i])
			slices.SortFunc(now[url], func(a, b *ir.Resource) int { return strings.Compare(a.Name, b.Name) })
		}
	}
	return found
}

// sameSet reports whether two sets are of the very same lists.
func sameSet(a, b ir.ResourceSet) bool {
	if len(a) != len(b) {
		return false
	}
	for url, l := range a {
		if o := b[url]; len(l) != len(o) || len(l) > 0 && &l[0] != &o[0] {
			return false
		}
	}
	return true
}

var codeTaken = snapshot.NewCode("CH-EXTEND-001", "A module makes an object that exists already",
	"A WebAssembly module lowers this object to an object of a name that another one has.",
	"Rename one of the two; what the manifests hold stands meanwhile.")
