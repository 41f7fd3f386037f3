package snapshot

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
)

func mapping(ns, name string, content byte) *Object {
	return &Object{Ref: Ref{Group: EmissaryGroup, Kind: "Mapping", Namespace: ns, Name: name}, Hash: Hash{content}}
}

func slice(name, service string, content byte) *Object {
	return &Object{Ref: Ref{Group: KindEndpointSlice.Group, Kind: KindEndpointSlice.Kind, Namespace: "app", Name: name}, Hash: Hash{content}, Spec: &EndpointSlice{Service: service}}
}

func names(s *Snapshot) (out []string) {
	for _, k := range s.Kinds() {
		for o := range s.List(k) {
			out = append(out, fmt.Sprintf("%s=%d", o.Ref, o.Hash[0]))
		}
	}
	return out
}

// TestManyDeriveFromOne: whoever asks what there would be derives from the snapshot that the pipeline derives from, too. The
// race detector looks on.
func TestManyDeriveFromOne(t *testing.T) {
	var all []*Object
	for i := range 200 {
		all = append(all, mapping("x", fmt.Sprintf("m%03d", i), 1), slice(fmt.Sprintf("s%03d", i), "a", 1))
	}
	base := Empty().Derive(all, nil, nil)
	want := names(base)
	var working sync.WaitGroup
	for w := range 8 {
		working.Go(func() {
			for i := range 50 {
				o := mapping("x", fmt.Sprintf("m%03d", i), byte(2+w))
				next := base.Derive([]*Object{o, slice(fmt.Sprintf("new%d", w), "a", 1)}, []Ref{all[2*(i+50)].Ref}, nil)
				if got := next.Get(o.GroupKind(), "x", o.Name); got != o || next.Len(o.GroupKind()) != 199 || next.Len(KindEndpointSlice) != 201 {
					t.Errorf("a derived snapshot has %v and %d Mappings", got, next.Len(o.GroupKind()))
				}
			}
		})
	}
	working.Wait()
	if !slices.Equal(names(base), want) {
		t.Error("the base changed")
	}
}

func TestDeriveLeavesTheBaseAlone(t *testing.T) {
	a, b := mapping("x", "a", 1), mapping("x", "b", 1)
	base := Empty().Derive([]*Object{a, b}, nil, nil)
	next := base.Derive([]*Object{mapping("x", "a", 2), mapping("x", "c", 1)}, []Ref{b.Ref}, nil)
	if got := names(base); !slices.Equal(got, []string{"Mapping/x/a=1", "Mapping/x/b=1"}) {
		t.Errorf("the base became %v", got)
	}
	if got := names(next); !slices.Equal(got, []string{"Mapping/x/a=2", "Mapping/x/c=1"}) {
		t.Errorf("the derived snapshot is %v", got)
	}
	if got := next.Get(a.GroupKind(), "x", "b"); got != nil {
		t.Errorf("removed object is still %v", got)
	}
}

func TestEqualContentKeepsThePointer(t *testing.T) {
	a := mapping("x", "a", 1)
	base := Empty().Derive([]*Object{a}, nil, nil)
	next := base.Derive([]*Object{mapping("x", "a", 1)}, nil, nil)
	if next.Get(a.GroupKind(), "x", "a") != a {
		t.Error("equal content replaced the object")
	}
	if ch := next.Changes(base); len(ch) != 0 {
		t.Errorf("changes: %v", ch)
	}
}

func TestEndpointSlicesOfAService(t *testing.T) {
	base := Empty().Derive([]*Object{slice("s1", "web", 1), slice("s2", "web", 1), slice("s3", "web-2", 1)}, nil, nil)
	moved := base.Derive([]*Object{slice("s2", "web-2", 2)}, nil, nil)
	for _, c := range []struct {
		s       *Snapshot
		service string
		want    []string
	}{
		{base, "web", []string{"s1", "s2"}}, {base, "web-2", []string{"s3"}},
		{moved, "web", []string{"s1"}}, {moved, "web-2", []string{"s2", "s3"}},
		{moved, "we", nil},
	} {
		var got []string
		for o := range c.s.EndpointSlices("app", c.service) {
			got = append(got, o.Name)
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("slices of %s: %v, want %v", c.service, got, c.want)
		}
	}
}

// TestChanges: the recorded difference over any number of steps, there and back, equals the full comparison.
func TestChanges(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 1))
	for range 300 {
		s := Empty().Derive([]*Object{mapping("x", "seed", 1)}, nil, nil)
		history := []*Snapshot{s}
		for range 8 {
			var put []*Object
			var remove []Ref
			for range r.IntN(4) {
				o := mapping([]string{"a", "a-b", "b"}[r.IntN(3)], fmt.Sprint(r.IntN(4)), byte(r.IntN(3)))
				if r.IntN(3) == 0 {
					remove = append(remove, o.Ref)
				} else {
					put = append(put, o)
				}
			}
			s = history[len(history)-1-r.IntN(min(2, len(history)))].Derive(put, remove, nil) // some are siblings
			history = append(history, s)
		}
		for _, base := range history {
			linked := s.Changes(base)
			full := compare(base, s)
			if !slices.Equal(linked, full) {
				t.Fatalf("recorded %v\ncompared %v", linked, full)
			}
			if !slices.IsSortedFunc(full, func(a, b Change) int { return a.Ref().Compare(b.Ref()) }) {
				t.Fatalf("not sorted: %v", full)
			}
		}
		history[len(history)-1].Forget()
		if got := s.Changes(history[0]); !slices.Equal(got, compare(history[0], s)) {
			t.Fatalf("after Forget: %v", got)
		}
	}
}

func TestSortDiagnosticsDropsDuplicates(t *testing.T) {
	c := NewCode("CH-TEST-001", "t", "c", "c")
	o := mapping("x", "a", 1)
	d := o.About(Error, c, "spec.prefix", "m", "h")
	other := o.About(Warning, c, "spec.a", "m", "")
	if got := SortDiagnostics([]Diagnostic{d, other, d}); !slices.Equal(got, []Diagnostic{other, d}) {
		t.Errorf("%v", got)
	}
	if got, want := d.String(), "error CH-TEST-001 Mapping/x/a spec.prefix: m (h)"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
}
