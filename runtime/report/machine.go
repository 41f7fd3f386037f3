package report

import (
	"encoding/json"
	"encoding/xml"
	"fmt"
	"io"
	"net/url"
	"path/filepath"
	"strings"

	"github.com/chancery-gateway/chancery/snapshot"
)

// junit writes one test case per finding: errors fail, warnings and infos pass with the text as output. Without any
// finding there is one case that passes.
func junit(w io.Writer, ds []snapshot.Diagnostic, _ Options) error {
	type failure struct {
		Message string `xml:"message,attr"`
		Type    string `xml:"type,attr"`
		Text    string `xml:",chardata"`
	}
	type testCase struct {
		Name      string   `xml:"name,attr"`
		ClassName string   `xml:"classname,attr"`
		File      string   `xml:"file,attr,omitempty"`
		Line      int      `xml:"line,attr,omitempty"`
		Failure   *failure `xml:"failure"`
		Out       string   `xml:"system-out,omitempty"`
	}
	type suite struct {
		XMLName  xml.Name   `xml:"testsuite"`
		Name     string     `xml:"name,attr"`
		Tests    int        `xml:"tests,attr"`
		Failures int        `xml:"failures,attr"`
		Cases    []testCase `xml:"testcase"`
	}
	s := suite{Name: "chancery check"}
	for _, d := range ds {
		c := testCase{Name: d.Code.ID + " " + clean(about(d)), ClassName: clean(d.Object.Kind), File: d.Position.File, Line: d.Position.Line}
		if d.Severity == snapshot.Error {
			s.Failures++
			c.Failure = &failure{Message: clean(d.Message), Type: d.Code.ID, Text: Line(d, false)}
		} else {
			c.Out = Line(d, false)
		}
		s.Cases = append(s.Cases, c)
	}
	if len(s.Cases) == 0 {
		s.Cases = []testCase{{Name: "no findings", ClassName: "chancery"}}
	}
	s.Tests = len(s.Cases)
	if _, err := io.WriteString(w, xml.Header); err != nil {
		return err
	}
	e := xml.NewEncoder(w)
	e.Indent("", "  ")
	if err := e.Encode(s); err != nil {
		return err
	}
	_, err := io.WriteString(w, "\n")
	return err
}

// github writes workflow commands (GitHub docs: "Workflow commands for GitHub Actions").
func github(w io.Writer, ds []snapshot.Diagnostic, _ Options) error {
	property := strings.NewReplacer("%", "%25", "\r", "%0D", "\n", "%0A", ":", "%3A", ",", "%2C")
	data := strings.NewReplacer("%", "%25", "\r", "%0D", "\n", "%0A")
	level := map[snapshot.Severity]string{snapshot.Error: "error", snapshot.Warning: "warning", snapshot.Info: "notice"}
	for _, d := range ds {
		var props []string
		if d.Position.File != "" {
			props = append(props, "file="+property.Replace(d.Position.File))
		}
		if d.Position.Line > 0 {
			props = append(props, fmt.Sprintf("line=%d", d.Position.Line))
		}
		props = append(props, "title="+property.Replace(strings.TrimSpace(d.Code.ID+" "+about(d))))
		message := d.Message
		if d.Help != "" {
			message += "\n" + d.Help
		}
		if d.Policy != "" {
			message += "\npolicy " + d.Policy
			if at := d.Rule.String(); at != "" {
				message += ", " + at
			}
		}
		if _, err := fmt.Fprintf(w, "::%s %s::%s\n", level[d.Severity], strings.Join(props, ","), data.Replace(message)); err != nil {
			return err
		}
	}
	return nil
}

