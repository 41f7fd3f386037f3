package policies

import (
	"fmt"
	"time"

	"github.com/chancery-gateway/chancery/policies/engine"
	"github.com/chancery-gateway/chancery/snapshot"
)

// rehearse asks a merge policy about made-up claims in every order, and marks it broken when the order matters.
func (w *world) rehearse(p *engine.Policy) {
	if p.Broken != nil {
		return
	}
	for _, kind := range claimKinds {
		taken := kind
		if kind == kindDefaults {
			taken = "Module"
		}
		if !p.Spec.Match.TakesKind(snapshot.GroupKind{Group: snapshot.EmissaryGroup, Kind: taken}) {
			continue
		}
		claims := rehearsal(taken)
		first := ""
		for i, places := range [][]int{{0, 1, 2}, {0, 2, 1}, {1, 0, 2}, {1, 2, 0}, {2, 0, 1}, {2, 1, 0}} {
			answer, _, failure := w.askInOrder(p, claimed{kind, "rehearsal"}, claims, []*entry{claims[places[0]], claims[places[1]], claims[places[2]]})
			said := ""
			switch {
			case failure != nil && failure.Code != engine.CodeFailed: // conflicting rules and the like, which made-up claims may provoke rightly
				said = failure.Code.ID
			case failure == nil && answer != nil:
				said = string(answer.Value)
			}
			if i == 0 {
				first = said
			}
			if said != first {
				d := p.About(engine.CodeOrder, "", fmt.Sprintf("merge policy %s gives different answers for one set of %s claims in different orders", p.ID, kind), "decide by age, tenant or fields, never by the place in the list")
				p.Broken = &d
				w.findings = append(w.findings, d)
				return
			}
		}
	}
}

// rehearsal makes up three claims of a kind.
func rehearsal(kind string) (claims []*entry) {
	for i, tenant := range []string{"", "one", "two"} {
		text := fmt.Sprintf(`{"apiVersion":"getambassador.io/v3alpha1","kind":%q,"metadata":{"name":"n%d","namespace":"ns%d","labels":{"owner":"o%d"}},`+
			`"spec":{"hostname":"a.example.com","prefix":"/a/","service":"s%d","port":%d,"protocol":"HTTP","securityModel":"XFP","timeout_ms":%d,"weight":%d,"auth_service":"s%d"}}`, kind, i, i, i, i, 8080, 1000*(3-i), 10*i, i)
		o := &snapshot.Object{Ref: snapshot.Ref{Group: snapshot.EmissaryGroup, Kind: kind, Namespace: fmt.Sprintf("ns%d", i), Name: fmt.Sprintf("n%d", i)}, Raw: []byte(text),
			Created: time.Unix(int64(1_700_000_000+i), 0)}
		claims = append(claims, &entry{object: o, candidate: o, question: &question{owner: tenant}})
	}
	return claims
}
