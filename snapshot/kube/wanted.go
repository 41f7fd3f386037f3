package kube

import (
	"context"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/chancery-gateway/chancery/snapshot"
)

// also are the kinds that are watched beside those that always are.
type also struct {
	kinds map[schema.GroupKind]bool
	// calls counts the calls of Also, looked how many of them the last look at the API server knew of.
	calls, looked int
	// owed is set until a snapshot has been delivered that has the kinds.
	owed bool
}

// Also makes the source watch these kinds too, in place of those that the last call named: what is not named any more
// leaves the snapshot. Kinds that the API server does not serve yet are watched as soon as it does, with a finding until
// then. Once the kinds have been listed, a snapshot is delivered even if it says the same as the last one; Listed then
// reports true.
func (s *Source) Also(kinds []snapshot.GroupKind) {
	next := map[schema.GroupKind]bool{}
	for _, k := range kinds {
		if k.Kind != "" && k.Kind != "*" && k.Group != groupChancery && !slices.ContainsFunc(resources, func(r *Resource) bool { return r.GroupKind() == k }) {
			next[schema.GroupKind{Group: k.Group, Kind: k.Kind}] = true
		}
	}
	s.mu.Lock()
	s.also.kinds, s.also.owed = next, true
	s.also.calls++
	s.mu.Unlock()
	s.rediscover()
}

// Listed reports whether the kinds of the last call of Also have been listed, or cannot be.
func (s *Source) Listed() bool {
	s.mu.Lock()
	looked := s.also.looked == s.also.calls
	s.mu.Unlock()
	return looked && s.settled()
}

// owes reports whether a snapshot is to be delivered because the kinds of Also have been listed.
func (s *Source) owes() bool {
	if !s.Listed() {
		return false
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	owed := s.also.owed
	s.also.owed = false
	return owed
}

// wanted returns the kinds of Also, and how many calls of it that takes in.
func (s *Source) wanted() (map[schema.GroupKind]bool, int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.also.kinds, s.also.calls
}

// looked notes that the API server was asked for the kinds of so many calls of Also, and which of them it does not serve.
// The objects of kinds that nobody wants any more go.
func (s *Source) looked(calls int, wanted map[schema.GroupKind]bool, found map[schema.GroupKind]*served) {
	var absent []snapshot.Diagnostic
	for k := range wanted {
		if found[k] == nil {
			absent = append(absent, snapshot.Diagnostic{
				Severity: snapshot.Warning, Code: codeAbsent, Object: snapshot.Ref{Group: k.Group, Kind: k.Kind},
				Message: "a module reads " + k.String() + ", which the API server does not serve", Help: codeAbsent.Cure,
			})
		}
	}
	s.world.mu.Lock()
	s.world.absent = absent
	for q := range s.world.queries {
		if q.what.also && q.cancel == nil && !wanted[schema.GroupKind(q.what.GroupKind())] {
			for _, u := range q.units {
				s.world.set(u, nil)
			}
			delete(s.world.queries, q)
		}
	}
	s.world.mu.Unlock()
	s.mu.Lock()
	s.also.looked = calls
	s.mu.Unlock()
	s.poke()
}

// others asks which of the wanted kinds a group serves, in which version.
func (s *Source) others(ctx context.Context, g metav1.APIGroup, wanted map[schema.GroupKind]bool, found map[schema.GroupKind]*served) error {
	if !hasGroup(wanted, g.Name) {
		return nil
	}
	versions := []string{g.PreferredVersion.Version}
	for _, v := range g.Versions {
		if v.Version != g.PreferredVersion.Version {
			versions = append(versions, v.Version)
		}
	}
	for _, v := range versions {
		list, err := s.discovery.ServerResourcesForGroupVersionWithContext(ctx, schema.GroupVersion{Group: g.Name, Version: v}.String())
		if apierrors.IsNotFound(err) {
			continue
		}
		if err != nil {
			return err
		}
		for _, a := range list.APIResources {
			k := schema.GroupKind{Group: g.Name, Kind: a.Kind}
			if wanted[k] && found[k] == nil && !strings.Contains(a.Name, "/") && slices.Contains(a.Verbs, "watch") {
				found[k] = &served{version: v, what: &Resource{Group: g.Name, Kind: a.Kind, Name: a.Name, Cluster: !a.Namespaced, versions: versions, also: true}}
			}
		}
	}
	return nil
}

func hasGroup(kinds map[schema.GroupKind]bool, group string) bool {
	for k := range kinds {
		if k.Group == group {
			return true
		}
	}
	return false
}
