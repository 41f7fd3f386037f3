package trace

import (
	"fmt"
	"strings"

	"github.com/chancery-gateway/chancery/translators"
	"github.com/chancery-gateway/chancery/translators/ir"
)

// status adds what became of an object of Gateway API, in the terms of its status: as a whole, by listener and by parent.
func (t *Object) status(r *translators.Result) {
	for _, s := range r.Statuses {
		if s.Object != t.Object {
			continue
		}
		if len(s.Conditions) > 0 {
			t.Nodes = append(t.Nodes, Node{Kind: "status", Name: s.Object.Kind, Detail: conditions(s.Conditions)})
		}
		for _, l := range s.Listeners {
			t.Nodes = append(t.Nodes, Node{Kind: "status", Name: "listener " + l.Name, Detail: fmt.Sprintf("%s; attached routes: %d", conditions(l.Conditions), l.AttachedRoutes)})
		}
		for _, p := range s.Parents {
			name := "at " + p.Parent.Ref().String()
			if p.Parent.SectionName != "" {
				name += " " + p.Parent.SectionName
			}
			t.Nodes = append(t.Nodes, Node{Kind: "status", Name: name, Detail: conditions(p.Conditions)})
		}
	}
}

// conditions says conditions in words: the type alone for one that is true for its usual reason, and the message of one that is not.
func conditions(all []ir.Condition) string {
	var out []string
	for _, c := range all {
		switch {
		case c.Type == "Conflicted" && !c.True:
		case c.True && c.Reason == c.Type:
			out = append(out, c.Type)
		case c.True:
			out = append(out, fmt.Sprintf("%s (%s: %s)", c.Type, c.Reason, c.Message))
		default:
			out = append(out, fmt.Sprintf("not %s (%s: %s)", c.Type, c.Reason, c.Message))
		}
	}
	return strings.Join(out, ", ")
}
