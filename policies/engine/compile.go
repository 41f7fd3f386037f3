package engine

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/open-policy-agent/opa/v1/ast"

	"github.com/chancery-gateway/chancery/policies/schema"
	"github.com/chancery-gateway/chancery/snapshot"
)

// unit is what is compiled together: the platform's modules, or one tenant's.
type unit struct {
	tenant   string
	packages map[string]*pkg
	compiler *ast.Compiler
}

// pkg is one package of a unit.
type pkg struct {
	name  string
	mods  []*module
	rules []*Rule
	has   map[string]bool
	twins map[*module]*ast.Module
	meta  *Meta
	// kinds are what the rules are type-checked against.
	kinds  []string
	broken *snapshot.Diagnostic
	digest string
	reads  projection
	// own are the schemas that the package's METADATA names itself.
	own []*ast.SchemaAnnotation
}

// isPolicy reports whether the package holds rules that are asked.
func (p *pkg) isPolicy() bool {
	return strings.HasPrefix(p.name, admissionRoot) || strings.HasPrefix(p.name, mergeRoot) || strings.HasPrefix(p.name, tenantsRoot)
}

// compile compiles the unit. Packages to blame for an error are marked broken and left out, and the rest is tried again.
func (u *unit) compile() []snapshot.Diagnostic {
	var found []snapshot.Diagnostic
	for {
		c, errs := u.try()
		if len(errs) == 0 {
			u.compiler = c
			return found
		}
		blamed := false
		for _, e := range errs {
			d, p := u.blame(e)
			if p == nil {
				continue
			}
			found = append(found, d)
			if p.broken == nil {
				p.broken, blamed = &d, true
			}
		}
		if !blamed {
			// Nobody in particular: leave out every package that does not compile alone.
			for _, name := range slices.Sorted(maps.Keys(u.packages)) {
				if p := u.packages[name]; p.broken == nil && p.isPolicy() {
					alone := &unit{tenant: u.tenant, packages: map[string]*pkg{name: p}}
					if _, errs := alone.try(); len(errs) > 0 {
						d := p.mods[0].about(codeCompile, errs[0].Location, firstLine(errs[0].Message), "")
						p.broken, blamed = &d, true
						found = append(found, d)
					}
				}
			}
		}
		if !blamed {
			for _, name := range slices.Sorted(maps.Keys(u.packages)) {
				if p := u.packages[name]; p.broken == nil {
					d := p.mods[0].about(codeCompile, nil, firstLine(errs[0].Message), "")
					p.broken = &d
					found = append(found, d)
				}
			}
		}
	}
}

// try compiles every package that is not broken.
func (u *unit) try() (*ast.Compiler, ast.Errors) {
	set := ast.NewSchemaSet()
	modules := map[string]*ast.Module{}
	for _, p := range u.packages {
		if p.broken != nil {
			continue
		}
		annotated := false
		for _, m := range p.mods {
			parsed := m.parsed
			if p.twins != nil {
				parsed = p.twins[m]
			}
			if p.isPolicy() && !annotated {
				for _, a := range parsed.Annotations {
					if a.Scope == "package" {
						if p.own == nil {
							p.own = append([]*ast.SchemaAnnotation{}, a.Schemas...)
						}
						a.Schemas = append(slices.Clip(p.own), p.schemas(set)...)
						annotated = true
						break
					}
				}
			}
			modules[m.File] = parsed
		}
		if p.isPolicy() && !annotated {
			// A module of its own carries the annotation, since annotations are bound to their package line by the parser.
			text := "# METADATA\n# scope: package\n# title: schemas\npackage " + p.name + "\n"
			carrier, err := ast.ParseModuleWithOpts(p.name+" (schemas)", text, ast.ParserOptions{ProcessAnnotation: true, RegoVersion: ast.RegoV1})
			if err == nil {
				carrier.Annotations[0].Schemas = p.schemas(set)
				modules[p.name+" (schemas)"] = carrier
			}
		}
	}
	c := ast.NewCompiler().WithCapabilities(Capabilities()).WithSchemas(set).WithUseTypeCheckAnnotations(true).WithDefaultRegoVersion(ast.RegoV1)
	c.SetErrorLimit(0)
	// The compiler cannot be interrupted: one that does not come to an end is left behind.
	done := make(chan ast.Errors, 1)
	go func() {
		defer func() {
			if r := recover(); r != nil { // a fault of the compiler is one of what it compiles
				done <- ast.Errors{ast.NewError(ast.CompileErr, nil, "the compiler failed: %v", r)}
			}
		}()
		c.Compile(modules)
		done <- c.Errors
	}()
	late := time.NewTimer(compileLimit)
	defer late.Stop()
	select {
	case errs := <-done:
		return c, errs
	case <-late.C:
		return nil, ast.Errors{ast.NewError(ast.CompileErr, nil, "compiling takes longer than %s", compileLimit)}
	}
}