// tap writes TAP version 14, one test point per finding; only errors are "not ok".
func tap(w io.Writer, ds []snapshot.Diagnostic, _ Options) error {
	escape := strings.NewReplacer(`\`, `\\`, "#", `\#`)
	var b strings.Builder
	fmt.Fprintf(&b, "TAP version 14\n1..%d\n", max(1, len(ds)))
	if len(ds) == 0 {
		b.WriteString("ok 1 - no findings\n")
	}
	for i, d := range ds {
		ok := "ok"
		if d.Severity == snapshot.Error {
			ok = "not ok"
		}
		fmt.Fprintf(&b, "%s %d - %s\n", ok, i+1, escape.Replace(clean(strings.TrimSpace(d.Code.ID+" "+about(d)))))
		detail, err := json.Marshal(NewDocument(ds[i : i+1]).Diagnostics[0])
		if err != nil {
			return err
		}
		// JSON is YAML, so the finding's JSON form is a valid diagnostic block.
		fmt.Fprintf(&b, "  ---\n  %s\n  ...\n", detail)
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// sarif writes SARIF 2.1.0 (OASIS, "Static Analysis Results Interchange Format").
func sarif(w io.Writer, ds []snapshot.Diagnostic, o Options) error {
	type message struct {
		Text string `json:"text"`
	}
	type rule struct {
		ID    string  `json:"id"`
		Short message `json:"shortDescription"`
		Full  message `json:"fullDescription"`
		Help  message `json:"help"`
	}
	type region struct {
		StartLine int `json:"startLine"`
	}
	type artifact struct {
		URI string `json:"uri"`
	}
	type physical struct {
		Artifact artifact `json:"artifactLocation"`
		Region   *region  `json:"region,omitempty"`
	}
	type logical struct {
		FullyQualifiedName string `json:"fullyQualifiedName"`
		Kind               string `json:"kind"`
	}
	type location struct {
		Physical *physical `json:"physicalLocation,omitempty"`
		Logical  []logical `json:"logicalLocations,omitempty"`
		Message  *message  `json:"message,omitempty"`
	}
	place := func(p snapshot.Position) *physical {
		if p.File == "" {
			return nil
		}
		out := &physical{Artifact: artifact{(&url.URL{Path: filepath.ToSlash(p.File)}).EscapedPath()}}
		if p.Line > 0 {
			out.Region = &region{p.Line}
		}
		return out
	}
	type result struct {
		RuleID    string     `json:"ruleId"`
		Level     string     `json:"level"`
		Message   message    `json:"message"`
		Locations []location `json:"locations,omitempty"`
		// Related is the policy's rule, Properties name the policy.
		Related    []location        `json:"relatedLocations,omitempty"`
		Properties map[string]string `json:"properties,omitempty"`
	}
	level := map[snapshot.Severity]string{snapshot.Error: "error", snapshot.Warning: "warning", snapshot.Info: "note"}
	rules, results := []rule{}, []result{}
	for _, c := range codesOf(ds) {
		rules = append(rules, rule{ID: c.ID, Short: message{c.Title}, Full: message{c.Cause}, Help: message{c.Cure}})
	}
	for _, d := range ds {
		r := result{RuleID: d.Code.ID, Level: level[d.Severity], Message: message{d.Message}}
		if d.Help != "" {
			r.Message.Text += " (" + d.Help + ")"
		}
		l := location{Physical: place(d.Position)}
		if d.Object != (snapshot.Ref{}) {
			l.Logical = []logical{{FullyQualifiedName: strings.TrimSpace(about(d)), Kind: "object"}}
		}
		if l.Physical != nil || l.Logical != nil {
			r.Locations = []location{l}
		}
		if d.Policy != "" {
			r.Properties = map[string]string{"policy": d.Policy}
			if at := place(d.Rule); at != nil {
				r.Related = []location{{Physical: at, Message: &message{"the rule of policy " + d.Policy}}}
			}
		}
		results = append(results, r)
	}
	doc := map[string]any{
		"$schema": "https://json.schemastore.org/sarif-2.1.0.json",
		"version": "2.1.0",
		"runs": []any{map[string]any{
			"tool":    map[string]any{"driver": map[string]any{"name": "chancery", "version": o.Version, "rules": rules}},
			"results": results,
		}},
	}
	e := json.NewEncoder(w)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	return e.Encode(doc)
}
