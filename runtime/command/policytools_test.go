package command

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"encoding/xml"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"

	"github.com/chancery-gateway/chancery/runtime/report"
)

// TestPolicyFormats reads what the formats write as the programs do for which they are meant: each has as many findings, and
// as many errors, as the JSON form.
func TestPolicyFormats(t *testing.T) {
	quiet(t)
	manifests, guardrails := copyTeams(t, 8080, 9000)
	check := func(format string) string {
		code, out, errs := call(t, "", "check", "--envoy", "none", "--policies", guardrails, "--format", format, manifests)
		if code != exitErrors {
			t.Fatalf("%s: exit code %d\n%s", format, code, errs)
		}
		return out
	}
	var doc report.Document
	if err := json.Unmarshal([]byte(check("json")), &doc); err != nil {
		t.Fatal(err)
	}
	all, errors := len(doc.Diagnostics), 0
	for _, d := range doc.Diagnostics {
		if d.Severity == "error" {
			errors++
		}
	}
	if all < 30 || errors != 7 {
		t.Fatalf("%d findings, %d errors", all, errors)
	}

	type testCase struct {
		Name    string  `xml:"name,attr"`
		Class   string  `xml:"classname,attr"`
		Seconds float64 `xml:"time,attr"`
		Failure *struct {
			Message string `xml:"message,attr"`
			Text    string `xml:",chardata"`
		} `xml:"failure"`
	}
	type suite struct {
		XMLName  xml.Name   `xml:"testsuite"`
		Tests    int        `xml:"tests,attr"`
		Failures int        `xml:"failures,attr"`
		Cases    []testCase `xml:"testcase"`
	}
	junit := func(text string, tests, failures int) {
		t.Helper()
		var s suite
		if err := xml.Unmarshal([]byte(text), &s); err != nil {
			t.Fatal(err)
		}
		failed := 0
		for _, c := range s.Cases {
			if c.Name == "" || c.Class == "" {
				t.Errorf("a case without a name: %+v", c)
			}
			if c.Failure != nil {
				failed++
				if c.Failure.Message == "" {
					t.Errorf("a failure that says nothing: %s", c.Name)
				}
			}
		}
		if s.Tests != tests || len(s.Cases) != tests || s.Failures != failures || failed != failures {
			t.Errorf("JUnit: %d tests and %d failures, %d cases and %d failures in them; want %d and %d", s.Tests, s.Failures, len(s.Cases), failed, tests, failures)
		}
	}
	junit(check("junit"), all, errors)

	var log struct {
		Schema  string `json:"$schema"`
		Version string
		Runs    []struct {
			Tool struct {
				Driver struct {
					Name  string
					Rules []struct{ ID string }
				}
			}
			Results []struct {
				RuleID, Level string
				Message       struct{ Text string }
				Locations     []struct {
					PhysicalLocation struct {
						ArtifactLocation struct{ URI string }
						Region           struct{ StartLine int }
					}
				}
				RelatedLocations []struct {
					PhysicalLocation struct {
						ArtifactLocation struct{ URI string }
						Region           struct{ StartLine int }
					}
				}
				Properties map[string]string
			}
		}
	}
	if err := json.Unmarshal([]byte(check("sarif")), &log); err != nil || log.Version != "2.1.0" || !strings.Contains(log.Schema, "sarif-2.1.0") || len(log.Runs) != 1 || log.Runs[0].Tool.Driver.Name == "" {
		t.Fatalf("SARIF: %v %+v", err, log)
	}
	sarif, bad := log.Runs[0], 0
	for _, r := range sarif.Results {
		if !slices.ContainsFunc(sarif.Tool.Driver.Rules, func(known struct{ ID string }) bool { return known.ID == r.RuleID }) {
			t.Errorf("rule %s is not described", r.RuleID)
		}
		if !slices.Contains([]string{"error", "warning", "note"}, r.Level) || r.Message.Text == "" || len(r.Locations) != 1 {
			t.Errorf("result %+v", r)
		}
		if r.Level == "error" {
			bad++
		}
		at := r.Locations[0].PhysicalLocation
		if _, err := url.Parse(at.ArtifactLocation.URI); err != nil || at.Region.StartLine < 1 {
			t.Errorf("place %+v", at)
		}
		if r.Properties["policy"] == "" || len(r.RelatedLocations) != 1 || r.RelatedLocations[0].PhysicalLocation.Region.StartLine < 1 {
			t.Errorf("the policy and its rule: %+v", r)
		}
	}
	if len(sarif.Results) != all || bad != errors {
		t.Errorf("SARIF: %d results, %d errors", len(sarif.Results), bad)
	}

	points, not := tapPoints(t, check("tap"))
	if points != all || not != errors {
		t.Errorf("TAP: %d points, %d not ok", points, not)
	}
	lines := strings.Split(strings.TrimSpace(check("github")), "\n")
	command := regexp.MustCompile(`^::(error|warning|notice) file=[^:]+,line=\d+,title=CH-[A-Z]+-\d+ [^:]+::.+%0Apolicy [^:]+, .+$`)
	for _, l := range lines {
		if !command.MatchString(l) {
			t.Errorf("no workflow command: %s", l)
		}
	}
	if len(lines) != all {
		t.Errorf("GitHub: %d lines", len(lines))
	}
	if out := check("text"); strings.Count(out, ": error: ") != errors || strings.Count(out, "    by policy ") != all {
		t.Errorf("text: %d errors, %d policies", strings.Count(out, ": error: "), strings.Count(out, "    by policy "))
	}

	// The tests of rules have formats, too. One of them fails here.
	if err := os.WriteFile(filepath.Join(guardrails, "bad_test.rego"), []byte("package chancery.admission.bad_test\n\ntest_wrong if 1 == 2\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	tests := func(format string) string {
		code, out, errs := call(t, "", "policy", "test", "--format", format, guardrails)
		if code != exitErrors {
			t.Fatalf("policy test as %s: exit code %d\n%s", format, code, errs)
		}
		return out
	}
	junit(tests("junit"), 4, 1)
	if points, not := tapPoints(t, tests("tap")); points != 4 || not != 1 {
		t.Errorf("TAP of tests: %d points, %d not ok", points, not)
	}
	if out := tests("github"); !regexp.MustCompile(`^::error file=.*bad_test\.rego,line=3,title=[^:]+::`).MatchString(out) {
		t.Errorf("GitHub of tests: %q", out)
	}
	if out := tests("text"); !strings.Contains(out, "bad_test.rego:3: fail chancery.admission.bad_test.test_wrong") || !strings.Contains(out, "3 of 4 tests passed") {
		t.Errorf("text of tests: %q", out)
	}
}

// tapPoints reads TAP: the plan must be kept, numbers must rise, and blocks of details must be YAML.
func tapPoints(t *testing.T, text string) (points, not int) {
	t.Helper()
	lines := strings.Split(text, "\n")
	if lines[0] != "TAP version 14" {
		t.Fatalf("TAP: %q", lines[0])
	}
	var block []string
	inside := false
	for _, l := range lines[2:] {
		switch {
		case l == "  ---":
			block, inside = nil, true
		case l == "  ...":
			var v map[string]any
			if err := yaml.Unmarshal([]byte(strings.Join(block, "\n")), &v); err != nil || len(v) == 0 {
				t.Errorf("details: %v in %q", err, block)
			}
			inside = false
		case inside:
			block = append(block, l)
		case l != "":
			points++
			rest, bad := strings.CutPrefix(l, "not ")
			if bad {
				not++
			}
			if !strings.HasPrefix(rest, "ok "+itoa(points)+" - ") {
				t.Errorf("point %d: %q", points, l)
			}
		}
	}
	if lines[1] != "1.."+itoa(points) {
		t.Errorf("plan %q for %d points", lines[1], points)
	}
	return points, not
}

func itoa(n int) string { b, _ := json.Marshal(n); return string(b) }

// keyFiles makes a pair of keys.
func keyFiles(t *testing.T) (private, public string) {
	t.Helper()
	k, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	secret, err := x509.MarshalPKCS8PrivateKey(k)
	if err != nil {
		t.Fatal(err)
	}
	known, err := x509.MarshalPKIXPublicKey(&k.PublicKey)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	private, public = filepath.Join(dir, "private.pem"), filepath.Join(dir, "public.pem")
	for name, block := range map[string]*pem.Block{private: {Type: "PRIVATE KEY", Bytes: secret}, public: {Type: "PUBLIC KEY", Bytes: known}} {
		if err := os.WriteFile(name, pem.EncodeToMemory(block), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return private, public
}

// TestPolicyTools: what each command answers, and with which exit code.
func TestPolicyTools(t *testing.T) {
	quiet(t)
	manifests, guardrails := copyTeams(t, 8080, 9000)
	private, public := keyFiles(t)
	_, other := keyFiles(t)
	signed, next, dir := filepath.Join(t.TempDir(), "signed"), filepath.Join(t.TempDir(), "next"), t.TempDir()
	for _, to := range []string{signed, next} {
		if err := os.CopyFS(to, os.DirFS(guardrails)); err != nil {
			t.Fatal(err)
		}
	}
	strict := "# METADATA\n# title: Names\n# description: Says which names are right.\n# custom:\n#   match: {kinds: [Mapping]}\npackage chancery.admission.names\n\ndeny contains \"no names with 3\" if contains(input.object.metadata.name, \"3\")\n"
	write := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	if err := os.WriteFile(filepath.Join(next, "names.rego"), []byte(strict), 0o600); err != nil {
		t.Fatal(err)
	}
	bundle, base := filepath.Join(dir, "bundle.tar.gz"), filepath.Join(dir, "base.json")
	fast, odd, empty := write("fast.json", `{"coldNanos": 1}`), write("odd.json", `{}`), t.TempDir()
	for _, c := range []struct {
		args []string
		code int
		want string // in what is printed
	}{
		{[]string{"policy"}, exitFine, "rollback"},
		{[]string{"policy", "tset"}, exitUsage, `did you mean "test"`},
		{[]string{"policy", "crds"}, exitFine, "name: policyexceptions.chancery.dev"},
		{[]string{"policy", "crds", "more"}, exitUsage, ""},
		{[]string{"policy", "docs"}, exitFine, "no_wildcard_hosts"},
		{[]string{"policy", "docs", next}, exitFine, "Says which names are right."},
		{[]string{"policy", "docs", "/no/such"}, exitUsage, "no such file"},
		{[]string{"policy", "schema"}, exitFine, `"index"`},
		{[]string{"policy", "schema", "index"}, exitFine, `"ranks"`},
		{[]string{"policy", "schema", "merge"}, exitFine, "RateLimitService"},
		{[]string{"policy", "schema", "input", "--kind", "HTTPRoute.gateway.networking.k8s.io"}, exitFine, `"parameters"`},
		{[]string{"policy", "schema", "inputs"}, exitUsage, "right is one of index, input, merge"},
		{[]string{"policy", "sign", signed}, exitUsage, "--key"},
		{[]string{"policy", "sign", "--key", private}, exitUsage, "PATH"},
		{[]string{"policy", "sign", signed, "--key", "/no/such"}, exitUsage, "--key"},
		{[]string{"policy", "sign", signed, "--key", odd}, exitUsage, "PEM"},
		{[]string{"policy", "sign", empty, "--key", private}, exitUsage, "no rules"},
		{[]string{"policy", "sign", signed, "--key", private}, exitFine, ".signatures.json written"},
		{[]string{"tar", "-C", signed, "-czf", bundle, "."}, 0, ""},
		{[]string{"policy", "check", bundle, "--policy-key", public}, exitFine, "policies, 0 objects judged"},
		{[]string{"policy", "check", signed, "--policy-key", public}, exitFine, ""},
		{[]string{"policy", "check", bundle, "--policy-key", other}, exitUsage, "CH-POLICY-081"},
		{[]string{"policy", "check", bundle, "--policy-key", public, "--policy-key-id", "another"}, exitUsage, "CH-POLICY-081"},
		{[]string{"policy", "check", guardrails, "--policy-key", public}, exitUsage, "CH-POLICY-081"},
		{[]string{"check", "--envoy", "none", "--policies", bundle, "--policy-key", public, manifests}, exitErrors, "bypass_auth is not allowed"},
		{[]string{"policy", "bench", guardrails}, exitUsage, "--from"},
		{[]string{"policy", "bench", guardrails, "--from", manifests, "--rounds", "0"}, exitUsage, "round"},
		{[]string{"policy", "bench", guardrails, "--from", manifests, "--format", "xml"}, exitUsage, "xml"},
		{[]string{"policy", "bench", guardrails, "--from", manifests, "--rounds", "1", "--save", base}, exitFine, "remembered"},
		{[]string{"policy", "bench", guardrails, "--from", manifests, "--rounds", "1", "--compare", base, "--threshold", "100000"}, exitFine, "against"},
		{[]string{"policy", "bench", guardrails, "--from", manifests, "--rounds", "1", "--compare", fast}, exitErrors, "slower by"},
		{[]string{"policy", "bench", guardrails, "--from", manifests, "--rounds", "1", "--compare", odd}, exitUsage, "no figures"},
		{[]string{"policy", "bench", guardrails, "--from", manifests, "--rounds", "1", "--format", "json"}, exitFine, `"coldNanos"`},
		{[]string{"policy", "diff", guardrails, next}, exitUsage, "--from"},
		{[]string{"policy", "diff", guardrails, "--from", manifests}, exitUsage, "old and the new"},
		{[]string{"policy", "diff", guardrails, next, "--from", manifests, "--format", "xml"}, exitUsage, "xml"},
		{[]string{"policy", "diff", guardrails, next, "--from", manifests}, exitErrors, "denied anew: 1 object of tenant bank"},
		{[]string{"policy", "diff", guardrails, next, "--from", manifests}, exitErrors, "Mapping/bank/bank-3 (tenant bank): changed -> denied"},
		{[]string{"policy", "diff", next, guardrails, "--from", manifests}, exitFine, "denied -> changed"},
		{[]string{"policy", "diff", guardrails, next, "--from", manifests, "--format", "json"}, exitErrors, `"deniedAnewByTenant"`},
		{[]string{"policy", "explain", guardrails, "--from", manifests}, exitUsage, "--object"},
		{[]string{"policy", "explain", guardrails, "--from", manifests, "--object", "Mapping/bank/none"}, exitUsage, "no object"},
		{[]string{"policy", "explain", guardrails, "--from", manifests, "--object", "Mapping/bank/bank-4"}, exitFine, "error library/no_bypass_auth.rego:21: bypass_auth is not allowed on /bank-4/"},
		{[]string{"policy", "explain", guardrails, "--from", manifests, "--object", "Mapping/bank/bank-4", "--format", "json"}, exitFine, `"verdict": "denied"`},
	} {
		if c.args[0] == "tar" {
			if out, err := exec.Command("tar", c.args[1:]...).CombinedOutput(); err != nil {
				t.Fatalf("%v: %v\n%s", c.args, err, out)
			}
			continue
		}
		code, out, errs := call(t, "", c.args...)
		if code != c.code || !strings.Contains(out+errs, c.want) {
			t.Errorf("%v: exit code %d, want %d and %q\n%s%s", c.args, code, c.code, c.want, out, errs)
		}
		if c.code == exitUsage && out != "" {
			t.Errorf("%v: wrong usage prints an answer: %s", c.args, out)
		}
	}
}