// compileLimit is the most time, on the wall clock, for compiling a unit.
const compileLimit = 20 * time.Second

// schemas returns the annotations that bind the package's documents to their schemas.
func (p *pkg) schemas(set *ast.SchemaSet) []*ast.SchemaAnnotation {
	bind := func(path ast.Ref, name string, s schema.Schema) *ast.SchemaAnnotation {
		ref := ast.SchemaRootRef.Append(ast.StringTerm(name))
		if set.Get(ref) == nil {
			set.Put(ref, any(s))
		}
		return &ast.SchemaAnnotation{Path: path, Schema: ref}
	}
	var out []*ast.SchemaAnnotation
	if slices.ContainsFunc(p.mods, func(m *module) bool { return m.mentions("chancery.index") }) { // it costs the checker a walk over all rules
		path := ast.DefaultRootRef.Append(ast.StringTerm("chancery")).Append(ast.StringTerm("index"))
		out = append(out, bind(path, "index", schema.Index()))
	}
	if strings.HasPrefix(p.name, mergeRoot) {
		return append(out, bind(ast.InputRootRef, "merge", schema.MergeInput()))
	}
	name, parameters := "input "+strings.Join(p.kinds, " "), any(nil)
	if p.meta != nil && p.meta.Parameters != nil {
		name, parameters = name+" for "+p.name, p.meta.Parameters
	}
	return append(out, bind(ast.InputRootRef, name, schema.Input(p.kinds, parameters)))
}

// blame finds the package that an error is about.
func (u *unit) blame(e *ast.Error) (snapshot.Diagnostic, *pkg) {
	if e.Location == nil {
		return snapshot.Diagnostic{}, nil
	}
	for _, name := range slices.Sorted(maps.Keys(u.packages)) {
		for _, m := range u.packages[name].mods {
			if m.File == e.Location.File {
				code, message, help := explainError(e)
				if code == codeTypes && len(u.packages[name].kinds) == 0 && strings.HasPrefix(message, "undefined ref: input.object") {
					help += "; rules about other kinds than Emissary's name them in match.kinds"
				}
				return m.about(code, e.Location, message, help), u.packages[name]
			}
		}
	}
	return snapshot.Diagnostic{}, nil
}

// explainError sorts a compiler's error into a code, a message and a help text.
func explainError(e *ast.Error) (*snapshot.Code, string, string) {
	message := firstLine(e.Message)
	bad, _ := e.Details.(*ast.RefErrInvalidDetail)
	switch {
	case bad != nil:
		help := ""
		if len(bad.OneOf) > 0 {
			help = "it has " + nearest(bad)
		}
		return codeTypes, message, help
	case e.Code == ast.TypeErr && strings.Contains(message, "undefined function"):
		name := strings.TrimPrefix(message, "undefined function ")
		if _, exists := ast.BuiltinMap[name]; exists {
			return codeBuiltin, fmt.Sprintf("rules may not call %s", name), "use what the profile " + Profile + " has; a rule knows its input and data.chancery.index only"
		}
		return codeNoFunction, message, "correct the name, or define the function"
	case e.Code == ast.TypeErr && (strings.Contains(message, "undefined ref") || strings.Contains(message, "match error") || strings.Contains(message, "invalid argument")):
		return codeTypes, message, ""
	}
	return codeCompile, message, ""
}

// nearest lists the names that would be right, those that look like the wrong one first.
func nearest(e *ast.RefErrInvalidDetail) string {
	var names []string
	for _, v := range e.OneOf {
		if s, ok := v.(ast.String); ok {
			names = append(names, string(s))
		}
	}
	have := ""
	if e.Pos < len(e.Ref) {
		if s, ok := e.Ref[e.Pos].Value.(ast.String); ok {
			have = string(s)
		}
	}
	slices.Sort(names)
	names = slices.Compact(names)
	slices.SortStableFunc(names, func(a, b string) int { return distance(have, a) - distance(have, b) })
	if len(names) > 5 {
		return strings.Join(names[:5], ", ") + ", ..."
	}
	return strings.Join(names, ", ")
}

// distance is Levenshtein's.
func distance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		last := row[0]
		row[0] = i + 1
		for j := range len(b) {
			cost := 1
			if a[i] == b[j] {
				cost = 0
			}
			last, row[j+1] = row[j+1], min(row[j+1]+1, row[j]+1, last+cost)
		}
	}
	return row[len(b)]
}
