package linker

import (
	"slices"
	"strings"

	"github.com/chancery-gateway/chancery/translators/ir"
)

// routeTable indexes all route fragments by host pattern and by label, and keeps the route sets made from them.
type routeTable struct {
	buckets map[pattern]*bucket
	// sections are the routes of each section, which no host takes.
	sections map[string]*sectionTable
	// expressions are the buckets of regular expressions, which every host without selector takes.
	expressions map[pattern]*bucket
	// labels lists fragments by "key\x00value", for hosts that select by label.
	labels map[string]map[*ir.RouteFragment]struct{}
	// sets holds every route set by key; bySelector those of hosts with a selector, by one label pair of it ("" for any).
	sets       map[string]*routeSet
	bySelector map[string][]*routeSet
	// attached counts the sets that hold a fragment; unattached are the fragments of none.
	attached   map[*ir.RouteFragment]int
	unattached map[*ir.RouteFragment]struct{}
	// touched are the buckets that changed since the last pass, and whether they were empty then: a host pattern that appeared
	// or vanished makes the hosts' lists of buckets stale.
	touched map[*bucket]bool
	// mixed is set when a section with routes of several kinds has changed.
	mixed    bool
	variants variants
}

// pattern is a host pattern without port.
type pattern struct {
	kind  ir.HostPatternKind
	value string
}

func (p pattern) String() string { return string('0'+rune(p.kind)) + p.value }

// bucket holds the fragments of one host pattern, and the sets of hosts without selector that take all of them.
type bucket struct {
	pattern   pattern
	fragments map[*ir.RouteFragment]struct{}
	sets      []*routeSet
}

func newRouteTable() routeTable {
	t := routeTable{
		buckets:     map[pattern]*bucket{},
		sections:    map[string]*sectionTable{},
		touched:     map[*bucket]bool{},
		expressions: map[pattern]*bucket{},
		labels:      map[string]map[*ir.RouteFragment]struct{}{},
		sets:        map[string]*routeSet{},
		bySelector:  map[string][]*routeSet{},
		attached:    map[*ir.RouteFragment]int{},
		unattached:  map[*ir.RouteFragment]struct{}{},
		variants:    newVariants(),
	}
	t.bucket(everyHost)
	return t
}

// expect makes room for that many fragments in an empty table.
func (t *routeTable) expect(n int) {
	t.attached = make(map[*ir.RouteFragment]int, n)
	t.unattached = make(map[*ir.RouteFragment]struct{}, n)
	t.variants.redirects = make(map[redirectKey]*ir.Route, n)
}

// everyHost is the pattern of routes that go to every host, whatever its selector. Its bucket is there always.
var everyHost = pattern{kind: ir.HostEvery}

func (t *routeTable) bucket(p pattern) *bucket {
	b := t.buckets[p]
	if b == nil {
		b = &bucket{pattern: p, fragments: map[*ir.RouteFragment]struct{}{}}
		t.buckets[p] = b
		if p.kind == ir.HostRegex {
			t.expressions[p] = b
		}
	}
	return b
}

// prune forgets the buckets that became empty, once no set lists them any more.
func (t *routeTable) prune() {
	for p, b := range t.buckets {
		if len(b.fragments) == 0 && p != everyHost {
			delete(t.buckets, p)
			delete(t.expressions, p)
		}
	}
	t.pruneSections()
}

func patternOf(f *ir.RouteFragment) pattern {
	if f.Hosts.Kind == ir.HostNone || f.Hosts.Kind == ir.HostEvery {
		return pattern{kind: f.Hosts.Kind}
	}
	return pattern{f.Hosts.Kind, f.Hosts.Value}
}

func pairs(f *ir.RouteFragment) []string {
	out := make([]string, 0, len(f.Labels))
	for k, v := range f.Labels {
		out = append(out, k+"\x00"+v)
	}
	return out
}

