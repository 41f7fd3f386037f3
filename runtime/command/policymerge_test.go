package command

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/chancery-gateway/chancery/runtime/report"
)

const mergeTenants = `---
apiVersion: chancery.dev/v1alpha1
kind: Tenant
metadata: {name: shop}
spec: {owner: anna, namespaces: [shop]}
---
apiVersion: chancery.dev/v1alpha1
kind: Tenant
metadata: {name: bank}
spec: {owner: bob, namespaces: [bank]}
`

const mergeEntry = `---
apiVersion: getambassador.io/v3alpha1
kind: Listener
metadata: {name: entry, namespace: platform, creationTimestamp: "2020-01-01T00:00:00Z"}
spec: {port: 8080, protocol: HTTP, securityModel: XFP, hostBinding: {namespace: {from: ALL}}}
---
apiVersion: getambassador.io/v3alpha1
kind: Host
metadata: {name: entry, namespace: platform, creationTimestamp: "2020-01-01T00:00:00Z"}
spec: {hostname: a.example.com, requestPolicy: {insecure: {action: Route}}}
`

func object(kind, ns, name, year, spec string) string {
	return "---\napiVersion: getambassador.io/v3alpha1\nkind: " + kind + "\nmetadata: {name: " + name + ", namespace: " + ns + ", creationTimestamp: \"" + year + "-01-01T00:00:00Z\"}\nspec: {" + spec + "}\n"
}

func mergeRule(kinds, body string) string {
	return "# METADATA\n# title: Merge\n# custom:\n#   match: {kinds: [" + kinds + "]}\npackage chancery.merge.m\n\n" + body + "\n"
}

