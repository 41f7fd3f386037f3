package quarantine

import (
	"slices"
	"strings"
	"time"

	"github.com/chancery-gateway/chancery/snapshot"
	"github.com/chancery-gateway/chancery/translators"
)

// ownFaults are the compiler's findings about what an object itself says. Claims that it loses to others, and what it refers to,
// are not among them: these are no fault of its form.
var ownFaults = []string{
	"CH-MAPPING-", "CH-TCP-", "CH-HOST-001", "CH-HOST-002", "CH-LISTENER-001", "CH-LISTENER-002", "CH-LISTENER-004",
	"CH-CLUSTER-001", "CH-CLUSTER-006", "CH-CLUSTER-007", "CH-TLS-006", "CH-MODULE-001", "CH-SERVICE-002",
	"CH-ENVOY-001", "CH-ENVOY-008", "CH-ENVOY-009", "CH-ENVOY-010", "CH-ENVOY-011", "CH-ENVOY-012", "CH-ENVOY-013",
	"CH-ENVOY-016", "CH-ENVOY-017", "CH-ENVOY-019", "CH-ENVOY-020", "CH-ENVOY-021",
}

func ownFault(d *snapshot.Diagnostic) bool {
	return d.Severity == snapshot.Error && d.Policy == "" && slices.ContainsFunc(ownFaults, func(p string) bool { return strings.HasPrefix(d.Code.ID, p) })
}

// holdFaulty puts objects into their last good form whose new one Chancery's own rules refuse.
func (q *Quarantine) holdFaulty(given *snapshot.Snapshot, r *translators.Result) []*holding {
	var held []*holding
	byRef := map[snapshot.Ref]*holding{}
	for i := range r.Diagnostics {
		d := &r.Diagnostics[i]
		if !ownFault(d) {
			continue
		}
		if h := byRef[d.Object]; h != nil {
			h.found = append(h.found, *d)
			continue
		}
		now := r.Snapshot.Get(d.Object.GroupKind(), d.Object.Namespace, d.Object.Name)
		m, ok := q.member(d.Object, given, now)
		if !ok && spoils(d) && len(q.good.Kinds()) > 0 {
			m, ok = q.newcomer(d.Object, given, r.Snapshot)
		}
		if !ok {
			continue
		}
		h := &holding{what: "with it none of what it is part of could be served", since: time.Now(), members: []member{m}, found: []snapshot.Diagnostic{*d}}
		byRef[d.Object] = h
		held = append(held, h)
	}
	return held
}

// spoils tells whether a finding of the back end is about an object that only adds to what others make: all of that is left out
// because of it.
func spoils(d *snapshot.Diagnostic) bool {
	return strings.HasPrefix(d.Code.ID, "CH-ENVOY-") && slices.Contains([]string{"Module", "AuthService", "RateLimitService", "LogService", "TracingService"}, d.Object.Kind)
}

// neverGood tells whether a finding is about an object of which nothing is served because of it.
func neverGood(d *snapshot.Diagnostic) bool {
	return d.Code.ID == refusedPart || ownFault(d) && (d.Object.Kind == "Mapping" || d.Object.Kind == "TCPMapping")
}

// unreadable are the decoder's findings, after which there is no object.
const unreadable = "CH-API-"

// restored returns the good forms of objects that cannot be read: their source keeps them for as long as it runs, but not from one
// run to the next.
func (q *Quarantine) restored(s *snapshot.Snapshot) []*snapshot.Object {
	var put []*snapshot.Object
	findings := s.Findings()
	for i := range findings {
		d := &findings[i]
		if d.Severity != snapshot.Error || d.Object.Name == "" || !strings.HasPrefix(d.Code.ID, unreadable) {
			continue
		}
		k := d.Object.GroupKind()
		if s.Get(k, d.Object.Namespace, d.Object.Name) != nil {
			continue
		}
		if good := q.good.Get(k, d.Object.Namespace, d.Object.Name); good != nil && !slices.Contains(put, good) {
			put = append(put, good)
		}
	}
	return put
}
