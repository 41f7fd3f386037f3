package engine

import (
	"cmp"
	"crypto/sha256"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/open-policy-agent/opa/v1/ast"

	"github.com/chancery-gateway/chancery/policies/api"
	"github.com/chancery-gateway/chancery/snapshot"
)

// Module is the text of one file of rules.
type Module struct {
	// File is the name that positions use; unique in a set.
	File string
	Text []byte
	// Line is the number of lines before the text in File: rules inside a manifest.
	Line int
	// Tenant owns the module; "" for the platform.
	Tenant string
	// Object is the Policy that carries the text; nil for a file of its own.
	Object *snapshot.Object
}

// IsTest reports whether the module is only for `chancery policy test`.
func (m *Module) IsTest() bool { return strings.HasSuffix(m.File, "_test.rego") }

// The limits of what is loaded. The time to compile a module grows with the square of its size: a tenant's is kept so small
// that nobody has to wait for it.
const (
	maxModule       = 256 << 10
	maxTenantModule = 32 << 10
	maxModules      = 2000
	maxDepth        = 300
)

// roots of packages.
const (
	admissionRoot = "chancery.admission."
	mergeRoot     = "chancery.merge."
	tenantsRoot   = "chancery.tenants."
	libRoot       = "chancery.lib."
)

// module is a Module that was parsed.
type module struct {
	*Module
	parsed *ast.Module
	pkg    string
	digest [32]byte
	// refers are the packages and documents that the module names, as dotted paths without "data".
	refers []string
	// wild is set when it names data as a whole, or by something computed.
	wild *ast.Location
}

// at returns the place of a location in the module's file.
func (m *Module) at(l *ast.Location) snapshot.Position {
	p := snapshot.Position{File: m.File, Line: m.Line}
	if m.Object != nil {
		p.File, _, _ = strings.Cut(m.File, "#")
	}
	if l != nil {
		p.Line += l.Row
	}
	return p
}

// about returns a finding at a place of the module.
func (m *Module) about(c *snapshot.Code, l *ast.Location, message, help string) snapshot.Diagnostic {
	d := snapshot.Diagnostic{Severity: snapshot.Error, Code: c, Position: m.at(l), Message: message, Help: help}
	if m.Object != nil {
		d.Object, d.APIVersion, d.Path = m.Object.Ref, m.Object.APIVersion, "spec.rego"
	}
	return d
}

func parse(m *Module) (*module, []snapshot.Diagnostic) {
	most := maxModule
	if m.Tenant != "" {
		most = maxTenantModule
	}
	if len(m.Text) > most {
		return nil, []snapshot.Diagnostic{m.about(codeTooBig, nil, fmt.Sprintf("the module has %d bytes", len(m.Text)), fmt.Sprintf("at most %d", most))}
	}
	caps := Capabilities()
	if m.IsTest() {
		caps = TestCapabilities()
	}
	parsed, err := ast.ParseModuleWithOpts(m.File, string(m.Text), ast.ParserOptions{ProcessAnnotation: true, RegoVersion: ast.RegoV1, Capabilities: caps})
	if err != nil {
		return nil, parseErrors(m, err)
	}
	if parsed == nil {
		return nil, []snapshot.Diagnostic{m.about(codeSyntax, nil, "the module is empty", "start with a package line")}
	}
	for _, t := range parsed.Package.Path[1:] {
		if s, ok := t.Value.(ast.String); ok && strings.Contains(string(s), ".") { // paths are written with dots
			return nil, []snapshot.Diagnostic{m.about(codePackage, parsed.Package.Location, fmt.Sprintf("the name %q in the package has a dot", string(s)), "names without dots")}
		}
	}
	if at := tooDeep(parsed); at != nil {
		return nil, []snapshot.Diagnostic{m.about(codeTooBig, at, fmt.Sprintf("an expression is nested more than %d deep", maxDepth), "split it")}
	}
	out := &module{Module: m, parsed: parsed, pkg: dotted(parsed.Package.Path), digest: sha256.Sum256(slices.Concat([]byte(m.File+"\x00"), m.Text))}
	out.references()
	return out, nil
}

