package command

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/chancery-gateway/chancery/runtime/report"
	"github.com/chancery-gateway/chancery/snapshot/porttest"
)

const teams = "../../policies/testdata/teams"

// teamsVerdicts is the documented table: object, field, verdict, policy and the place of its rule; of the library's the file alone,
// for its lines are not this test's.
const teamsVerdicts = `bank-2 spec.timeout_ms info CH-POLICY-043 timeouts library/timeouts_bounded.rego:
bank-4 spec.bypass_auth error CH-POLICY-040 bypass library/no_bypass_auth.rego:
bank-9 metadata error CH-POLICY-040 limits library/tenant_limits.rego:
news-1 spec.add_request_headers.Host error CH-POLICY-040 headers library/header_safety.rego:
news-6 spec.retry_policy.num_retries warning CH-POLICY-041 retries library/retries_bounded.rego:
news-9 metadata.labels error CH-POLICY-040 owner owner.rego:11
shop-10 metadata.name error CH-POLICY-040 shop/no-tests shop-own.yaml:10
shop-5 spec.timeout_ms error CH-POLICY-040 timeouts library/timeouts_bounded.rego:
shop-7 spec.hostname error CH-POLICY-040 host-owner library/host_owner.rego:
`

// verdictTable renders the findings of policies, mutations left out.
func verdictTable(ds []report.Finding) string {
	var rows []string
	for _, d := range ds {
		if d.Policy == nil || d.Code == "CH-POLICY-064" {
			continue
		}
		rule := d.Policy.Rule
		if strings.HasPrefix(rule, "library/") {
			rule = strings.TrimRight(rule, "0123456789")
		} else {
			rule = filepath.Base(rule)
		}
		rows = append(rows, strings.Join([]string{d.Object.Name, d.Path, d.Severity, d.Code, d.Policy.ID, rule}, " ")+"\n")
	}
	slices.Sort(rows)
	return strings.Join(rows, "")
}

// copyTeams copies the manifests and the guardrails to temporary folders, with the ports filled in.
func copyTeams(t *testing.T, clear, backend int) (manifests, guardrails string) {
	t.Helper()
	manifests, guardrails = t.TempDir(), t.TempDir()
	for from, to := range map[string]string{"manifests": manifests, "guardrails": guardrails} {
		names, err := filepath.Glob(filepath.Join(teams, from, "*"))
		if err != nil || len(names) == 0 {
			t.Fatal("no files", err)
		}
		for _, n := range names {
			text, err := os.ReadFile(n)
			if err != nil {
				t.Fatal(err)
			}
			filled := strings.NewReplacer("PORT_CLEAR", strconv.Itoa(clear), "PORT_BACKEND", strconv.Itoa(backend)).Replace(string(text))
			if err := os.WriteFile(filepath.Join(to, filepath.Base(n)), []byte(filled), 0o600); err != nil {
				t.Fatal(err)
			}
		}
	}
	return manifests, guardrails
}

// TestPolicyVerdicts: three tenants, 30 Mappings and nine policies give one table, from check and from compile.
func TestPolicyVerdicts(t *testing.T) {
	quiet(t)
	manifests, guardrails := copyTeams(t, 8080, 9000)
	for _, args := range [][]string{
		{"check", "--envoy", "none", "--format", "json", "--policies", guardrails, manifests},
		{"compile", "--emit", "diagnostics", "--policies", guardrails, manifests},
		{"policy", "check", guardrails, "--from", manifests, "--format", "json"},
	} {
		code, out, errs := call(t, "", args...)
		var doc report.Document
		if err := json.Unmarshal([]byte(out), &doc); err != nil {
			t.Fatalf("%v: %v\n%s", args, err, errs)
		}
		if got := verdictTable(doc.Diagnostics); code != exitErrors || got != teamsVerdicts {
			t.Errorf("%v: exit code %d\n%s\nwant\n%s", args, code, got, teamsVerdicts)
		}
	}
	code, out, _ := call(t, "", "compile", "--emit", "ir", "--policies", guardrails, manifests)
	if code != exitErrors || strings.Contains(out, "/bank-4/") || !strings.Contains(out, "/bank-3/") || !strings.Contains(out, `"timeoutMillis":5000`) {
		t.Errorf("exit code %d; the denied Mapping must be gone, the others there with the default timeout", code)
	}
}