// TestMergeKinds settles claims of every kind through a compile, by the default and by a policy; `policy explain` says who
// won by which rule, and where each field came from.
func TestMergeKinds(t *testing.T) {
	quiet(t)
	const route = "hostname: a.example.com, prefix: /same/, service: "
	twoMappings := mergeEntry + object("Mapping", "bank", "old", "2024", route+"old, timeout_ms: 900, bypass_auth: true") + object("Mapping", "bank", "canary", "2025", route+"canary, weight: 10, timeout_ms: 800, bypass_auth: true") +
		object("Mapping", "shop", "young", "2025", route+"young, timeout_ms: 500")
	twoHosts := mergeEntry + object("Host", "bank", "old", "2024", "hostname: b.example.com, requestPolicy: {insecure: {action: Route}}") + object("Host", "shop", "young", "2025", "hostname: B.example.com, requestPolicy: {insecure: {action: Reject}}") +
		object("Mapping", "shop", "m", "2025", "hostname: b.example.com, prefix: /b/, service: b")
	twoListeners := mergeEntry + object("Listener", "shop", "own", "2025", "port: 8080, protocol: HTTP, securityModel: SECURE, hostBinding: {namespace: {from: SELF}}")
	twoAuth := mergeEntry + object("Mapping", "shop", "m", "2025", route+"m") + object("AuthService", "shop", "own", "2019", "auth_service: 'own:3000', proto: http, status_on_error: {code: 403}, failure_mode_allow: true, protocol_version: v3") +
		object("AuthService", "platform", "all", "2024", "auth_service: 'all:3000', proto: http, failure_mode_allow: false, protocol_version: v3")
	defaults := mergeEntry + object("Module", "platform", "ambassador", "2024", "config: {cluster_request_timeout_ms: 5000, cors: {origins: ['https://a.example.com']}}") +
		object("Mapping", "shop", "m", "2025", route+"m, timeout_ms: 60000") + object("Mapping", "bank", "m", "2025", "hostname: a.example.com, prefix: /endless/, service: m, timeout_ms: 0") +
		object("Mapping", "platform", "m", "2025", "hostname: a.example.com, prefix: /platform/, service: m, timeout_ms: 70000")
	observers := func(kind, spec string) string {
		return mergeEntry + object(kind, "shop", "own", "2019", "service: 'own:3000', "+spec) + object(kind, "platform", "all", "2024", "service: 'all:3000', "+spec)
	}
	for name, c := range map[string]struct {
		manifest, rego, object string
		// found are finding codes with their objects; ir is what the program has, lacks what it has not; explained is what explain prints.
		found, ir, lacks, explained []string
	}{
		"Mapping by default": {twoMappings, "", "Mapping/shop/young", []string{"CH-POLICY-070 young"}, []string{"old"}, []string{"young"},
			[]string{"Mapping/shop/young: lost, tenant shop", `claim to Mapping host "a.example.com" prefix "/same/"`, "won by Mapping/bank/old, decided by the default"}},
		"Mapping by policy": {twoMappings, mergeRule("Mapping", `resolve := {"fields": {"spec.timeout_ms": "min"}, "reason": "shared path"} if input.kind == "Mapping"`), "Mapping/bank/old",
			[]string{"CH-POLICY-071 young"}, []string{`"timeoutMillis":500`}, []string{`"timeoutMillis":800`, `"timeoutMillis":900`, "young"},
			[]string{"won by Mapping/bank/old, decided by policy m, revision ", "rule at ", "m.rego:7", "reason: shared path", "lost: Mapping/shop/young",
				"spec.timeout_ms from Mapping/shop/young (min of Mapping/bank/old, Mapping/shop/young)", "spec.bypass_auth from several (deny-overrides of Mapping/bank/old)"}},
		"Host by default": {twoHosts, "", "Host/shop/young", []string{"CH-POLICY-070 young"}, nil, nil, []string{"claim to Host b.example.com", "won by Host/bank/old"}},
		"Host by policy": {twoHosts, mergeRule("Host", `resolve := {"default": "first-wins"} if input.kind == "Host"`), "Host/bank/old", []string{"CH-POLICY-071 young"}, nil, nil,
			[]string{"spec.requestPolicy.insecure.action from Host/shop/young (deny-overrides of Host/bank/old, Host/shop/young)"}},
		"Listener by default": {twoListeners, "", "Listener/shop/own", []string{"CH-POLICY-070 own"}, nil, nil, []string{"claim to Listener port 8080", "won by Listener/platform/entry"}},
		"Listener by policy": {twoListeners, mergeRule("Listener", `resolve := {"default": "first-wins"} if input.kind == "Listener"`), "Listener/shop/own", []string{"CH-POLICY-070 own"}, nil, nil,
			[]string{"spec.securityModel differs from that of Listener/platform/entry, which comes first, and must be equal"}},
		"AuthService by default": {twoAuth, "", "AuthService/shop/own", []string{"CH-POLICY-070 own"}, []string{"all"}, []string{"own:3000"}, []string{"won by AuthService/platform/all", "of the platform claims the same and comes first"}},
		"AuthService by policy": {twoAuth, mergeRule("AuthService", `resolve := {"fields": {"spec.auth_service": "first-wins", "spec.status_on_error": "union"}} if input.kind == "AuthService"`), "AuthService/platform/all",
			[]string{"CH-POLICY-071 own"}, []string{`403`}, []string{"own:3000"}, []string{"spec.failure_mode_allow from AuthService/platform/all (deny-overrides of", "spec.status_on_error from AuthService/shop/own (union of AuthService/shop/own)"}},
		"RateLimitService by default": {observers("RateLimitService", "protocol_version: v3"), "", "RateLimitService/shop/own", []string{"CH-POLICY-070 own"}, nil, []string{"own:3000"}, []string{"won by RateLimitService/platform/all"}},
		"LogService by default":       {observers("LogService", "driver: http, driver_config: {}, grpc: true, protocol_version: v3"), "", "LogService/shop/own", []string{"CH-POLICY-070 own"}, nil, []string{"own:3000"}, []string{"won by LogService/platform/all"}},
		"TracingService by policy": {observers("TracingService", "driver: zipkin"), mergeRule("TracingService", `resolve := {"winner": c.id, "reason": "the team's own"} if { some c in input.claims; c.tenant == "shop" }`), "TracingService/platform/all",
			[]string{"CH-POLICY-070 all"}, nil, []string{"all:3000"}, []string{"won by TracingService/shop/own", "reason: the team's own"}},
		"Defaults by default": {defaults + object("Mapping", "shop", "cors", "2025", "hostname: a.example.com, prefix: /cors/, service: c, cors: {origins: ['*']}"), "", "Mapping/shop/cors", []string{"CH-POLICY-070 cors"},
			[]string{`"timeoutMillis":60000`}, []string{"/cors/"}, []string{"Mapping/shop/cors: lost, tenant shop", "claim to Defaults Mapping/shop/cors", "spec.cors differs from that of Module/platform/ambassador"}},
		"Defaults by policy": {defaults, mergeRule("Module, Mapping", `resolve := {"fields": {"spec.timeout_ms": "parent-ceiling"}} if input.kind == "Defaults"`), "Mapping/bank/m", []string{"CH-POLICY-073 m", "CH-POLICY-073 m"},
			[]string{`"timeoutMillis":5000`, `"timeoutMillis":70000`}, []string{`"timeoutMillis":60000`, `"timeoutMillis":0`},
			[]string{"0, the Mapping's own, gives way to 5000 by the defaults of Module/platform/ambassador (parent-ceiling)", "claim to Defaults Mapping/bank/m", "rule at ",
				"spec.timeout_ms from Module/platform/ambassador (parent-ceiling of Module/platform/ambassador, Mapping/bank/m)"}},
	} {
		t.Run(name, func(t *testing.T) {
			manifests, guardrails := t.TempDir(), t.TempDir()
			for at, text := range map[string]string{filepath.Join(manifests, "world.yaml"): mergeTenants + c.manifest, filepath.Join(guardrails, "m.rego"): c.rego} {
				if text == "" {
					text = "package chancery.lib.nothing\n"
				}
				if err := os.WriteFile(at, []byte(text), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			_, program, errs := call(t, "", "compile", "--emit", "ir", "--policies", guardrails, manifests)
			var found []string
			for _, d := range diagnosticsOf(t, guardrails, manifests) {
				if strings.HasPrefix(d.Code, "CH-POLICY-") {
					found = append(found, d.Code+" "+d.Object.Name)
				}
			}
			if got, want := strings.Join(found, ", "), strings.Join(c.found, ", "); got != want {
				t.Errorf("found %q, want %q\n%s", got, want, errs)
			}
			for _, want := range c.ir {
				if !strings.Contains(program, want) {
					t.Errorf("no %s in the program", want)
				}
			}
			for _, not := range c.lacks {
				if strings.Contains(program, not) {
					t.Errorf("%s is in the program", not)
				}
			}
			_, out, errs := call(t, "", "policy", "explain", guardrails, "--from", manifests, "--object", c.object)
			for _, want := range c.explained {
				if !strings.Contains(out, want) {
					t.Errorf("no %q in\n%s%s", want, out, errs)
				}
			}
		})
	}
}

// diagnosticsOf compiles the manifests under the rules and returns what was found.
func diagnosticsOf(t *testing.T, guardrails, manifests string) []report.Finding {
	t.Helper()
	_, out, errs := call(t, "", "compile", "--emit", "diagnostics", "--policies", guardrails, manifests)
	var doc report.Document
	if err := json.Unmarshal([]byte(out), &doc); err != nil {
		t.Fatalf("%v\n%s", err, errs)
	}
	return doc.Diagnostics
}
