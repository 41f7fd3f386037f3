// Package status tells authors on their own objects what came of them: conditions in the status of every kind of ours,
// Emissary's fields in that of Mappings and Hosts, the addresses in that of Ingresses, the whole status of Gateway API's objects
// as far as it is ours, and an Event where something turned.
// One replica, the leader, writes; an object is written when what there is to say about it changed, and then once.
package status

import (
	"strings"
	"unicode/utf8"

	"github.com/chancery-gateway/chancery/snapshot"
	"github.com/chancery-gateway/chancery/snapshot/api/v3alpha1"
	"github.com/chancery-gateway/chancery/translators/ir"
)

// Outcome is what there is to say about one object.
type Outcome struct {
	// APIVersion is the version in which the object was written: its status is written in the same, since the API server
	// forgets who wrote which field of an object that is touched in a version in which it would not be valid.
	APIVersion string
	// UID and Generation are those of the object as it was read; zero where it could not be read.
	UID        string
	Generation int64
	// Fault is why the object, or a part of it, has no effect: "" for none.
	Fault string
	// Refused says that the fault is Envoy's refusal of what was made of the object.
	Refused bool
	// Warnings are what else its author should know.
	Warnings string
	// Secret says that a Host names a certificate.
	Secret bool
	// Addresses are the entries of an Ingress' status.loadBalancer.ingress, JSON; the same for a Gateway that is given none, and the
	// supported features of a GatewayClass.
	Addresses string
	// Status is what the translation says of an object of Gateway API; nil where it says nothing.
	Status *ir.Status
	// Programmed says that an Envoy has answered what was made of the object.
	Programmed bool
	// Foreign says that the object is not, or no more, ours: nothing of ours is to stand there.
	Foreign bool
	// Parents are those of a route that was not translated for the sake of Fault, JSON.
	Parents string
}

// Outcomes returns what there is to say about each object of our kinds that is one of its own and is for the installation
// id, and about those that could not be read.
func Outcomes(s *snapshot.Snapshot, findings []snapshot.Diagnostic, id string) map[snapshot.Ref]Outcome {
	all := make(map[snapshot.Ref]Outcome, s.Len(v3alpha1.KindMapping)+s.Len(v3alpha1.KindHost))
	foreign := map[snapshot.Ref]bool{}
	for _, k := range kinds {
		for o := range s.List(k.GroupKind) {
			out := Outcome{APIVersion: o.APIVersion, UID: o.UID, Generation: o.Generation}
			if spec, is := o.Spec.(*v3alpha1.HostSpec); is {
				out.Secret = spec.TLSSecret != nil && spec.TLSSecret.Name != ""
			}
			ids, has := idsOf(o.Spec)
			if o.Parent != nil || o.UID == "" || has && !ids.Matches(id) {
				foreign[o.Ref] = true
				continue
			}
			all[o.Ref] = out
		}
	}
	for i := range findings {
		d := &findings[i]
		r := d.Object
		if r.Name == "" || !told(r.GroupKind()) || foreign[r] || d.Severity == snapshot.Info {
			continue
		}
		out, known := all[r]
		if !known {
			out = Outcome{APIVersion: d.APIVersion} // it could not be read
		}
		switch {
		case d.Severity == snapshot.Error:
			out.Fault = join(out.Fault, sentence(d))
			out.Refused = out.Refused || refusal(d.Code)
		default:
			out.Warnings = join(out.Warnings, sentence(d))
		}
		all[r] = out
	}
	return all
}

// refusal reports whether the code is Envoy's verdict.
func refusal(c *snapshot.Code) bool {
	return strings.HasPrefix(c.ID, "CH-PROOF-") || strings.HasPrefix(c.ID, "CH-VALIDATOR-")
}

// sentence is a finding as its object tells it.
func sentence(d *snapshot.Diagnostic) string {
	text := d.Message
	if d.Path != "" && !strings.HasPrefix(text, d.Path) {
		text = d.Path + ": " + text
	}
	if d.Help != "" {
		text += " (" + d.Help + ")"
	}
	return text + " [" + d.Code.ID + "]"
}

// longest is how much is written of all findings together.
const longest = 4096

// join adds a sentence as far as there is room.
func join(text, more string) string {
	if text != "" {
		more = text + "; " + more
	}
	if len(more) <= longest {
		return more
	}
	cut := longest - len("…")
	for cut > 0 && !utf8.RuneStart(more[cut]) {
		cut--
	}
	return more[:cut] + "…"
}
