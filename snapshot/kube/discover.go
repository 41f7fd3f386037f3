package kube

import (
	"context"
	"slices"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"

	"github.com/chancery-gateway/chancery/snapshot"
)

// definitions is the resource of CustomResourceDefinitions.
var definitions = schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"}

// looks are the times after a change of definitions at which the API server is asked which kinds there are: it serves a
// new kind a moment after its definition says so.
var looks = []time.Duration{10 * time.Millisecond, 100 * time.Millisecond, 500 * time.Millisecond, 2 * time.Second, 5 * time.Second}

// settling is the longest that the first answer may lack kinds that are defined.
const settling = 15 * time.Second

// discover keeps one query under way for each kind that there is. It calls known once, after the first answer that has
// every kind that is defined: an API server that has just started does not serve them for a moment.
func (s *Source) discover(ctx context.Context, known func()) {
	s.running.Go(func() { s.watchDefinitions(ctx) })
	active := map[schema.GroupKind]*served{}
	begun, retry := time.Now(), 100*time.Millisecond
	for {
		wanted, calls := s.wanted()
		found, names, err := s.kinds(ctx, wanted)
		if ctx.Err() != nil {
			return
		}
		s.reachable(err)
		if err == nil && (s.complete(ctx, names) || time.Since(begun) > settling) {
			s.apply(ctx, active, found, wanted)
			s.looked(calls, wanted, found)
			known()
			break
		}
		if err != nil {
			begun = time.Now()
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(retry):
		}
		retry = min(2*retry, 2*time.Second)
	}
	next := time.NewTimer(s.options.Rescan)
	defer next.Stop()
	for pending := []time.Duration(nil); ; {
		select {
		case <-ctx.Done():
			return
		case <-s.look:
			pending = looks
			next.Reset(pending[0])
			continue
		case <-next.C:
		}
		wanted, calls := s.wanted()
		if found, _, err := s.kinds(ctx, wanted); err == nil {
			s.apply(ctx, active, found, wanted)
			s.looked(calls, wanted, found)
		}
		if len(pending) > 1 {
			next.Reset(pending[1] - pending[0])
			pending = pending[1:]
		} else {
			pending = nil
			next.Reset(s.options.Rescan)
		}
	}
}

// complete reports whether every kind that is defined is among the names that are served. Whoever may not read the
// definitions has to believe it.
func (s *Source) complete(ctx context.Context, names map[string]bool) bool {
	list, err := s.metadata.Resource(definitions).List(ctx, metav1.ListOptions{ResourceVersion: "0"})
	if err != nil {
		return apierrors.IsForbidden(err)
	}
	for _, d := range list.Items {
		if ofOurs(d.Name) && !names[d.Name] {
			return false
		}
	}
	return true
}

// ofOurs reports whether the definition of this name is of one of our groups.
func ofOurs(name string) bool {
	_, group, _ := strings.Cut(name, ".")
	return slices.Contains(customGroups, group)
}

// gone reports whether a kind that is not served is not defined either. Without permission to read the definition, it is
// gone when it has not been served for several looks.
func (s *Source) gone(ctx context.Context, k *served) bool {
	_, err := s.metadata.Resource(definitions).Get(ctx, k.what.Name+"."+k.what.Group, metav1.GetOptions{})
	if apierrors.IsForbidden(err) {
		k.missed++
		return k.missed > len(looks)
	}
	return apierrors.IsNotFound(err)
}

// served is a kind as the API server serves it.
type served struct {
	what      *Resource
	version   string
	asWritten bool
	queries   []*query
	// definition is the resourceVersion of the definition that asWritten was read from.
	definition string
	// missed counts the looks that did not find it.
	missed int
}

