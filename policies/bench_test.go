package policies_test

import (
	"fmt"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/chancery-gateway/chancery/policies"
	"github.com/chancery-gateway/chancery/policies/engine"
	"github.com/chancery-gateway/chancery/policies/library"
	"github.com/chancery-gateway/chancery/snapshot"
)

// fullLibrary is every policy of the library and copies of some, 20 in all, under which large's objects are fine.
func fullLibrary() *policies.Supply {
	s := &policies.Supply{Digest: "library"}
	for _, m := range library.Modules() {
		if !m.IsTest() {
			s.Modules = append(s.Modules, m)
		}
	}
	for i := len(s.Modules); i < 20; i++ {
		m := s.Modules[i%5]
		name := strings.TrimSuffix(strings.TrimPrefix(m.File, "library/"), ".rego")
		s.Modules = append(s.Modules, engine.Module{File: fmt.Sprintf("copy%d.rego", i), Text: []byte(strings.Replace(string(m.Text), "package chancery.admission."+name, fmt.Sprintf("package chancery.admission.copy%d", i), 1))})
	}
	return s
}

// large makes n Mappings in 50 namespaces.
func large(t testing.TB, n int) *snapshot.Snapshot {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, "---\napiVersion: getambassador.io/v3alpha1\nkind: Mapping\nmetadata: {name: m%d, namespace: ns%d, labels: {owner: team}}\n"+
			"spec: {prefix: /svc%d/, hostname: h%d.example.com, service: 'https://svc%d:8443', timeout_ms: 3000, labels: {ambassador: [{r: [{request_headers: {key: a, header_name: b}}]}]}, add_request_headers: {x-team: {value: t}}, retry_policy: {retry_on: 5xx, num_retries: 2, per_try_timeout: 1s}}\n", i, i%50, i, i%500, i)
	}
	return world(t, b.String())
}

// cpu returns the processor time that the process has used.
func cpu() time.Duration {
	var u syscall.Rusage
	if syscall.Getrusage(syscall.RUSAGE_SELF, &u) != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// measured reports the processor time of the loop: the machine may be busy with other things.
func measured(b *testing.B) func() {
	begun := cpu()
	return func() { b.ReportMetric(float64((cpu()-begun).Nanoseconds())/float64(b.N)/1e6, "cpu-ms/op") }
}

func BenchmarkColdTenThousand(b *testing.B) {
	s, rules := large(b, 10000), fullLibrary()
	defer measured(b)()
	for b.Loop() {
		a := admitter(rules)
		if _, found := a.Admit(s); len(found) > 0 {
			b.Fatal(lines(found[:min(len(found), 5)]))
		}
	}
}

func BenchmarkOneObjectChanged(b *testing.B) {
	s, rules := large(b, 10000), fullLibrary()
	a := admitter(rules)
	a.Admit(s)
	var variants []*snapshot.Object
	for i := range 2 {
		variants = append(variants, parse(b, "x.yaml", fmt.Sprintf("apiVersion: getambassador.io/v3alpha1\nkind: Mapping\nmetadata: {name: m1, namespace: ns1, labels: {owner: team}}\n"+
			"spec: {prefix: /svc1/, hostname: h1.example.com, service: 'https://svc1:%d', timeout_ms: 3000, labels: {ambassador: [{r: [{request_headers: {key: a, header_name: b}}]}]}}\n", 8443+i))...)
	}
	defer measured(b)()
	i := 0
	for b.Loop() {
		i++
		s = s.Derive(variants[i%2:i%2+1], nil, nil)
		a.Admit(s)
		s.Forget()
	}
}

func BenchmarkSwapHundredPolicies(b *testing.B) {
	var sets [2]*policies.Supply
	for v := range sets {
		sets[v] = &policies.Supply{Digest: fmt.Sprint(v)}
		for i := range 100 {
			sets[v].Modules = append(sets[v].Modules, engine.Module{File: fmt.Sprintf("p%d.rego", i), Text: fmt.Appendf(nil, `# METADATA
# title: P
# custom:
#   match: {kinds: [Mapping]}
package chancery.admission.p%d

deny contains {"msg": "no", "path": "spec.prefix"} if input.object.spec.prefix == "/forbidden%d/"

deny contains {"msg": "no", "path": "spec.service"} if startswith(input.object.spec.service, "evil%d")

warn contains {"msg": "no", "path": "spec.host"} if input.object.spec.host == "version%d"
`, i, i, i, v)})
		}
	}
	s := large(b, 10)
	current := sets[0]
	a := policies.New(policies.Options{Supply: func() *policies.Supply { return current }, Point: "cli", Now: time.Now})
	a.Admit(s)
	defer measured(b)()
	i := 0
	for b.Loop() {
		i++
		current = sets[i%2]
		a.Admit(s)
	}
}
