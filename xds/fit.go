package xds

import (
	"maps"
	"slices"

	"github.com/chancery-gateway/chancery/translators/ir"
)

// fitted is what an older client is served in place of a resource, and what it does without, "" for nothing.
type fitted struct {
	from, to *ir.Resource
	lacks    string
}

// fitting returns what the client is served in place of a resource, nil for none. As long as the resource is the same, so is that.
func (st *stream) fitting(typeURL, name string, r *ir.Resource) *ir.Resource {
	sub := st.subs[typeURL]
	if st.fit == nil || sub == nil || typeURL != ir.TypeCluster && typeURL != ir.TypeListener {
		return r
	}
	if r == nil {
		sub.unfit(name)
		return nil
	}
	was := sub.fitted[name]
	if was.from == r {
		return was.to
	}
	now := fitted{from: r}
	now.to, now.lacks = st.fit(r)
	if sub.fitted == nil {
		sub.fitted = map[string]fitted{}
	}
	if was.lacks != "" || now.lacks != "" {
		sub.lacking = nil
	}
	sub.fitted[name] = now
	return now.to
}

// unfit forgets what a name was to the client.
func (s *subscription) unfit(name string) {
	if s.fitted[name].lacks != "" {
		s.lacking = nil
	}
	delete(s.fitted, name)
}

// list is what is served of a type, as the client is served it.
func (st *stream) list(sub *subscription) []*ir.Resource {
	list := st.goal.set[sub.typeURL]
	if st.fit == nil {
		return list
	}
	list = slices.Clone(list)
	for i, r := range list {
		list[i] = st.fitting(sub.typeURL, r.Name, r)
	}
	return list
}

// lacks lists what the client does without, sorted by name.
func (s *subscription) lacks() []Lack {
	if s.lacking != nil || s.fitted == nil {
		return s.lacking
	}
	s.lacking = []Lack{}
	for _, name := range slices.Sorted(maps.Keys(s.fitted)) {
		if f := s.fitted[name]; f.lacks != "" {
			s.lacking = append(s.lacking, Lack{name, f.lacks, f.from.Origins})
		}
	}
	return s.lacking
}
