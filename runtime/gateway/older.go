package gateway

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/chancery-gateway/chancery/runtime/proof"
	"github.com/chancery-gateway/chancery/runtime/supervisor"
	"github.com/chancery-gateway/chancery/snapshot"
	"github.com/chancery-gateway/chancery/translators/envoy"
	"github.com/chancery-gateway/chancery/translators/ir"
	"github.com/chancery-gateway/chancery/xds"
)

// mostNamed is how many Envoys a finding names; the others are counted.
const mostNamed = 3

// older says which of the connected Envoys are too old, and what those that are older than the newest do without: each thing
// once, however many Envoys do without it.
func older(nodes []xds.NodeStatus, s *snapshot.Snapshot) []snapshot.Diagnostic {
	type lack struct{ text, kind, name string }
	origins, those := map[lack][]ir.Origin{}, map[lack][]string{}
	var all []lack
	var unsupported []string
	for _, n := range nodes {
		if n.Version != "" && !supervisor.Supported(n.Version) {
			unsupported = append(unsupported, fmt.Sprintf("%s (%s)", n.ID, n.Version))
		}
		for _, t := range n.Types {
			for _, l := range t.Lacks {
				k := lack{l.Text, t.Type, l.Name}
				if _, known := origins[k]; !known {
					all = append(all, k)
				}
				origins[k] = l.Origins
				those[k] = append(those[k], fmt.Sprintf("%s (%s)", n.ID, n.Version))
			}
		}
	}
	slices.SortFunc(all, func(a, b lack) int {
		return cmp.Or(strings.Compare(a.kind, b.kind), strings.Compare(a.name, b.name), strings.Compare(a.text, b.text))
	})
	var found []snapshot.Diagnostic
	for _, k := range all {
		found = append(found, proof.Diagnostics(envoy.TooOld, "on Envoy "+named(those[k])+", "+k.text, envoy.TooOld.Cure, origins[k], s)...)
	}
	if len(unsupported) > 0 {
		found = append(found, proof.Diagnostics(proof.Outdated, "connected is Envoy "+named(unsupported), proof.Outdated.Cure, nil, s)...)
	}
	for i := range found {
		found[i].Severity = snapshot.Warning
	}
	return found
}

// named lists the first Envoys and counts the others.
func named(nodes []string) string {
	slices.Sort(nodes)
	nodes = slices.Compact(nodes)
	if more := len(nodes) - mostNamed; more > 0 {
		return strings.Join(nodes[:mostNamed], ", ") + fmt.Sprintf(" and %d more", more)
	}
	return strings.Join(nodes, ", ")
}