// kinds asks which of our kinds and of the wanted ones there are, and for the names "plural.group" of all that our groups
// serve. An error means that nothing is known.
func (s *Source) kinds(ctx context.Context, wanted map[schema.GroupKind]bool) (found map[schema.GroupKind]*served, names map[string]bool, err error) {
	found, names = map[schema.GroupKind]*served{}, map[string]bool{}
	for _, r := range resources {
		if r.builtIn && !(r.SeveralNamespaces() && s.options.Namespace != "") && (r.inPlaceOf == (snapshot.GroupKind{}) || s.unreadable(r.inPlaceOf)) {
			found[schema.GroupKind{Group: r.Group, Kind: r.Kind}] = &served{what: r, version: r.versions[0]}
		}
	}
	groups, err := s.discovery.ServerGroupsWithContext(ctx)
	if err != nil {
		return nil, nil, err
	}
	for _, g := range groups.Groups {
		if err := s.others(ctx, g, wanted, found); err != nil {
			return nil, nil, err
		}
		if !slices.Contains(customGroups, g.Name) {
			continue
		}
		var versions []string
		for _, v := range g.Versions {
			versions = append(versions, v.Version)
		}
		there := map[string][]metav1.APIResource{}
		for _, v := range versions {
			list, err := s.discovery.ServerResourcesForGroupVersionWithContext(ctx, g.Name+"/"+v)
			if apierrors.IsNotFound(err) {
				continue
			}
			if err != nil {
				return nil, nil, err
			}
			there[v] = list.APIResources
			for _, a := range list.APIResources {
				names[a.Name+"."+g.Name] = true
			}
		}
		for _, r := range known(g.Name, versions, there) {
			if r.knative && !s.options.Knative {
				continue
			}
			for _, v := range r.versions {
				if slices.ContainsFunc(there[v], func(a metav1.APIResource) bool { return a.Name == r.Name && slices.Contains(a.Verbs, "watch") }) {
					found[schema.GroupKind{Group: r.Group, Kind: r.Kind}] = &served{what: r, version: v}
					break
				}
			}
		}
	}
	for k, is := range found {
		if with := is.what.with; with != (snapshot.GroupKind{}) && found[schema.GroupKind(with)] == nil {
			delete(found, k)
		}
	}
	return found, names, nil
}

// known returns the kinds of a group that are worth watching.
func known(group string, versions []string, there map[string][]metav1.APIResource) []*Resource {
	var out []*Resource
	if group != groupChancery {
		for _, r := range resources {
			if r.Group == group {
				out = append(out, r)
			}
		}
		return out
	}
	seen := map[string]bool{}
	for _, v := range versions {
		for _, a := range there[v] {
			if !strings.Contains(a.Name, "/") && !seen[a.Name] {
				seen[a.Name] = true
				out = append(out, &Resource{Group: group, Kind: a.Kind, Name: a.Name, Cluster: !a.Namespaced, versions: versions})
			}
		}
	}
	return out
}

// apply begins and ends queries.
func (s *Source) apply(ctx context.Context, active, found map[schema.GroupKind]*served, wanted map[schema.GroupKind]bool) {
	for k, is := range found {
		was := active[k]
		is.convert(ctx, s, was)
		if was != nil && was.version == is.version && was.asWritten == is.asWritten {
			was.definition, was.missed = is.definition, 0
			continue
		}
		if was != nil {
			s.end(was)
		}
		s.begin(ctx, is)
		active[k] = is
	}
	for k, was := range active {
		if was.what.also && !wanted[k] {
			s.end(was) // looked takes its objects out
			delete(active, k)
			continue
		}
		switch with := was.what.with; {
		case found[k] != nil:
		case with != (snapshot.GroupKind{}) && active[schema.GroupKind(with)] != nil:
			// it may be served again in a moment
		case with != (snapshot.GroupKind{}) || was.what.inPlaceOf != (snapshot.GroupKind{}):
			s.drop(was)
			delete(active, k)
		case s.gone(ctx, was):
			s.log.Info("a kind is gone from the API server", "kind", k.String())
			s.end(was)
			delete(active, k)
		}
	}
}

// convert finds out whether the API server converts between the kind's versions.
func (k *served) convert(ctx context.Context, s *Source, was *served) {
	if k.what.Group != snapshot.EmissaryGroup {
		return
	}
	if was != nil {
		k.asWritten, k.definition = was.asWritten, was.definition
	}
	name := k.what.Name + "." + k.what.Group
	o, err := s.metadata.Resource(definitions).Get(ctx, name, metav1.GetOptions{ResourceVersion: "0"})
	if err != nil || o.ResourceVersion == k.definition {
		return
	}
	d, err := s.client.Resource(definitions).Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return // the next look asks again
	}
	k.definition = o.ResourceVersion
	strategy, _, _ := unstructured.NestedString(d.Object, "spec", "conversion", "strategy")
	versions, _, _ := unstructured.NestedSlice(d.Object, "spec", "versions")
	k.asWritten = strategy != "Webhook" && len(versions) > 1
}

