package modules

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/chancery-gateway/chancery/snapshot"
	"github.com/chancery-gateway/chancery/snapshot/api"
	"github.com/chancery-gateway/chancery/translators"
	"github.com/chancery-gateway/chancery/translators/emissary"
	"github.com/chancery-gateway/chancery/translators/ir"
	"github.com/chancery-gateway/chancery/wasm"
	"github.com/chancery-gateway/chancery/wasm/abi"
)

// kinds remembers what became of each kind.
type kinds map[string]*loweredKind

type loweredKind struct {
	hash      snapshot.Hash
	objects   []*snapshot.Object
	fragments map[snapshot.Ref]*ir.Fragments
	writes    []translators.Written
	found     []snapshot.Diagnostic
}

// lowerable reports whether modules lower objects of the kind: those that no front end reads and whose text they may see.
func lowerable(s *snapshot.Snapshot, known func(snapshot.GroupKind) bool, k snapshot.GroupKind) bool {
	if known != nil && known(k) || k.Group == groupChancery || k.Group == "" && api.Known(k) {
		return false
	}
	for o := range s.List(k) {
		return o.Spec == nil && o.Raw != nil
	}
	return false
}

// kindUnits returns a unit for each kind that is read and that modules lower, with the objects of known kinds that are read beside.
func kindUnits(s *snapshot.Snapshot, known func(snapshot.GroupKind) bool, read reads) []wasm.Unit {
	var beside []*snapshot.Object
	for _, k := range read.objects {
		if !lowerable(s, known, k) {
			for o := range s.List(k) {
				if shown(o) {
					beside = append(beside, o)
				}
			}
		}
	}
	var units []wasm.Unit
	for _, k := range s.Kinds() {
		if !read.has(k.String()) || !lowerable(s, known, k) {
			continue
		}
		var h hasher
		for o := range s.List(k) {
			h.add(o.Hash)
		}
		for _, o := range beside {
			h.add(o.Hash)
		}
		units = append(units, wasm.Unit{Key: k.String(), Hash: h.hash(), Items: func() []abi.Item {
			var items []abi.Item
			for o := range s.List(k) {
				items = append(items, objectItem(o, false))
			}
			for _, o := range beside {
				items = append(items, objectItem(o, true))
			}
			return items
		}})
	}
	return units
}

// Lower implements translators.Extension.
func (r *run) Lower(s *snapshot.Snapshot, known func(snapshot.GroupKind) bool) translators.Lowered {
	r.present.snapshot, r.present.known = s, known
	read := r.reads[0]
	if read.none() {
		r.modules.kinds = nil
		return translators.Lowered{}
	}
	units := kindUnits(s, known, read)
	was, now := r.modules.kinds, kinds{}
	out := translators.Lowered{Fragments: map[snapshot.Ref]*ir.Fragments{}}
	taken := map[string]bool{}
	for i, o := range r.runUnits(abi.Lower, units) {
		key := units[i].Key
		taken[key] = true
		about := func() []snapshot.Ref { return first(s, key) }
		out.Diagnostics = append(out.Diagnostics, r.findings(&o, key, about)...)
		last := was[key]
		switch {
		case o.Blocked && last == nil:
			continue
		case o.Blocked || last != nil && last.hash == o.Hash:
		default:
			last = lowerKind(s, &units[i], &o, last)
			last.hash = o.Hash
		}
		now[key] = last
		out.Objects = append(out.Objects, last.objects...)
		for ref, f := range last.fragments {
			out.Fragments[ref] = f
		}
		out.Diagnostics = append(out.Diagnostics, last.found...)
		r.wrote(last.writes)
	}
	slices.SortStableFunc(out.Objects, func(a, b *snapshot.Object) int { return a.Ref.Compare(b.Ref) })
	r.modules.kinds = now
	out.Answered = func(d snapshot.Diagnostic) bool {
		return d.Code.ID == codeUnknownKind && taken[d.Object.GroupKind().String()]
	}
	return out
}

// first returns the first object of a kind.
func first(s *snapshot.Snapshot, kind string) []snapshot.Ref {
	for o := range s.List(groupKind(kind)) {
		return []snapshot.Ref{o.Ref}
	}
	return nil
}

func groupKind(kind string) snapshot.GroupKind {
	k, group, _ := strings.Cut(kind, ".")
	return snapshot.GroupKind{Group: group, Kind: k}
}