func (t *routeTable) add(f *ir.RouteFragment) {
	b := t.bucketOf(f)
	t.touch(b)
	b.fragments[f] = struct{}{}
	t.unattached[f] = struct{}{}
	if f.Section != "" {
		t.count(f, 1)
		if t.refuses(f) {
			return
		}
	}
	for _, s := range b.sets {
		t.attach(s, f)
	}
	if f.Section != "" {
		return
	}
	for _, pair := range pairs(f) {
		posting := t.labels[pair]
		if posting == nil {
			posting = map[*ir.RouteFragment]struct{}{}
			t.labels[pair] = posting
		}
		posting[f] = struct{}{}
		for _, s := range t.bySelector[pair] {
			if hostTakes(s.host, f) {
				t.attach(s, f)
			}
		}
	}
	for _, s := range t.bySelector[""] {
		if hostTakes(s.host, f) {
			t.attach(s, f)
		}
	}
}

// bucketOf returns the bucket that the fragment belongs into.
func (t *routeTable) bucketOf(f *ir.RouteFragment) *bucket {
	if f.Section != "" {
		return t.sectionBucket(f)
	}
	return t.bucket(patternOf(f))
}

func (t *routeTable) remove(f *ir.RouteFragment) {
	b := t.bucketOf(f)
	t.touch(b)
	if _, is := b.fragments[f]; is && f.Section != "" {
		t.count(f, -1)
	}
	delete(b.fragments, f)
	for _, s := range b.sets {
		t.detach(s, f)
	}
	for _, pair := range pairs(f) {
		delete(t.labels[pair], f)
		if len(t.labels[pair]) == 0 {
			delete(t.labels, pair)
		}
		for _, s := range t.bySelector[pair] {
			t.detach(s, f)
		}
	}
	for _, s := range t.bySelector[""] {
		t.detach(s, f)
	}
	delete(t.attached, f)
	delete(t.unattached, f)
	t.variants.forget(f)
}

// touch notes that the bucket is about to change.
func (t *routeTable) touch(b *bucket) {
	if _, is := t.touched[b]; !is {
		t.touched[b] = len(b.fragments) == 0
	}
}

// patternsChanged reports whether a host pattern has appeared or vanished since it was last asked.
func (t *routeTable) patternsChanged() bool {
	changed := t.mixed
	t.mixed = false
	for b, was := range t.touched {
		changed = changed || was != (len(b.fragments) == 0)
	}
	clear(t.touched)
	return changed
}

func (t *routeTable) attach(s *routeSet, f *ir.RouteFragment) {
	if s.add(f) {
		t.attached[f]++
		delete(t.unattached, f)
	}
}

func (t *routeTable) detach(s *routeSet, f *ir.RouteFragment) {
	if s.remove(f) {
		t.release(f)
	}
}

// release counts one set less for the fragment.
func (t *routeTable) release(f *ir.RouteFragment) {
	if t.attached[f]--; t.attached[f] <= 0 {
		delete(t.attached, f)
		t.unattached[f] = struct{}{}
	}
}

// bucketsOf returns the buckets that a host without selector takes, sorted. Exact names cost one look-up for each of
// their suffixes and prefixes; only wildcard hosts look at every pattern.
func (t *routeTable) bucketsOf(sni string) []*bucket {
	var out []*bucket
	take := func(p pattern) {
		if b := t.buckets[p]; b != nil && len(b.fragments) > 0 {
			out = append(out, b)
		}
	}
	take(everyHost)
	for p := range t.expressions {
		take(p)
	}
	if strings.Contains(sni, "*") {
		for p := range t.buckets {
			if p.kind == ir.HostGlob && overlaps(sni, p.value) {
				take(p)
			}
		}
	} else {
		take(pattern{ir.HostGlob, sni})
		take(pattern{ir.HostGlob, "*"})
		for i := 1; i < len(sni); i++ {
			take(pattern{ir.HostGlob, "*" + sni[i:]})
			take(pattern{ir.HostGlob, sni[:i] + "*"})
		}
	}
	slices.SortFunc(out, func(a, b *bucket) int { return strings.Compare(a.pattern.String(), b.pattern.String()) })
	return out
}

