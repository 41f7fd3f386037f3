// Package compare says what changes between two results: by object, by route, by Envoy resource, and whose connections
// would be drained.
package compare

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/chancery-gateway/chancery/runtime/trace"
	"github.com/chancery-gateway/chancery/snapshot"
	"github.com/chancery-gateway/chancery/translators"
	"github.com/chancery-gateway/chancery/translators/ir"
)

// The kinds of changes.
const (
	Added   = "added"
	Removed = "removed"
	Changed = "changed"
)

// Change is one thing that differs.
type Change struct {
	Change string `json:"change"`
	Name   string `json:"name"`
	// Before and After say in words what a route did and does; "" for others.
	Before string `json:"before,omitempty"`
	After  string `json:"after,omitempty"`
}

// Drain is a set of connections that Envoy would drain.
type Drain struct {
	Listener string `json:"listener"`
	// Chain is "" when the whole listener drains.
	Chain  string `json:"chain,omitempty"`
	Reason string `json:"reason"`
}

// Report is the whole answer. Every list is sorted.
type Report struct {
	Objects   []Change `json:"objects"`
	Routes    []Change `json:"routes"`
	Resources []Change `json:"resources"`
	Drains    []Drain  `json:"drains"`
}

// Results compares two results.
func Results(a, b *translators.Result) *Report {
	r := &Report{Objects: []Change{}, Routes: []Change{}, Resources: []Change{}, Drains: []Drain{}}
	r.Objects = diff(objects(a.Snapshot), objects(b.Snapshot), nil)
	r.Routes = diff(routes(a.Program), routes(b.Program), describe)
	r.Resources = diff(resources(a.Resources), resources(b.Resources), nil)
	r.Drains = drains(a.Program, b.Program)
	return r
}

// Empty reports whether nothing differs.
func (r *Report) Empty() bool {
	return len(r.Objects)+len(r.Routes)+len(r.Resources)+len(r.Drains) == 0
}

// diff compares two maps from name to content. words, which may be nil, fills in what a change was and is.
func diff[V comparable](a, b map[string]V, words func(c *Change, was, now V)) []Change {
	out := []Change{}
	take := func(c Change, was, now V) {
		if words != nil {
			words(&c, was, now)
		}
		out = append(out, c)
	}
	var none V
	for name, was := range a {
		now, there := b[name]
		switch {
		case !there:
			take(Change{Change: Removed, Name: name}, was, none)
		case now != was:
			take(Change{Change: Changed, Name: name}, was, now)
		}
	}
	for name, now := range b {
		if _, there := a[name]; !there {
			take(Change{Change: Added, Name: name}, none, now)
		}
	}
	slices.SortFunc(out, func(x, y Change) int { return strings.Compare(x.Name, y.Name) })
	return out
}

func objects(s *snapshot.Snapshot) map[string]string {
	all := map[string]string{}
	for _, k := range s.Kinds() {
		for o := range s.List(k) {
			all[k.String()+"/"+strings.TrimPrefix(o.Ref.String(), o.Kind+"/")] = o.Hash.String()
		}
	}
	return all
}

// route is what one route does: in words, and all of it as JSON.
type route struct{ words, all string }

// routes names each route by where it stands and what it matches; what it does is the content. Order within a virtual
// host shows as a number where one match stands twice.
func routes(p *ir.Program) map[string]route {
	all := map[string]route{}
	for _, rc := range p.RouteConfigs {
		for _, v := range rc.VirtualHosts {
			for _, r := range v.Routes {
				m := r.Match
				m.Fraction = nil
				base := rc.Name + ": " + strings.Join(v.Domains, ",") + " " + trace.Match(&m)
				name := base
				for n := 2; all[name] != (route{}); n++ {
					name = fmt.Sprintf("%s (%d)", base, n)
				}
				all[name] = does(r)
			}
		}
	}
	return all
}

// does says what a route does.
func does(r *ir.Route) route {
	c := *r
	c.Name = ""
	return route{words(r), plain(&c)}
}

// words says where a route leads, with its share.
func words(r *ir.Route) string {
	text := trace.Action(r)
	if f := r.Match.Fraction; f != nil {
		text = fmt.Sprintf("%g %% ", float64(f.Numerator)*100/float64(f.Denominator)) + text
	}
	return text
}