// lowerKind reads what modules added for a kind.
func lowerKind(s *snapshot.Snapshot, u *wasm.Unit, o *wasm.Outcome, last *loweredKind) *loweredKind {
	out := &loweredKind{fragments: map[snapshot.Ref]*ir.Fragments{}}
	if !o.Changed {
		return out
	}
	origin := map[string]*snapshot.Object{}
	for _, w := range o.Writes {
		if w.Origin == nil {
			continue
		}
		k := groupKind(w.Origin.Kind)
		source := s.Get(k, w.Origin.Namespace, w.Origin.Name)
		if source == nil {
			continue // an item that another module added: its own origin is told there
		}
		id := w.Kind + "\x00" + w.Namespace + "\x00" + w.Name
		if origin[id] == nil {
			origin[id] = source
		}
		out.writes = append(out.writes, written(w, abi.Lower, u.Key, []snapshot.Ref{source.Ref}))
	}
	given := map[string]bool{}
	for _, i := range u.Items() {
		given[i.Kind+"\x00"+i.Namespace+"\x00"+i.Name] = true
	}
	for _, i := range o.Items {
		id := i.Kind + "\x00" + i.Namespace + "\x00" + i.Name
		source := origin[id]
		if given[id] || source == nil {
			continue
		}
		if i.Kind == kindFragment {
			f, err := decodeFragment(i, source)
			if err != nil {
				out.found = append(out.found, source.About(snapshot.Error, codeInvalid, "", err.Error(), ""))
				continue
			}
			all := out.fragments[source.Ref]
			if all == nil {
				all = &ir.Fragments{}
				out.fragments[source.Ref] = all
			}
			all.Routes = append(all.Routes, f)
			continue
		}
		made, found := decodeObject(i, source)
		for _, d := range found {
			d.Object, d.APIVersion, d.Position, d.Message = source.Ref, source.APIVersion, source.Source.Position, "the "+made.name()+" that a module makes of it: "+strings.TrimPrefix(d.Path+": ", ": ")+d.Message
			d.Path = ""
			out.found = append(out.found, d)
		}
		if made.object != nil {
			out.objects = append(out.objects, made.object)
		}
	}
	if last != nil {
		for ref, f := range out.fragments {
			if was := last.fragments[ref]; was != nil && sameFragments(was, f) {
				out.fragments[ref] = was
			}
		}
	}
	return out
}

// sameFragments compares fragments that modules made of one and the same object.
func sameFragments(a, b *ir.Fragments) bool {
	return slices.EqualFunc(a.Routes, b.Routes, func(a, b *ir.RouteFragment) bool {
		return a.Origin == b.Origin && a.Group == b.Group && a.Order == b.Order && bytes.Equal(encode(a.Route), encode(b.Route))
	})
}

type made struct {
	object *snapshot.Object
	ref    string
}

func (m made) name() string { return m.ref }

// decodeObject reads an object that modules made. It is as if it had stood beside its source.
func decodeObject(i abi.Item, source *snapshot.Object) (made, []snapshot.Diagnostic) {
	m := made{ref: i.Kind + " " + i.Namespace + "/" + i.Name}
	if !api.Known(groupKind(i.Kind)) || groupKind(i.Kind).Group == groupChancery || groupKind(i.Kind) == snapshot.KindSecret {
		return m, []snapshot.Diagnostic{source.About(snapshot.Error, codeInvalid, "", "modules cannot make objects of kind "+i.Kind, "make an object of a kind that a front end reads, such as Mapping.getambassador.io")}
	}
	o, found := api.Decode(i.Value, snapshot.Source{}, nil)
	if o == nil {
		return m, found
	}
	m.ref = o.Ref.String()
	var h hasher
	h.add(o.Hash)
	h.add(source.Hash)
	o.Parent, o.Created, o.Hash = source, source.Created, h.hash()
	m.object = o
	return m, found
}

// fragment is the written form of a route.
type fragment struct {
	Name     string    `json:"name"`
	Hostname string    `json:"hostname"`
	Route    *ir.Route `json:"route"`
}

func decodeFragment(i abi.Item, source *snapshot.Object) (*ir.RouteFragment, error) {
	var f fragment
	if err := strict(i.Value, &f); err != nil {
		return nil, fmt.Errorf("%s %s: %w", kindFragment, i.Name, err)
	}
	if f.Route == nil {
		return nil, fmt.Errorf("%s %s: route is missing", kindFragment, i.Name)
	}
	f.Route.Name = cmp.Or(f.Route.Name, i.Name)
	f.Route.Origins = []ir.Origin{source.Ref}
	out, err := emissary.Fragment(source, f.Hostname, f.Route)
	if err != nil {
		return nil, fmt.Errorf("%s %s: hostname: %w", kindFragment, i.Name, err)
	}
	return out, nil
}

func strict(text []byte, into any) error {
	d := json.NewDecoder(bytes.NewReader(text))
	d.DisallowUnknownFields()
	return d.Decode(into)
}

func encode(v any) []byte {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if e.Encode(v) != nil { // the program's nodes are plain data
		return nil
	}
	return bytes.TrimSuffix(b.Bytes(), []byte("\n"))
}