// setFor returns the route set of the host, making or evolving one. last is the set that the host had before, or nil;
// claimed says which keys are wanted by some host, so that a set still in use is never evolved into another.
func (t *routeTable) setFor(h *ir.HostFragment, key string, buckets []*bucket, last *routeSet, claimed map[string]bool) *routeSet {
	if s := t.sets[key]; s != nil {
		return s
	}
	s := last
	if s == nil || h.Select != nil || s.host.Select != nil || s.host.SNI != h.SNI || claimed[s.key] || t.sets[s.key] != s {
		expected := 0
		for _, b := range buckets {
			expected += len(b.fragments)
		}
		s = newRouteSet(h, expected)
	} else {
		delete(t.sets, s.key)
	}
	s.key = key
	t.sets[key] = s
	if h.Select != nil {
		t.fillBySelector(s)
		return s
	}
	had, wanted := setOf(s.buckets), setOf(buckets)
	for _, b := range s.buckets {
		if !wanted[b] {
			b.sets = slices.DeleteFunc(b.sets, func(o *routeSet) bool { return o == s })
			for f := range b.fragments {
				t.detach(s, f)
			}
		}
	}
	for _, b := range buckets {
		if !had[b] {
			b.sets = append(b.sets, s)
			for f := range b.fragments {
				t.attach(s, f)
			}
		}
	}
	s.buckets = buckets
	return s
}

func setOf(buckets []*bucket) map[*bucket]bool {
	out := make(map[*bucket]bool, len(buckets))
	for _, b := range buckets {
		out[b] = true
	}
	return out
}

func (t *routeTable) fillBySelector(s *routeSet) {
	if s.host.SelectAny || len(s.host.Select) == 0 {
		t.bySelector[""] = append(t.bySelector[""], s)
		for _, b := range t.buckets {
			for f := range b.fragments {
				if hostTakes(s.host, f) {
					t.attach(s, f)
				}
			}
		}
		return
	}
	pair := selectorPair(s.host)
	t.bySelector[pair] = append(t.bySelector[pair], s)
	for f := range t.labels[pair] {
		if hostTakes(s.host, f) {
			t.attach(s, f)
		}
	}
	// Probes go to every host, whatever its selector.
	every := t.buckets[everyHost]
	every.sets = append(every.sets, s)
	s.buckets = []*bucket{every}
	for f := range every.fragments {
		t.attach(s, f)
	}
}

// selectorPair is the first label pair of the selector, under which its set is indexed.
func selectorPair(h *ir.HostFragment) string {
	first := ""
	for k, v := range h.Select {
		if p := k + "\x00" + v; first == "" || p < first {
			first = p
		}
	}
	return first
}

// drop forgets a set that no host uses any more.
func (t *routeTable) drop(s *routeSet) {
	delete(t.sets, s.key)
	for _, b := range s.buckets {
		b.sets = slices.DeleteFunc(b.sets, func(o *routeSet) bool { return o == s })
	}
	if s.host.Select != nil {
		pair := ""
		if !s.host.SelectAny {
			pair = selectorPair(s.host)
		}
		t.bySelector[pair] = slices.DeleteFunc(t.bySelector[pair], func(o *routeSet) bool { return o == s })
		if len(t.bySelector[pair]) == 0 {
			delete(t.bySelector, pair)
		}
	}
	for _, g := range s.groups {
		for _, f := range g.fragments {
			t.release(f)
		}
	}
}

// setKey names the route set of a host: hosts with equal keys have the same routes.
func setKey(h *ir.HostFragment, buckets []*bucket) string {
	var b strings.Builder
	if h.Select != nil {
		b.WriteString("selector\x00" + h.SNI)
		keys := make([]string, 0, len(h.Select))
		for k, v := range h.Select {
			keys = append(keys, k+"="+v)
		}
		slices.Sort(keys)
		for _, k := range keys {
			b.WriteString("\x00" + k)
		}
		if h.SelectAny {
			b.WriteString("\x00any")
		}
		return b.String()
	}
	for _, k := range buckets {
		b.WriteString(k.pattern.String())
		if k.pattern.kind == ir.HostGlob && k.pattern.value == h.SNI {
			b.WriteByte('=')
		}
		b.WriteByte(0)
	}
	return b.String()
}
