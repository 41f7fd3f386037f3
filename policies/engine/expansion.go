package engine

import (
	"fmt"
	"strings"

	"github.com/open-policy-agent/opa/v1/ast"
)

// The compiler gives each value a type as large as the value written out: a few lines that pair a value with itself again and
// again would keep it busy for ever, and it cannot be interrupted. So the size is estimated before. A rule may unfold to
// maxExpansion times what its package has, and to freeExpansion anyway.
const (
	maxExpansion  = 4
	freeExpansion = 2000
	endless       = 1 << 40
)

// expansion estimates sizes of the types of the rules of a unit.
type expansion struct {
	rules map[string][]*ast.Rule // by package and name
	own   map[*ast.Rule]*module
	sizes map[string]int
}

func (u *unit) expansion() *expansion {
	x := &expansion{rules: map[string][]*ast.Rule{}, own: map[*ast.Rule]*module{}, sizes: map[string]int{}}
	for name, p := range u.packages {
		for _, m := range p.mods {
			for _, r := range m.parsed.Rules {
				x.own[r] = m
				at := name + "." + headName(r)
				x.rules[at] = append(x.rules[at], r)
			}
		}
	}
	return x
}

func headName(r *ast.Rule) string { return strings.Trim(r.Head.Ref()[0].Value.String(), `"`) }

// excess returns what is wrong with a package whose rules unfold too far; "" for nothing.
func (x *expansion) excess(p *pkg) (m *module, at *ast.Location, message string) {
	nodes := 0
	for _, m := range p.mods {
		ast.WalkTerms(m.parsed, func(*ast.Term) bool {
			nodes++
			return false
		})
	}
	limit := freeExpansion + maxExpansion*nodes
	for _, m := range p.mods {
		for _, r := range m.parsed.Rules {
			if n := x.rule(r); n > limit {
				return m, r.Location, fmt.Sprintf("the values of %s unfold to more than %d parts", headName(r), limit)
			}
		}
	}
	return nil, nil, ""
}

// named returns the size of all rules of one name in a package.
func (x *expansion) named(pkg, name string) int {
	at := pkg + "." + name
	if n, known := x.sizes[at]; known {
		return n
	}
	x.sizes[at] = 1 // recursion is refused elsewhere
	n := 0
	for _, r := range x.rules[at] {
		n = capped(n + x.rule(r))
	}
	x.sizes[at] = max(n, 1)
	return x.sizes[at]
}

func capped(n int) int { return min(n, endless) }

// rule returns the largest size of anything in a rule.
func (x *expansion) rule(r *ast.Rule) int {
	s := &scope{x: x, pkg: x.own[r].pkg, vars: map[ast.Var]int{}}
	for _, i := range x.own[r].parsed.Imports {
		if to, ok := i.Path.Value.(ast.Ref); ok && to[0].Equal(ast.InputRootDocument) {
			s.vars[i.Name()] = inputSize(to)
		}
	}
	for at := r; at != nil; at = at.Else {
		s.body(at.Body)
		for _, t := range []*ast.Term{at.Head.Key, at.Head.Value} {
			if t != nil {
				s.term(t)
			}
		}
	}
	return s.largest
}

// scope knows the sizes of variables, and the largest size that it has seen.
type scope struct {
	x       *expansion
	pkg     string
	vars    map[ast.Var]int
	largest int
}

func (s *scope) body(b ast.Body) {
	for _, e := range b {
		switch terms := e.Terms.(type) {
		case *ast.Term:
			s.term(terms)
		case *ast.Every:
			s.term(terms.Domain)
			s.body(terms.Body)
		case []*ast.Term:
			for _, t := range terms[1:] {
				s.term(t)
			}
			if (e.IsAssignment() || e.IsEquality()) && len(terms) == 3 {
				s.bind(terms[1], s.term(terms[2]))
				s.bind(terms[2], s.term(terms[1]))
			}
		}
	}
}

// bind gives the variables of a pattern at most the size of what it is matched with.
func (s *scope) bind(pattern *ast.Term, size int) {
	if _, isRef := pattern.Value.(ast.Ref); isRef {
		return
	}
	ast.WalkVars(pattern, func(v ast.Var) bool {
		if !v.IsWildcard() {
			s.vars[v] = max(size, s.vars[v])
		}
		return false
	})
}

// term returns the size of a term's type.
func (s *scope) term(t *ast.Term) int {
	n := s.size(t)
	s.largest = max(s.largest, n)
	return n
}

func (s *scope) size(t *ast.Term) int {
	n := 1
	add := func(t *ast.Term) { n = capped(n + s.term(t)) }
	switch v := t.Value.(type) {
	case ast.Var:
		if t.Equal(ast.InputRootDocument) {
			return inputSize(ast.Ref{t})
		}
		return max(1, s.vars[v], s.rule(string(v)))
	case ast.Ref:
		for _, step := range v[1:] {
			s.term(step)
		}
		switch {
		case v[0].Equal(ast.DefaultRootDocument):
			return s.x.data(dotted(v))
		case v[0].Equal(ast.InputRootDocument):
			return inputSize(v)
		}
		return s.term(v[0])
	case *ast.Array:
		v.Foreach(add)
	case ast.Object:
		v.Foreach(func(k, value *ast.Term) { add(k); add(value) })
	case ast.Set:
		v.Foreach(add)
	case *ast.ArrayComprehension:
		s.body(v.Body)
		add(v.Term)
	case *ast.SetComprehension:
		s.body(v.Body)
		add(v.Term)
	case *ast.ObjectComprehension:
		s.body(v.Body)
		add(v.Key)
		add(v.Value)
	case ast.Call: // the type of its result is the function's own
		for _, a := range v[1:] {
			s.term(a)
		}
		return s.term(v[0])
	}
	return n
}

func (s *scope) rule(name string) int {
	if len(s.x.rules[s.pkg+"."+name]) == 0 {
		return 1
	}
	return s.x.named(s.pkg, name)
}

// inputSize is the size of the schema at a place of the input, roughly.
func inputSize(r ast.Ref) int {
	switch names := len(constants(r[1:], 4)); names {
	case 0, 1:
		return 1000
	case 2:
		return 500
	case 3:
		return 10
	}
	return 1
}

// data returns the size of what lies at a path below data.
func (x *expansion) data(path string) (n int) {
	for at := range x.rules {
		if at == path || strings.HasPrefix(path, at+".") || strings.HasPrefix(at, path+".") {
			i := strings.LastIndexByte(at, '.')
			n = capped(n + x.named(at[:i], at[i+1:]))
		}
	}
	return max(n, 1)
}