// TestPolicySwap: with a real Envoy a denied Mapping answers 404 and the others are served, before and after the rules are
// replaced in the running process, and no request fails meanwhile.
func TestPolicySwap(t *testing.T) {
	findEnvoy(t)
	quiet(t)
	p, upstream := porttest.Free(t, 5), backend(t, "up")
	manifests, guardrails := copyTeams(t, p[0], upstream)
	s := &served{t: t, dir: manifests, clear: p[0], tls: p[1], admin: p[2], health: p[3], errs: &text{}, code: make(chan int, 1)}
	s.args = []string{"chancery", "serve", s.dir, "--policies", guardrails, "--bind-address", "127.0.0.1", "--health-address", "127.0.0.1", "--health-port", strconv.Itoa(s.health),
		"--admin-port", strconv.Itoa(s.admin), "--ready-port", strconv.Itoa(p[4]), "--ads-address", "127.0.0.1:0", "--envoy-concurrency", "1", "--shutdown-grace", "1s", "--policy-log", filepath.Join(t.TempDir(), "decisions.json")}
	s.run()
	answers := func(host, path string, want int) func() bool {
		return func() bool { code, _ := s.get(host, path); return code == want }
	}
	eventually(t, "an admitted Mapping is served", answers("bank.example.com", "/bank-3/", 200))
	for path, want := range map[string]int{"/bank-1/": 200, "/bank-2/": 200, "/bank-4/": 404, "/bank-9/": 404} {
		if code, body := s.get("bank.example.com", path); code != want {
			t.Errorf("%s answers %d %q, want %d", path, code, body, want)
		}
	}
	if got := verdictTable(s.findings()); got != teamsVerdicts {
		t.Errorf("the server says\n%s\nwant\n%s", got, teamsVerdicts)
	}

	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	var traffic sync.WaitGroup
	var asked, failed atomic.Int64
	traffic.Go(func() {
		for ctx.Err() == nil {
			asked.Add(1)
			if code, body := s.get("news.example.com", "/news-2/"); code != 200 {
				failed.Add(1)
				t.Errorf("during the swap: %d %q", code, body)
			}
		}
	})
	replace := func(name, text string) {
		t.Helper()
		temp := filepath.Join(guardrails, "."+name)
		if err := os.WriteFile(temp, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Rename(temp, filepath.Join(guardrails, name)); err != nil {
			t.Fatal(err)
		}
	}
	rule := func(path string) string {
		return fmt.Sprintf("# METADATA\n# custom:\n#   match: {kinds: [Mapping]}\npackage chancery.admission.more\n\ndeny contains {\"msg\": \"not today\", \"path\": \"spec.prefix\"} if input.object.spec.prefix == %q\n", path)
	}
	replace("more.rego", rule("/bank-3/"))
	eventually(t, "the new rule denies", answers("bank.example.com", "/bank-3/", 404))
	replace("more.rego", "package chancery.admission.more\n\ndeny contains if {\n")
	eventually(t, "a broken revision is reported", func() bool { return strings.Contains(s.errs.String(), "CH-POLICY-020") })
	if code, _ := s.get("bank.example.com", "/bank-3/"); code != 404 {
		t.Errorf("the last good revision of the rules is gone: %d", code)
	}
	replace("more.rego", rule("/bank-1/"))
	eventually(t, "the next rule denies another", answers("bank.example.com", "/bank-1/", 404))
	eventually(t, "and lets the first one in", answers("bank.example.com", "/bank-3/", 200))
	port := []string{"--health-port", strconv.Itoa(s.health)}
	_, out, _ := call(t, "", append([]string{"status", "--format", "json"}, port...)...)
	var now struct {
		Policies struct {
			Revisions []struct{ Digest string }
		}
	}
	if err := json.Unmarshal([]byte(out), &now); err != nil || len(now.Policies.Revisions) != 4 {
		t.Fatalf("the revisions are not told: %v\n%s", err, out)
	}
	if code, out, errs := call(t, "", append([]string{"policy", "rollback", now.Policies.Revisions[1].Digest[:10]}, port...)...); code != exitFine || !strings.Contains(out, "in force by rollback") {
		t.Errorf("rollback: exit code %d\n%s%s", code, out, errs)
	}
	eventually(t, "the revision before governs", answers("bank.example.com", "/bank-3/", 404))
	eventually(t, "all of it", answers("bank.example.com", "/bank-1/", 200))
	cancel()
	traffic.Wait()
	for _, c := range []struct {
		args []string
		code int
		want string
	}{
		{[]string{"status"}, exitFine, "in force by rollback"},
		{[]string{"status", "--format", "json"}, exitFine, `"rolledBack": true`},
		{[]string{"policy", "rollback", "none"}, exitErrors, `no kept revision is called "none"`},
		{[]string{"policy", "rollback", "--state-dir", t.TempDir()}, exitFailure, "operator.token"},
	} {
		if code, out, errs := call(t, "", append(c.args, port...)...); code != c.code || !strings.Contains(out+errs, c.want) {
			t.Errorf("%v: exit code %d\n%s%s", c.args, code, out, errs)
		}
	}
	s.stop(nil)
	s.run()
	eventually(t, "a restart stays with the revision", answers("bank.example.com", "/bank-1/", 200))
	if code, _ := s.get("bank.example.com", "/bank-3/"); code != 404 {
		t.Errorf("after the restart: %d", code)
	}
	replace("more.rego", rule("/bank-2/"))
	eventually(t, "the next change ends the rollback", answers("bank.example.com", "/bank-2/", 404))
	resp, err := http.Get(fmt.Sprintf("http://127.0.0.1:%d/metrics", s.health))
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	page, err := io.ReadAll(resp.Body)
	for _, want := range []string{`chancery_policy_results_total{policy="bypass",result="deny",tenant=""}`, "chancery_policy_set_info{digest=", `chancery_policy_log_transitions_total{outcome="dropped"} 0`, `chancery_policy_evaluation_seconds_bucket{policy="more",tenant="",le="+Inf"}`,
		`chancery_policy_evaluations_total{how="evaluated",policy="more",tenant=""}`, "# TYPE chancery_policy_evaluation_seconds histogram"} {
		if err != nil || !strings.Contains(string(page), want) {
			t.Errorf("no %s among the measurements", want)
		}
	}
	s.stop(nil)
	decisions, err := os.ReadFile(s.args[len(s.args)-1])
	for _, want := range []string{`"policy":"more","from":"","to":"error","code":"CH-POLICY-040"`, `"policy":"more","from":"error","to":""`} {
		if err != nil || !strings.Contains(string(decisions), want) {
			t.Errorf("no %s in the decision log:\n%s", want, decisions)
		}
	}
	t.Logf("%d requests during the swaps, %d failed", asked.Load(), failed.Load())
}

// findings asks the server what it has found.
func (s *served) findings() []report.Finding {
	s.t.Helper()
	resp, err := http.Get(fmt.Sprintf("http://127.0.0.1:%d/ambassador/v0/diag/?json=true", s.health))
	if err != nil {
		s.t.Fatal(err)
	}
	defer resp.Body.Close()
	data, err := io.ReadAll(resp.Body)
	if err != nil {
		s.t.Fatal(err)
	}
	var all map[string]json.RawMessage
	if err := json.Unmarshal(data, &all); err != nil {
		s.t.Fatalf("%v: %s", err, data)
	}
	var out []report.Finding
	if err := json.Unmarshal(all["diagnostics"], &out); err != nil {
		s.t.Fatalf("no diagnostics among %v", slices.Sorted(maps.Keys(all)))
	}
	return out
}

func TestPolicyCommands(t *testing.T) {
	quiet(t)
	manifests, guardrails := copyTeams(t, 8080, 9000)
	broken := t.TempDir()
	if err := os.WriteFile(filepath.Join(broken, "typo.rego"), []byte("package chancery.admission.typo\n\ndeny contains \"x\" if input.object.spec.prefx\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		args []string
		code int
		want string
	}{
		{[]string{"policy", "test", guardrails}, exitFine, "3 of 3 tests passed, 100.0 % of 2 rules covered"},
		{[]string{"policy", "test", "--run", "missing", "--threshold", "90", guardrails}, exitErrors, "not covered: chancery.admission.owner.warn"},
		{[]string{"policy", "test", "--format", "junit", guardrails}, exitFine, `<testcase name="test_missing"`},
		{[]string{"policy", "test", broken}, exitFailure, ""},
		{[]string{"policy", "test", manifests}, exitUsage, ""},
		{[]string{"policy", "check", broken}, exitFailure, "typo.rego:3: error: undefined ref: input.object.spec.prefx"},
		{[]string{"policy", "check", "/no/such"}, exitUsage, ""},
		{[]string{"check", "--envoy", "none", "--policies", broken, manifests}, exitFailure, "CH-POLICY-023"},
		{[]string{"policy", "diff", broken, guardrails, "--from", manifests}, exitFine, "denied -> changed"},
		{[]string{"policy", "diff", guardrails, broken, "--from", manifests}, exitFailure, "denied anew: 8 objects of tenant bank"},
		{[]string{"policy", "diff", guardrails, guardrails, "--from", manifests}, exitFine, "no object is judged differently"},
		{[]string{"policy", "explain", guardrails, "--from", manifests, "--object", "Mapping/shop/shop-7"}, exitFine, "spec.timeout_ms: (absent) -> 5000 by default-timeout"},
		{[]string{"explain", "--policies", guardrails, manifests, "--", "http://bank.example.com/bank-3/"}, exitErrors, "spec.timeout_ms: (absent) -> 5000 by default-timeout at library/default_timeout.rego:"},
		{[]string{"explain", "--policies", guardrails, manifests, "--object", "Mapping/bank/bank-4"}, exitErrors, "bypass_auth is not allowed on /bank-4/"},
		{[]string{"policy", "schema", "input", "--kind", "Mapping"}, exitFine, `"prefix_regex"`},
		{[]string{"policy", "schema", "nothing"}, exitUsage, ""},
		{[]string{"policy", "docs", guardrails}, exitFine, "## owner"},
		{[]string{"policy", "bench", guardrails, "--from", manifests, "--rounds", "1"}, exitFine, "per object"},
	} {
		code, out, errs := call(t, "", c.args...)
		if code != c.code || !strings.Contains(out, c.want) {
			t.Errorf("%v: exit code %d, want %d\n%s%s", c.args, code, c.code, out, errs)
		}
	}
}

func TestAdmissionReview(t *testing.T) {
	quiet(t)
	manifests, guardrails := copyTeams(t, 8080, 9000)
	review := func(object string) string {
		return `{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview","request":{"uid":"u-1","operation":"UPDATE","object":` + object + `}}`
	}
	mapping := func(name, spec string) string {
		return `{"apiVersion":"getambassador.io/v3alpha1","kind":"Mapping","metadata":{"name":"` + name + `","namespace":"news","labels":{"owner":"news"}},"spec":{"hostname":"news.example.com","prefix":"/n/","service":"n"` + spec + `}}`
	}
	for name, c := range map[string]struct {
		object string
		code   int
		want   []string
	}{
		"allowed":  {mapping("new", `,"timeout_ms":10`), exitFine, []string{`"allowed": true`, `"uid": "u-1"`}},
		"changed":  {mapping("new", ``), exitFine, []string{`"allowed": true`, `"patchType": "JSONPatch"`}},
		"denied":   {mapping("new", `,"bypass_auth":true`), exitErrors, []string{`"allowed": false`, "bypass_auth is not allowed on /n/ (policy bypass, library/no_bypass_auth.rego:"}},
		"warned":   {mapping("new", `,"timeout_ms":1,"retry_policy":{"retry_on":"5xx","num_retries":9,"per_try_timeout":"1s"}`), exitFine, []string{`"warnings": [`, "9 retries are above 3"}},
		"unusable": {mapping("new", `,"weight":"heavy"`), exitErrors, []string{`"allowed": false`, "spec.weight"}},
	} {
		code, out, errs := call(t, review(c.object), "check", "--policies", guardrails, "--admission-review", "-", manifests)
		if code != c.code {
			t.Errorf("%s: exit code %d\n%s%s", name, code, out, errs)
		}
		for _, w := range c.want {
			if !strings.Contains(out, w) {
				t.Errorf("%s: no %q in\n%s", name, w, out)
			}
		}
	}
	if code, _, _ := call(t, "[]", "check", "--admission-review", "-"); code != exitUsage {
		t.Errorf("no review: exit code %d", code)
	}
}