// begin starts the queries of a kind. What it held when it vanished is taken over, so that nothing is missing until it
// has been listed.
func (s *Source) begin(ctx context.Context, k *served) {
	fields := k.what.fields
	if len(fields) == 0 {
		fields = []string{""}
	}
	s.world.mu.Lock()
	defer s.world.mu.Unlock()
	for _, f := range fields {
		q := &query{source: s, what: k.what, resource: k.what.version(k.version), fields: f, asWritten: k.asWritten, units: map[string]*unit{}}
		for old := range s.world.queries {
			if old.cancel == nil && old.what.GroupKind() == q.what.GroupKind() && old.fields == f {
				q.units, q.inherited = old.units, true
				delete(s.world.queries, old)
			}
		}
		s.world.queries[q] = struct{}{}
		k.queries = append(k.queries, q)
		var running context.Context
		running, q.cancel = context.WithCancel(ctx)
		q.context = running
		s.running.Go(func() { q.run(running) })
	}
}

// end stops the queries of a kind. A definition that is deleted takes its objects with it one by one; those that are
// there still were never deleted, so they stay, with a finding that says so.
func (s *Source) end(k *served) {
	for _, q := range k.queries {
		q.cancel()
	}
	s.world.mu.Lock()
	defer s.world.mu.Unlock()
	for _, q := range k.queries {
		q.cancel = nil
		if len(q.units) == 0 {
			delete(s.world.queries, q)
			continue
		}
		q.trouble = &snapshot.Diagnostic{
			Severity: snapshot.Warning, Code: codeVanished, Object: snapshot.Ref{Group: k.what.Group, Kind: k.what.Kind},
			Message: "the API server does not know " + k.what.Name + "." + k.what.Group + " any more; its objects stay as they were",
			Help:    codeVanished.Cure,
		}
	}
	s.poke()
}

// unreadable reports whether the API server refuses to show a kind, or did and has not shown all of it yet: what is read in
// its place stays until then.
func (s *Source) unreadable(k snapshot.GroupKind) bool {
	s.world.mu.Lock()
	defer s.world.mu.Unlock()
	for q := range s.world.queries {
		if q.what.GroupKind() == k && q.cancel != nil && (q.trouble != nil || q.behind) {
			return true
		}
	}
	return false
}

// drop stops the queries of a kind that is not needed any more, and forgets its objects.
func (s *Source) drop(k *served) {
	s.world.mu.Lock()
	defer s.world.mu.Unlock()
	for _, q := range k.queries {
		q.cancel()
		q.cancel = nil
		for _, u := range q.units {
			s.world.set(u, nil)
		}
		delete(s.world.queries, q)
	}
	s.poke()
}

// watchDefinitions asks for a look at the kinds whenever a definition of one of our groups changes. Without permission
// for that, the regular looks have to do.
func (s *Source) watchDefinitions(ctx context.Context) {
	client := s.metadata.Resource(definitions)
	lw := &cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) { return client.List(ctx, o) },
		WatchFuncWithContext: func(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
			return client.Watch(ctx, o)
		},
	}
	logger := klog.FromContext(ctx)
	cache.NewReflectorWithOptions(cache.ToListWatcherWithWatchListSemantics(lw, s.client), &metav1.PartialObjectMetadata{}, (*definitionStore)(s), cache.ReflectorOptions{
		Logger: &logger, Name: "definitions", TypeDescription: "CustomResourceDefinition", Backoff: &backoff,
	}).RunWithContext(ctx)
}

// definitionStore is a source as the store of definitions: it keeps none.
type definitionStore Source

// Add implements cache.ReflectorStore.
func (d *definitionStore) Add(obj any) error { return d.Update(obj) }

// Update implements cache.ReflectorStore.
func (d *definitionStore) Update(obj any) error {
	if o, ok := obj.(*metav1.PartialObjectMetadata); ok {
		s := (*Source)(d)
		_, group, _ := strings.Cut(o.Name, ".")
		if wanted, _ := s.wanted(); ofOurs(o.Name) || hasGroup(wanted, group) {
			s.rediscover()
		}
	}
	return nil
}

// Delete implements cache.ReflectorStore.
func (d *definitionStore) Delete(obj any) error { return d.Update(obj) }

// Replace implements cache.ReflectorStore.
func (d *definitionStore) Replace([]any, string) error {
	(*Source)(d).rediscover()
	return nil
}

// Resync implements cache.ReflectorStore.
func (d *definitionStore) Resync() error { return nil }