// describe says what a route did and does, and names the settings that differ where the words do not.
func describe(c *Change, was, now route) {
	c.Before, c.After = was.words, now.words
	if c.Change != Changed || was.words != now.words {
		return
	}
	a, b := map[string]string{}, map[string]string{}
	flatten(was.all, a)
	flatten(now.all, b)
	for _, d := range diff(a, b, func(d *Change, was, now string) { d.Before, d.After = was, now }) {
		if d.Before != "" {
			c.Before += ", " + d.Name + " " + d.Before
		}
		if d.After != "" {
			c.After += ", " + d.Name + " " + d.After
		}
	}
}

// flatten turns JSON into pairs of path and value.
func flatten(text string, into map[string]string) {
	var v any
	if json.Unmarshal([]byte(text), &v) != nil {
		return
	}
	var walk func(path string, v any)
	walk = func(path string, v any) {
		switch v := v.(type) {
		case map[string]any:
			for k, e := range v {
				walk(strings.TrimPrefix(path+"."+k, "."), e)
			}
		case []any:
			for i, e := range v {
				walk(fmt.Sprintf("%s[%d]", path, i), e)
			}
		default:
			into[path] = fmt.Sprint(v)
		}
	}
	walk("", v)
}

// plain returns the node as JSON without origins, for comparison.
func plain(node any) string {
	data, err := json.Marshal(node)
	if err != nil {
		return err.Error()
	}
	var v any
	if err := json.Unmarshal(data, &v); err != nil {
		return err.Error()
	}
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(strip(v)); err != nil {
		return err.Error()
	}
	return strings.TrimSpace(b.String())
}

func strip(v any) any {
	switch v := v.(type) {
	case map[string]any:
		delete(v, "origins")
		for k, e := range v {
			v[k] = strip(e)
		}
	case []any:
		for i, e := range v {
			v[i] = strip(e)
		}
	}
	return v
}

func resources(set ir.ResourceSet) map[string]string {
	all := map[string]string{}
	for url, rs := range set {
		for _, r := range rs {
			all[url[strings.LastIndexByte(url, '.')+1:]+" "+r.Name] = r.Version
		}
	}
	return all
}

// drains follows what was measured of Envoy 1.40: routes, endpoints, clusters, secrets and added chains drain nothing; a
// changed, renamed or removed chain drains its connections; everything else of a listener drains all of it.
func drains(a, b *ir.Program) []Drain {
	out := []Drain{}
	now := map[string]*ir.Listener{}
	for _, l := range b.Listeners {
		now[l.Name] = l
	}
	for _, was := range a.Listeners {
		is := now[was.Name]
		if is == nil {
			out = append(out, Drain{Listener: was.Name, Reason: "the listener is removed"})
			continue
		}
		if was == is {
			continue
		}
		head := func(l *ir.Listener) string {
			h := *l
			h.Chains = nil
			return plain(&h)
		}
		if head(was) != head(is) {
			out = append(out, Drain{Listener: was.Name, Reason: "settings of the listener itself change"})
			continue
		}
		chains := map[string]*ir.FilterChain{}
		for _, c := range is.Chains {
			chains[c.Name] = c
		}
		for _, c := range was.Chains {
			switch n := chains[c.Name]; {
			case n == c:
			case n == nil:
				out = append(out, Drain{was.Name, c.Name, "the filter chain is removed"})
			case plain(c) != plain(n):
				out = append(out, Drain{was.Name, c.Name, "the filter chain changes"})
			}
		}
	}
	return out
}

// Write writes the report for people.
func (r *Report) Write(w io.Writer) error {
	var b strings.Builder
	sign := map[string]string{Added: "+", Removed: "-", Changed: "~"}
	section := func(title string, changes []Change) {
		if len(changes) == 0 {
			return
		}
		fmt.Fprintf(&b, "%s\n", title)
		for _, c := range changes {
			fmt.Fprintf(&b, "  %s %s\n", sign[c.Change], c.Name)
			if c.Before != "" {
				fmt.Fprintf(&b, "      was %s\n", c.Before)
			}
			if c.After != "" {
				fmt.Fprintf(&b, "      is  %s\n", c.After)
			}
		}
	}
	section("objects", r.Objects)
	section("routes", r.Routes)
	section("Envoy resources", r.Resources)
	if len(r.Drains) > 0 {
		b.WriteString("connections that would be drained\n")
		for _, d := range r.Drains {
			where := "listener " + d.Listener
			if d.Chain != "" {
				where += ", chain " + d.Chain
			}
			fmt.Fprintf(&b, "  ! %s: %s\n", where, d.Reason)
		}
	} else if !r.Empty() {
		b.WriteString("no connection would be drained\n")
	}
	if r.Empty() {
		b.WriteString("no difference\n")
	}
	_, err := io.WriteString(w, b.String())
	return err
}
