package engine

import (
	"slices"
	"strings"

	"github.com/open-policy-agent/opa/v1/ast"

	"github.com/chancery-gateway/chancery/policies/index"
)

// projection is what of its input a policy reads, rule by rule: objects that agree there get the same answer.
type projection struct {
	rules []reading
	// entries are the places of the entry points' rules, by name.
	entries map[string][]int
}

// reading is what one rule reads itself, and which rules it refers to.
type reading struct {
	// guard is a field without which the rule says nothing and reads nothing more; the zero Path for none.
	guard index.Path
	paths []index.Path
	// around is set when the namespace or tenant is read, open when it is more than can be told, or other objects.
	around, open bool
	next         []int
}

// project reads the projection from the modules of a policy. others returns the modules of another package, and of all that
// these refer to.
func project(mods []*module, others func(path string) []*module) projection {
	p := &projector{projection: projection{entries: map[string][]int{}}, named: map[ast.Var][]int{}, foreign: map[string]int{}, others: others}
	n := 0
	for _, m := range mods {
		for _, r := range m.parsed.Rules {
			name, ok := r.Head.Ref()[0].Value.(ast.Var)
			if !ok {
				continue
			}
			p.named[name] = append(p.named[name], n)
			if slices.Contains(entryPoints, string(name)) {
				p.entries[string(name)] = append(p.entries[string(name)], n)
			}
			n++
		}
	}
	p.rules = make([]reading, n)
	n = 0
	for _, m := range mods {
		p.imports = map[ast.Var]ast.Ref{}
		for _, i := range m.parsed.Imports {
			if r, ok := i.Path.Value.(ast.Ref); ok {
				p.imports[i.Name()] = r
			}
		}
		for _, r := range m.parsed.Rules {
			if _, ok := r.Head.Ref()[0].Value.(ast.Var); ok {
				p.rule(n, r)
				n++
			}
		}
	}
	return p.projection
}

type projector struct {
	projection
	named   map[ast.Var][]int
	imports map[ast.Var]ast.Ref
	foreign map[string]int // by path
	others  func(path string) []*module
	lists   map[ast.Var][]string // variables of the present rule that run over constants
}

func (p *projector) rule(n int, r *ast.Rule) {
	one := reading{guard: p.guard(r)}
	p.lists = constantLists(r)
	var v *ast.GenericVisitor
	call := func(terms []*ast.Term) bool {
		if len(terms) != 4 || terms[0].Value.String() != ast.ObjectGet.Name {
			return false
		}
		ref, isRef := terms[1].Value.(ast.Ref)
		key, named := terms[2].Value.(ast.String)
		if path, isPath := terms[2].Value.(*ast.Array); isPath && path.Len() > 0 {
			key, named = path.Elem(0).Value.(ast.String)
		}
		if !isRef || !named || !plain(ref) {
			return false
		}
		p.read(&one, ref.Append(ast.NewTerm(key)))
		v.Walk(terms[2])
		v.Walk(terms[3])
		return true
	}
	v = ast.NewGenericVisitor(func(x any) bool {
		switch x := x.(type) {
		case *ast.With: // another input or other data
			one.open = true
			return true
		case *ast.Expr:
			if terms, ok := x.Terms.([]*ast.Term); ok && call(terms) {
				for _, w := range x.With {
					v.Walk(w)
				}
				return true
			}
		case *ast.Term:
			switch value := x.Value.(type) {
			case ast.Var:
				p.read(&one, ast.Ref{x})
			case ast.Call:
				return call(value)
			case ast.Ref:
				p.read(&one, value)
				walkSteps(v, value)
				return true
			}
		}
		return false
	})
	v.Walk(r)
	slices.Sort(one.next)
	one.next = slices.Compact(one.next)
	p.rules[n] = one
}

// read notes what a reference reads.
func (p *projector) read(one *reading, r ast.Ref) {
	head, ok := r[0].Value.(ast.Var)
	if !ok {
		return
	}
	if of, imported := p.imports[head]; imported {
		r = of.Concat(r[1:])
		head, _ = r[0].Value.(ast.Var)
	}
	switch {
	case head == ast.DefaultRootDocument.Value.(ast.Var):
		to := dotted(r)
		if to == "" || to == "chancery" || to == "chancery.index" || strings.HasPrefix(to, "chancery.index.") {
			one.open = true // everything, or other objects
			return
		}
		one.next = append(one.next, p.packageAt(to))
	case head == ast.InputRootDocument.Value.(ast.Var):
		p.readInput(one, r)
	default:
		one.next = append(one.next, p.named[head]...)
	}
}

func (p *projector) readInput(one *reading, r ast.Ref) {
	names := constants(r[1:], 3)
	if len(names) == 0 {
		one.open = true
		return
	}
	switch names[0] {
	case "object":
		if len(names) == 1 {
			one.open = true
			return
		}
		var path index.Path
		copy(path[:], names[1:])
		if len(names) == 2 && len(r) > 3 {
			if v, ok := r[3].Value.(ast.Var); ok && p.lists[v] != nil {
				for _, name := range p.lists[v] {
					one.add(index.Path{names[1], name})
				}
				return
			}
		}
		one.add(path)
	case "namespace", "tenant":
		one.around = true
	case "parameters", "point": // equal for all objects
	default: // the operation and the old object
		one.open = true
	}
}