// tooDeep returns where an expression of the module is nested deeper than the compiler copes with in good time; nil for nowhere.
func tooDeep(m *ast.Module) (at *ast.Location) {
	depth := 0
	step := func(x any, by int) {
		t, ok := x.(*ast.Term)
		if !ok {
			return
		}
		if r, ok := t.Value.(ast.Ref); ok && len(r) > maxDepth && at == nil {
			at = t.Location
		}
		if depth += by; depth > maxDepth && at == nil {
			at = cmp.Or(t.Location, m.Package.Location)
		}
	}
	v := ast.NewBeforeAfterVisitor(func(x any) bool {
		step(x, 1)
		return at != nil
	}, func(x any) { step(x, -1) })
	for _, r := range m.Rules {
		depth = 0
		v.Walk(r)
	}
	return at
}

func parseErrors(m *Module, err error) []snapshot.Diagnostic {
	var list ast.Errors
	if !errors.As(err, &list) {
		return []snapshot.Diagnostic{m.about(codeSyntax, nil, err.Error(), "")}
	}
	var out []snapshot.Diagnostic
	for i, e := range list {
		if i == 10 {
			break
		}
		out = append(out, m.about(codeSyntax, e.Location, strings.TrimPrefix(firstLine(e.Message), "rego_parse_error: "), ""))
	}
	return out
}

func firstLine(s string) string {
	s, _, _ = strings.Cut(s, "\n")
	return s
}

// dotted returns a reference below data as a dotted path, as far as it is constant.
func dotted(r ast.Ref) string {
	var parts []string
	for _, t := range r[1:] {
		s, ok := t.Value.(ast.String)
		if !ok {
			break
		}
		parts = append(parts, string(s))
	}
	return strings.Join(parts, ".")
}

// references notes what the module names outside itself.
func (m *module) references() {
	note := func(r ast.Ref) bool {
		if len(r) == 0 || !r[0].Equal(ast.DefaultRootDocument) {
			return false
		}
		if to := dotted(r); to != "" {
			m.refers = append(m.refers, to)
		} else if m.wild == nil {
			m.wild = cmp.Or(r[0].Location, m.parsed.Package.Location)
		}
		return false
	}
	for _, i := range m.parsed.Imports {
		if r, ok := i.Path.Value.(ast.Ref); ok {
			note(r)
		}
	}
	m.walk(func(r ast.Ref) { note(r) }, func(v ast.Var, at *ast.Location) {
		if v == ast.DefaultRootDocument.Value.(ast.Var) && m.wild == nil {
			m.wild = cmp.Or(at, m.parsed.Package.Location)
		}
	})
	slices.Sort(m.refers)
	m.refers = slices.Compact(m.refers)
}

// walk visits every reference and every variable that stands alone in the rules, what is nested in brackets included.
func (m *module) walk(ref func(ast.Ref), alone func(ast.Var, *ast.Location)) {
	var v *ast.GenericVisitor
	v = ast.NewGenericVisitor(func(x any) bool {
		t, ok := x.(*ast.Term)
		if !ok {
			return false
		}
		switch value := t.Value.(type) {
		case ast.Var:
			alone(value, t.Location)
		case ast.Ref:
			ref(value)
			walkSteps(v, value)
			return true
		}
		return false
	})
	for _, r := range m.parsed.Rules {
		v.Walk(r)
	}
}

// mentions reports whether the module names something at or below the path.
func (m *module) mentions(path string) bool {
	return slices.ContainsFunc(m.refers, func(to string) bool { return to == path || strings.HasPrefix(to, path+".") })
}

