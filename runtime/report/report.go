// Package report writes diagnostics for people and for other programs.
package report

import (
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/chancery-gateway/chancery/snapshot"
)

// Options say how to write.
type Options struct {
	// Colour uses terminal colours in the text format.
	Colour bool
	// Version of the program, for formats that name the tool.
	Version string
}

// A writer writes all diagnostics in one format.
type writer func(w io.Writer, ds []snapshot.Diagnostic, o Options) error

var formats = map[string]writer{
	"text":   text,
	"json":   writeJSON,
	"junit":  junit,
	"sarif":  sarif,
	"github": github,
	"tap":    tap,
}

// Formats returns the names of the formats, text first.
func Formats() []string { return []string{"text", "json", "junit", "sarif", "github", "tap"} }

// Write writes the diagnostics, in the order given, in the named format.
func Write(w io.Writer, format string, ds []snapshot.Diagnostic, o Options) error {
	f := formats[format]
	if f == nil {
		return fmt.Errorf("format %q is not known; right is one of %s", format, strings.Join(Formats(), ", "))
	}
	return f(w, ds, o)
}

// Object is the address of a diagnostic in JSON.
type Object struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
	Namespace  string `json:"namespace"`
	Name       string `json:"name"`
	Position   string `json:"position"`
}

// Finding is one diagnostic in JSON: an entry of diagnostics.json.
type Finding struct {
	Severity string `json:"severity"`
	Code     string `json:"code"`
	Object   Object `json:"object"`
	Path     string `json:"path"`
	Message  string `json:"message"`
	Help     string `json:"help"`
	// Policy is there for findings of a policy.
	Policy *Policy `json:"policy,omitempty"`
}

// Policy names the policy that made a finding, and the place of its rule.
type Policy struct {
	ID   string `json:"id"`
	Rule string `json:"rule"`
}

// Document is the content of diagnostics.json.
type Document struct {
	Diagnostics []Finding `json:"diagnostics"`
}

// NewDocument converts diagnostics to their JSON form.
func NewDocument(ds []snapshot.Diagnostic) Document {
	doc := Document{Diagnostics: []Finding{}}
	for _, d := range ds {
		f := Finding{
			Severity: d.Severity.String(), Code: d.Code.ID, Path: d.Path, Message: d.Message, Help: d.Help,
			Object: Object{APIVersion: d.APIVersion, Kind: d.Object.Kind, Namespace: d.Object.Namespace, Name: d.Object.Name, Position: d.Position.String()},
		}
		if d.Policy != "" {
			f.Policy = &Policy{ID: d.Policy, Rule: d.Rule.String()}
		}
		doc.Diagnostics = append(doc.Diagnostics, f)
	}
	return doc
}

func writeJSON(w io.Writer, ds []snapshot.Diagnostic, _ Options) error {
	e := json.NewEncoder(w)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	return e.Encode(NewDocument(ds))
}

// Line returns one diagnostic as text without colour: place, severity, message and code, then object and field, then help.
func Line(d snapshot.Diagnostic, colour bool) string {
	var b strings.Builder
	paint := func(code, s string) string {
		if !colour {
			return s
		}
		return "\x1b[" + code + "m" + s + "\x1b[0m"
	}
	tint := map[snapshot.Severity]string{snapshot.Error: "1;31", snapshot.Warning: "1;33", snapshot.Info: "1;36"}[d.Severity]
	if p := d.Position.String(); p != "" {
		b.WriteString(paint("1", clean(p)+": "))
	}
	b.WriteString(paint(tint, d.Severity.String()) + ": " + clean(d.Message) + " [" + d.Code.ID + "]\n")
	if d.Object != (snapshot.Ref{}) || d.Path != "" {
		b.WriteString("    in " + strings.TrimSpace(clean(about(d))) + "\n")
	}
	if d.Policy != "" {
		b.WriteString("    by policy " + clean(d.Policy))
		if p := d.Rule.String(); p != "" {
			b.WriteString(" at " + clean(p))
		}
		b.WriteString("\n")
	}
	if d.Help != "" {
		b.WriteString("    " + paint("32", "help: ") + clean(d.Help) + "\n")
	}
	return b.String()
}

// about names the object and field of a diagnostic.
func about(d snapshot.Diagnostic) string {
	s := ""
	if d.Object != (snapshot.Ref{}) {
		s = d.Object.String()
	}
	if d.Path != "" {
		s += " " + d.Path
	}
	return s
}

// clean keeps input that is quoted in messages from steering the terminal or starting lines of its own.
func clean(s string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case r == '\n' || r == '\t' || r == '\r':
			return ' '
		case r < ' ' || r == 0x7f || r >= 0x80 && r < 0xa0:
			return '�'
		}
		return r
	}, s)
}

func text(w io.Writer, ds []snapshot.Diagnostic, o Options) error {
	for _, d := range ds {
		if _, err := io.WriteString(w, Line(d, o.Colour)); err != nil {
			return err
		}
	}
	return nil
}

// Summary returns "2 errors, 1 warning" or "no findings".
func Summary(ds []snapshot.Diagnostic) string {
	var parts []string
	for _, s := range []snapshot.Severity{snapshot.Error, snapshot.Warning, snapshot.Info} {
		n := 0
		for _, d := range ds {
			if d.Severity == s {
				n++
			}
		}
		if n > 0 {
			parts = append(parts, Count(n, s.String()))
		}
	}
	if len(parts) == 0 {
		return "no findings"
	}
	return strings.Join(parts, ", ")
}

// Count returns the number with the noun in its number: "1 object", "2 objects". The noun's plural is regular, or ends in "ies".
func Count(n int, noun string) string {
	switch stem, y := strings.CutSuffix(noun, "y"); {
	case n == 1:
		return "1 " + noun
	case y:
		return fmt.Sprintf("%d %sies", n, stem)
	}
	return fmt.Sprintf("%d %ss", n, noun)
}

// Transitions returns what appeared and what vanished between two sets of diagnostics, in the order of each.
func Transitions(before, after []snapshot.Diagnostic) (appeared, vanished []snapshot.Diagnostic) {
	key := func(d snapshot.Diagnostic) snapshot.Diagnostic {
		d.Position.Line = 0 // an edit above an object moves it; that is no news
		if d.Object != (snapshot.Ref{}) {
			d.Position.File = "" // nor is it another file that holds the same object
		}
		return d
	}
	missing := func(from, in []snapshot.Diagnostic) []snapshot.Diagnostic {
		have := make(map[snapshot.Diagnostic]int, len(in))
		for _, d := range in {
			have[key(d)]++
		}
		var out []snapshot.Diagnostic
		for _, d := range from {
			if have[key(d)]--; have[key(d)] < 0 {
				out = append(out, d)
			}
		}
		return out
	}
	return missing(after, before), missing(before, after)
}

// codesOf returns the codes that occur, sorted by identifier.
func codesOf(ds []snapshot.Diagnostic) []*snapshot.Code {
	var cs []*snapshot.Code
	for _, d := range ds {
		if !slices.Contains(cs, d.Code) {
			cs = append(cs, d.Code)
		}
	}
	slices.SortFunc(cs, func(a, b *snapshot.Code) int { return strings.Compare(a.ID, b.ID) })
	return cs
}
