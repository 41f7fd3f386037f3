package snapshot

import (
	"cmp"
	"slices"
	"strings"
)

// Severity says what became of the object: an Error means that it, or the named part of it, has no effect.
type Severity uint8

// The severities, gravest first.
const (
	Error Severity = iota + 1
	Warning
	Info
)

// String returns "error", "warning" or "info".
func (s Severity) String() string {
	switch s {
	case Error:
		return "error"
	case Warning:
		return "warning"
	default:
		return "info"
	}
}

// MarshalText writes the severity as its name.
func (s Severity) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// Code is a stable identifier of one kind of finding, for example "CH-ROUTE-012". Each package declares its own with
// NewCode, so that the generated page of codes is complete by construction.
type Code struct {
	// ID is the stable text.
	ID string
	// Title says in one line what is wrong; Cause says how one gets there; Cure says what to do.
	Title, Cause, Cure string
}

var codes = map[string]*Code{}

// NewCode registers a code. It is called from package variables only and panics when the identifier is taken.
func NewCode(id, title, cause, cure string) *Code {
	if _, taken := codes[id]; taken {
		panic("snapshot: diagnostic code " + id + " declared twice")
	}
	c := &Code{ID: id, Title: title, Cause: cause, Cure: cure}
	codes[id] = c
	return c
}

// Codes returns every registered code, sorted by identifier.
func Codes() []*Code {
	all := make([]*Code, 0, len(codes))
	for _, c := range codes {
		all = append(all, c)
	}
	slices.SortFunc(all, func(a, b *Code) int { return strings.Compare(a.ID, b.ID) })
	return all
}

// Diagnostic is one finding about one object. It is an error with an address: code, object and field path.
type Diagnostic struct {
	Severity Severity
	Code     *Code
	// Object is the object that has to change; the zero Ref for findings about a whole file or setting.
	Object Ref
	// APIVersion is the object's apiVersion as written.
	APIVersion string
	// Position is the place in the input; resolved to the field's own line by the source where it can.
	Position Position
	// Path is the field, as in "spec.prefix" or "spec.cors.origins[1]"; "" for the whole object.
	Path string
	// Message says what is wrong with this very value. Help says what would be right; may be "".
	Message string
	Help    string
	// Policy is the id of the policy that found it, Rule the place of the rule; zero for findings of Chancery itself.
	Policy string
	Rule   Position
}

// About returns a diagnostic that addresses the object.
func (o *Object) About(s Severity, c *Code, path, message, help string) Diagnostic {
	p := o.Source.Position
	if o.Parent != nil && p == (Position{}) {
		p = o.Parent.Source.Position
	}
	return Diagnostic{Severity: s, Code: c, Object: o.Ref, APIVersion: o.APIVersion, Position: p, Path: path, Message: message, Help: help}
}

// String returns "file:line: error CH-X-001 Kind/ns/name spec.field: message (help)".
func (d Diagnostic) String() string {
	var b strings.Builder
	if p := d.Position.String(); p != "" {
		b.WriteString(p + ": ")
	}
	b.WriteString(d.Severity.String() + " " + d.Code.ID)
	if d.Object != (Ref{}) {
		b.WriteString(" " + d.Object.String())
	}
	if d.Path != "" {
		b.WriteString(" " + d.Path)
	}
	b.WriteString(": " + d.Message)
	if d.Help != "" {
		b.WriteString(" (" + d.Help + ")")
	}
	return b.String()
}

// Compare orders by file, line, object, path, code, severity and message.
func (d Diagnostic) Compare(o Diagnostic) int {
	return cmp.Or(
		strings.Compare(d.Position.File, o.Position.File),
		cmp.Compare(d.Position.Line, o.Position.Line),
		d.Object.Compare(o.Object),
		strings.Compare(d.Path, o.Path),
		strings.Compare(d.Code.ID, o.Code.ID),
		cmp.Compare(d.Severity, o.Severity),
		strings.Compare(d.Message, o.Message),
		strings.Compare(d.Policy, o.Policy),
		strings.Compare(d.Rule.File, o.Rule.File),
		cmp.Compare(d.Rule.Line, o.Rule.Line),
		strings.Compare(d.Help, o.Help),
		strings.Compare(d.APIVersion, o.APIVersion),
	)
}

// SortDiagnostics orders in place by Compare and drops exact duplicates, so that the same findings read the same whatever
// order they were found in. It returns the shortened slice.
func SortDiagnostics(ds []Diagnostic) []Diagnostic {
	slices.SortFunc(ds, Diagnostic.Compare)
	return slices.Compact(ds)
}