func (r *reading) add(path index.Path) {
	if !slices.Contains(r.paths, path) {
		r.paths = append(r.paths, path)
	}
}

// packageAt returns the place of a reading that stands for all that the path and what it refers to may read.
func (p *projector) packageAt(path string) int {
	if at, have := p.foreign[path]; have {
		return at
	}
	at := len(p.rules)
	p.foreign[path] = at
	p.rules = append(p.rules, whole(p.others(path)))
	return at
}

// whole is what modules read, all in all.
func whole(mods []*module) (out reading) {
	p := &projector{}
	for _, m := range mods {
		if m.wild != nil {
			out.open = true
		}
		refer := func(r ast.Ref) {
			if len(r) == 0 {
				return
			}
			switch {
			case r[0].Equal(ast.InputRootDocument):
				p.readInput(&out, r)
			case r[0].Equal(ast.DefaultRootDocument):
				to := dotted(r) // other packages are among the modules
				out.open = out.open || to == "" || to == "chancery" || to == "chancery.index" || strings.HasPrefix(to, "chancery.index.")
			}
		}
		for _, i := range m.parsed.Imports {
			if r, ok := i.Path.Value.(ast.Ref); ok {
				refer(r)
			}
		}
		m.walk(refer, func(v ast.Var, _ *ast.Location) { out.open = out.open || v == ast.InputRootDocument.Value.(ast.Var) })
		ast.WalkWiths(m.parsed, func(*ast.With) bool {
			out.open = true
			return true
		})
	}
	return out
}

// guard returns a field that the rule's first expression needs: where it is absent the rule is undefined before anything else
// of it is looked at.
func (p *projector) guard(r *ast.Rule) index.Path {
	if r.Default || r.Else != nil || len(r.Body) == 0 || r.Body[0].Negated || len(r.Body[0].With) > 0 {
		return index.Path{}
	}
	var operands []*ast.Term
	switch terms := r.Body[0].Terms.(type) {
	case *ast.Term:
		operands = []*ast.Term{terms}
	case []*ast.Term:
		if _, builtin := ast.BuiltinMap[terms[0].Value.String()]; !builtin {
			return index.Path{}
		}
		operands = terms[1:]
	case *ast.SomeDecl:
		member, ok := terms.Symbols[0].Value.(ast.Call)
		if !ok || len(terms.Symbols) != 1 {
			return index.Path{}
		}
		operands = member[len(member)-1:]
	default:
		return index.Path{}
	}
	var found index.Path
	for _, o := range operands {
		switch value := o.Value.(type) {
		case ast.Null, ast.Boolean, ast.Number, ast.String:
		case ast.Ref:
			if of, imported := p.imports[headOf(value)]; imported {
				value = of.Concat(value[1:])
			}
			if !plain(value) || !value[0].Equal(ast.InputRootDocument) {
				return index.Path{}
			}
			if names := constants(value[1:], 3); len(names) > 1 && names[0] == "object" && found == (index.Path{}) {
				copy(found[:], names[1:])
			}
		default:
			return index.Path{}
		}
	}
	return found
}

func headOf(r ast.Ref) ast.Var {
	v, _ := r[0].Value.(ast.Var)
	return v
}

// plain reports whether every step of a reference is a constant.
func plain(r ast.Ref) bool {
	return !slices.ContainsFunc(r[1:], func(t *ast.Term) bool {
		_, constant := t.Value.(ast.String)
		return !constant
	})
}

// constantLists returns the variables that "some x in [...]" of the rule's own body lets run over texts, and that nothing else
// in the rule declares.
func constantLists(r *ast.Rule) map[ast.Var][]string {
	declared := map[ast.Var]int{}
	note := func(t *ast.Term) {
		ast.WalkVars(t, func(v ast.Var) bool {
			declared[v]++
			return false
		})
	}
	for _, a := range r.Head.Args {
		note(a)
	}
	ast.WalkExprs(r, func(e *ast.Expr) bool {
		switch terms := e.Terms.(type) {
		case *ast.SomeDecl:
			for _, s := range terms.Symbols {
				if member, ok := s.Value.(ast.Call); ok {
					for _, t := range member[1 : len(member)-1] {
						note(t)
					}
				} else {
					note(s)
				}
			}
		case *ast.Every:
			if terms.Key != nil {
				note(terms.Key)
			}
			note(terms.Value)
		case []*ast.Term:
			if e.IsAssignment() {
				note(terms[1])
			}
		}
		return false
	})
	out := map[ast.Var][]string{}
	for _, e := range r.Body {
		some, ok := e.Terms.(*ast.SomeDecl)
		if !ok || len(some.Symbols) != 1 {
			continue
		}
		member, ok := some.Symbols[0].Value.(ast.Call)
		if !ok || len(member) != 3 {
			continue
		}
		v, isVar := member[1].Value.(ast.Var)
		list, isList := member[2].Value.(*ast.Array)
		if !isVar || !isList || declared[v] != 1 {
			continue
		}
		var texts []string
		list.Foreach(func(t *ast.Term) {
			if s, ok := t.Value.(ast.String); ok {
				texts = append(texts, string(s))
			}
		})
		if len(texts) == list.Len() && len(texts) > 0 {
			out[v] = texts
		}
	}
	return out
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
