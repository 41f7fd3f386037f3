// Package trace follows one source object to everything that it became in the linked program.
package trace

import (
	"fmt"
	"strings"

	"github.com/chancery-gateway/chancery/translators/ir"
)

// Match says in words which requests a route takes, as in `GET prefix /shop/, header x-user = "a"`.
func Match(m *ir.Match) string {
	var parts []string
	method := ""
	for _, h := range m.Headers {
		if h.Name == ":method" && h.Kind == ir.ValueExact && !h.Invert {
			method = h.Value + " "
			continue
		}
		parts = append(parts, "header "+value(h))
	}
	for _, q := range m.Query {
		parts = append(parts, "query "+value(q))
	}
	if m.Fraction != nil {
		parts = append(parts, fmt.Sprintf("%d of %d requests", m.Fraction.Numerator, m.Fraction.Denominator))
	}
	path := string(m.PathKind) + " " + m.Path
	if m.IgnoreCase {
		path += " in any case"
	}
	return method + strings.Join(append([]string{path}, parts...), ", ")
}

func value(v ir.ValueMatch) string {
	not := ""
	if v.Invert {
		not = "not "
	}
	switch v.Kind {
	case ir.ValuePresent:
		return not + v.Name
	case ir.ValueExact:
		return fmt.Sprintf("%s%s = %q", not, v.Name, v.Value)
	}
	return fmt.Sprintf("%s%s %s %q", not, v.Name, v.Kind, v.Value)
}

// Action says in words what a route does.
func Action(r *ir.Route) string {
	switch {
	case r.Redirect != nil:
		to := []string{}
		add := func(what, v string) {
			if v != "" {
				to = append(to, what+" "+v)
			}
		}
		if r.Redirect.HTTPS {
			to = append(to, "https")
		}
		add("scheme", r.Redirect.Scheme)
		add("host", r.Redirect.Host)
		add("path", r.Redirect.Path)
		if r.Redirect.PrefixRewrite != nil {
			add("prefix", *r.Redirect.PrefixRewrite)
		}
		return fmt.Sprintf("redirect %d to %s", r.Redirect.Code, strings.Join(to, ", "))
	case r.Direct != nil:
		return fmt.Sprintf("answer %d", r.Direct.Status)
	case r.Forward != nil:
		return "forward to " + Targets(r.Forward.Clusters)
	}
	return "nothing"
}

// Targets says in words where weighted clusters lead.
func Targets(clusters []ir.WeightedCluster) string {
	if len(clusters) == 1 {
		return clusters[0].Cluster
	}
	parts := make([]string, len(clusters))
	for i, c := range clusters {
		parts[i] = fmt.Sprintf("%s (weight %d)", c.Cluster, c.Weight)
	}
	return strings.Join(parts, ", ")
}
