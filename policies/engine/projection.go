package engine

import (
	"slices"
	"strings"

	"github.com/open-policy-agent/opa/v1/ast"

	"github.com/chancery-gateway/chancery/policies/index"
)

// projection is what of its input a policy reads: objects that agree there get the same answer.
type projection struct {
	// usable is not set when the policy reads more than can be told, or other objects.
	usable bool
	paths  []index.Path
	// around is set when the namespace or tenant is read.
	around bool
}

// project reads the projection from the rules of a policy and of all that these refer to.
func project(mods []*module) projection {
	p := projection{usable: true}
	input := ast.InputRootDocument.Value.(ast.Var)
	read := func(r ast.Ref) {
		switch {
		case len(r) == 0:
		case r[0].Equal(ast.DefaultRootDocument):
			if to := dotted(r); to == "" || to == "chancery" || to == "chancery.index" || strings.HasPrefix(to, "chancery.index.") {
				p.usable = false // other objects
			}
		case r[0].Equal(ast.InputRootDocument):
			names := constants(r[1:], 3)
			if len(names) == 0 {
				p.usable = false
				return
			}
			switch names[0] {
			case "object":
				var path index.Path
				if copy(path[:], names[1:]) == 0 {
					p.usable = false
				} else if !slices.Contains(p.paths, path) {
					p.paths = append(p.paths, path)
				}
			case "namespace", "tenant":
				p.around = true
			case "parameters", "point": // equal for all objects
			default: // the operation and the old object
				p.usable = false
			}
		}
	}
	for _, m := range mods {
		if m.wild != nil {
			return projection{}
		}
		for _, i := range m.parsed.Imports {
			if r, ok := i.Path.Value.(ast.Ref); ok {
				read(r)
			}
		}
		m.walk(read, func(v ast.Var, _ *ast.Location) { p.usable = p.usable && v != input })
		ast.WalkWiths(m.parsed, func(*ast.With) bool { // another input or other data
			p.usable = false
			return true
		})
	}
	return p
}

// constants returns the names that a reference begins with, at most n.
func constants(r ast.Ref, n int) (out []string) {
	for _, t := range r[:min(len(r), n)] {
		s, ok := t.Value.(ast.String)
		if !ok {
			break
		}
		out = append(out, string(s))
	}
	return out
}
