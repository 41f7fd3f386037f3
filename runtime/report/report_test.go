package report

import (
	"bytes"
	"encoding/json"
	"encoding/xml"
	"strings"
	"testing"

	"github.com/chancery-gateway/chancery/snapshot"
)

var (
	codeBad  = snapshot.NewCode("CH-REPORT-001", "bad", "cause", "cure")
	codeMeh  = snapshot.NewCode("CH-REPORT-002", "meh", "cause", "cure")
	shop     = snapshot.Ref{Group: "getambassador.io", Kind: "Mapping", Namespace: "default", Name: "shop"}
	findings = []snapshot.Diagnostic{
		{Severity: snapshot.Error, Code: codeBad, Object: shop, APIVersion: "getambassador.io/v3alpha1",
			Position: snapshot.Position{File: "a,b.yaml", Line: 9}, Path: "spec.prefix", Message: "no such thing:\n100 % \x1b[2J", Help: "write # it"},
		{Severity: snapshot.Warning, Code: codeMeh, Message: "file is odd", Position: snapshot.Position{File: "c.yaml"}},
		{Severity: snapshot.Info, Code: codeMeh, Message: "just so"},
	}
)

func write(t *testing.T, format string, ds []snapshot.Diagnostic, o Options) string {
	t.Helper()
	var b bytes.Buffer
	if err := Write(&b, format, ds, o); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

func TestText(t *testing.T) {
	want := `a,b.yaml:9: error: no such thing: 100 % �[2J [CH-REPORT-001]
    in Mapping/default/shop spec.prefix
    help: write # it
c.yaml: warning: file is odd [CH-REPORT-002]
info: just so [CH-REPORT-002]
`
	if got := write(t, "text", findings, Options{}); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	if got := write(t, "text", findings, Options{Colour: true}); !strings.Contains(got, "\x1b[1;31merror\x1b[0m") || strings.Contains(got, "\x1b[2J") {
		t.Errorf("colours: %q", got)
	}
}

func TestJSON(t *testing.T) {
	var doc Document
	if err := json.Unmarshal([]byte(write(t, "json", findings, Options{})), &doc); err != nil {
		t.Fatal(err)
	}
	if len(doc.Diagnostics) != 3 || doc.Diagnostics[0].Object.Position != "a,b.yaml:9" || doc.Diagnostics[0].Severity != "error" || doc.Diagnostics[0].Path != "spec.prefix" {
		t.Errorf("document %+v", doc)
	}
	if got := write(t, "json", nil, Options{}); got != "{\n  \"diagnostics\": []\n}\n" {
		t.Errorf("empty document %q", got)
	}
}

func TestJUnit(t *testing.T) {
	var s struct {
		Tests    int `xml:"tests,attr"`
		Failures int `xml:"failures,attr"`
		Cases    []struct {
			Name    string `xml:"name,attr"`
			Line    int    `xml:"line,attr"`
			Failure *struct {
				Type string `xml:"type,attr"`
			} `xml:"failure"`
		} `xml:"testcase"`
	}
	if err := xml.Unmarshal([]byte(write(t, "junit", findings, Options{})), &s); err != nil {
		t.Fatal(err)
	}
	if s.Tests != 3 || s.Failures != 1 || len(s.Cases) != 3 || s.Cases[0].Failure == nil || s.Cases[0].Failure.Type != "CH-REPORT-001" || s.Cases[0].Line != 9 || s.Cases[1].Failure != nil {
		t.Errorf("suite %+v", s)
	}
	if got := write(t, "junit", nil, Options{}); !strings.Contains(got, `tests="1" failures="0"`) {
		t.Errorf("nothing found: %s", got)
	}
}

func TestSARIF(t *testing.T) {
	var doc struct {
		Version string
		Runs    []struct {
			Tool struct {
				Driver struct {
					Name, Version string
					Rules         []struct{ ID string }
				}
			}
			Results []struct {
				RuleID, Level string
				Locations     []struct {
					PhysicalLocation struct {
						ArtifactLocation struct{ URI string }
						Region           struct{ StartLine int }
					}
				}
			}
		}
	}
	if err := json.Unmarshal([]byte(write(t, "sarif", findings, Options{Version: "9"})), &doc); err != nil {
		t.Fatal(err)
	}
	run := doc.Runs[0]
	if doc.Version != "2.1.0" || run.Tool.Driver.Version != "9" || len(run.Tool.Driver.Rules) != 2 || len(run.Results) != 3 {
		t.Fatalf("document %+v", doc)
	}
	if r := run.Results[0]; r.RuleID != "CH-REPORT-001" || r.Level != "error" || r.Locations[0].PhysicalLocation.ArtifactLocation.URI != "a,b.yaml" || r.Locations[0].PhysicalLocation.Region.StartLine != 9 {
		t.Errorf("first result %+v", r)
	}
	if run.Results[2].Level != "note" || len(run.Results[2].Locations) != 0 {
		t.Errorf("last result %+v", run.Results[2])
	}
}

func TestGitHub(t *testing.T) {
	want := "::error file=a%2Cb.yaml,line=9,title=CH-REPORT-001 Mapping/default/shop spec.prefix::no such thing:%0A100 %25 \x1b[2J%0Awrite # it\n" +
		"::warning file=c.yaml,title=CH-REPORT-002::file is odd\n::notice title=CH-REPORT-002::just so\n"
	if got := write(t, "github", findings, Options{}); got != want {
		t.Errorf("got %q\nwant %q", got, want)
	}
}

func TestTAP(t *testing.T) {
	lines := strings.Split(write(t, "tap", findings, Options{}), "\n")
	if lines[0] != "TAP version 14" || lines[1] != "1..3" || lines[2] != "not ok 1 - CH-REPORT-001 Mapping/default/shop spec.prefix" || lines[6] != "ok 2 - CH-REPORT-002" {
		t.Errorf("got %q", lines)
	}
	if got := write(t, "tap", nil, Options{}); got != "TAP version 14\n1..1\nok 1 - no findings\n" {
		t.Errorf("nothing found: %q", got)
	}
}

func TestUnknownFormat(t *testing.T) {
	err := Write(&bytes.Buffer{}, "xml", nil, Options{})
	if err == nil || !strings.Contains(err.Error(), "text, json, junit, sarif, github, tap") {
		t.Errorf("error %v", err)
	}
}

func TestSummary(t *testing.T) {
	for want, ds := range map[string][]snapshot.Diagnostic{
		"no findings":                nil,
		"1 error, 1 warning, 1 info": findings,
		"2 errors":                   {findings[0], findings[0]},
		"2 infos":                    {findings[2], findings[2]},
	} {
		if got := Summary(ds); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}

func TestTransitions(t *testing.T) {
	moved := findings[0]
	moved.Position.Line = 40
	appeared, vanished := Transitions(findings[:2], []snapshot.Diagnostic{moved, findings[2]})
	if len(appeared) != 1 || appeared[0] != findings[2] || len(vanished) != 1 || vanished[0] != findings[1] {
		t.Errorf("appeared %v, vanished %v", appeared, vanished)
	}
}