// belongs says what is wrong with the module's package for its owner; "" when nothing is.
func (m *module) belongs() (message, help string) {
	under := func(root string, parts int) bool {
		rest, ok := strings.CutPrefix(m.pkg, root)
		return ok && rest != "" && (parts == 0 || strings.Count(rest, ".") < parts)
	}
	switch {
	case m.Tenant != "":
		own := tenantsRoot + m.Tenant
		if m.pkg != own && !strings.HasPrefix(m.pkg, own+".") {
			return fmt.Sprintf("package %s does not belong to tenant %s", m.pkg, m.Tenant), "use package " + own + " or one below"
		}
	case under(admissionRoot, 1), under(mergeRoot, 1), under(libRoot, 0):
	case strings.HasPrefix(m.pkg+".", tenantsRoot):
		return fmt.Sprintf("package %s belongs to a tenant, but the module comes from the platform", m.pkg), "let the tenant's Policy object carry it"
	case strings.HasPrefix(m.pkg+".", "chancery.") || strings.HasPrefix(m.pkg+".", "system."):
		return fmt.Sprintf("package %s is not one that rules may be in", m.pkg), "use chancery.admission.<name>, chancery.merge.<name> or chancery.lib.<name>"
	case m.Object != nil:
		return fmt.Sprintf("package %s holds no policy", m.pkg), "use chancery.admission.<name> or chancery.merge.<name>"
	}
	return "", ""
}

// escapes returns the findings of a tenant's module that refers to what is not its own.
func (m *module) escapes() []snapshot.Diagnostic {
	var out []snapshot.Diagnostic
	if m.wild != nil {
		out = append(out, m.about(codeForeign, m.wild, "data is named as a whole or by a computed name", "name what is needed: data.chancery.index.<table>"))
	}
	own := tenantsRoot + m.Tenant
	for _, to := range m.refers {
		inside := func(root string) bool { return to == root || strings.HasPrefix(to, root+".") }
		if !inside(own) && !inside("chancery.index") && !inside("chancery.lib") {
			out = append(out, m.about(codeForeign, m.find(to), fmt.Sprintf("data.%s is none of tenant %s's business", to, m.Tenant), "refer to data."+own+" or data.chancery.index only"))
		}
	}
	return out
}

// find returns the first place that names the path.
func (m *module) find(path string) (at *ast.Location) {
	ast.WalkRefs(m.parsed, func(r ast.Ref) bool {
		if at == nil && len(r) > 0 && r[0].Equal(ast.DefaultRootDocument) && dotted(r) == path {
			at = r[0].Location
		}
		return at != nil
	})
	if at == nil {
		for _, i := range m.parsed.Imports {
			if r, ok := i.Path.Value.(ast.Ref); ok && dotted(r) == path {
				return i.Location
			}
		}
	}
	return at
}

// annotation returns the METADATA block of the package; nil for none.
func (m *module) annotation() *ast.Annotations {
	for _, a := range m.parsed.Annotations {
		if a.Scope == "package" || a.Scope == "subpackages" {
			return a
		}
	}
	return nil
}

var enforcements = []api.Enforcement{api.EnforceDeny, api.EnforceWarn, api.EnforceDryRun, api.EnforceAudit}

// Syntax returns what is wrong with the text of a module; nil when it can be parsed.
func Syntax(m *Module) []snapshot.Diagnostic {
	_, found := parse(m)
	return found
}

// namesParameters reports whether the module asks for each parameter by its name and never for input or the parameters as a whole.
func (m *module) namesParameters() bool {
	named := true
	input := ast.InputRootDocument.Value.(ast.Var)
	m.walk(func(r ast.Ref) {
		if !r[0].Equal(ast.InputRootDocument) {
			return
		}
		field, constant := ast.String(""), false
		if len(r) > 1 {
			field, constant = r[1].Value.(ast.String)
		}
		if !constant {
			named = false
		} else if field == "parameters" {
			if len(r) < 3 {
				named = false
			} else if _, constant = r[2].Value.(ast.String); !constant {
				named = false
			}
		}
	}, func(v ast.Var, _ *ast.Location) { named = named && v != input })
	return named
}

// walkSteps walks what stands inside a reference: its steps, and its head where that is no plain variable.
func walkSteps(v *ast.GenericVisitor, ref ast.Ref) {
	if _, plain := ref[0].Value.(ast.Var); !plain {
		v.Walk(ref[0])
	}
	for _, step := range ref[1:] {
		v.Walk(step)
	}
}
