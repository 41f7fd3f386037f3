package translators_test

import (
	"bytes"
	"encoding/base64"
	"fmt"
	"strings"
	"testing"

	"github.com/chancery-gateway/chancery/snapshot"
	"github.com/chancery-gateway/chancery/translators"
	"github.com/chancery-gateway/chancery/translators/ir"
	"github.com/chancery-gateway/chancery/translators/simulator/simtest"
)

const frame = `{"apiVersion": "getambassador.io/v3alpha1", "kind": "Listener", "metadata": {"name": "l", "namespace": "gw"}, "spec": {"port": 8080, "protocol": "HTTP", "securityModel": "XFP", "hostBinding": {"namespace": {"from": "ALL"}}}}
{"apiVersion": "getambassador.io/v3alpha1", "kind": "Host", "metadata": {"name": "any", "namespace": "gw"}, "spec": {"hostname": "*", "requestPolicy": {"insecure": {"action": "Route"}}}}
`

// story edits an input step by step and holds each warm result against a cold one.
type story struct {
	t    *testing.T
	c    *translators.Compiler
	s    *snapshot.Snapshot
	last *translators.Result
}

func tell(t *testing.T, input string) *story {
	st := &story{t: t, c: newCompiler(), s: load(t, "in.json", input)}
	st.last = st.c.Compile(st.s)
	return st
}

// edit puts the objects and removes those named, and returns the result before and after.
func (st *story) edit(put string, remove ...snapshot.Ref) (before, after *translators.Result) {
	st.t.Helper()
	objects, findings := parse(st.t, "in.json", withKeys(put))
	st.s = st.s.Derive(objects, remove, findings)
	before = st.last
	st.last = st.c.Compile(st.s)
	if d := differences(bytesOf(st.t, newCompiler().Compile(st.s)), bytesOf(st.t, st.last)); d != "" {
		st.t.Fatalf("warm differs from cold:\n%s", d)
	}
	return before, st.last
}

func mappingJSON(namespace, name, spec string) string {
	return fmt.Sprintf(`{"apiVersion": "getambassador.io/v3alpha1", "kind": "Mapping", "metadata": {"name": %q, "namespace": %q}, "spec": {%s}}`+"\n", name, namespace, spec)
}

func mappingRef(namespace, name string) snapshot.Ref {
	return snapshot.Ref{Group: snapshot.EmissaryGroup, Kind: "Mapping", Namespace: namespace, Name: name}
}

// TestCanaryKeepsItsBranches: edits elsewhere never add to a split, and members that come, change and go are counted
// with the weights that their users wrote.
func TestCanaryKeepsItsBranches(t *testing.T) {
	st := tell(t, frame+
		mappingJSON("app", "single", `"hostname": "*", "prefix": "/single/", "service": "svc-a"`)+
		mappingJSON("app", "c1", `"hostname": "*", "prefix": "/test/", "service": "svc-b"`)+
		mappingJSON("app", "c2", `"hostname": "*", "prefix": "/test/", "service": "svc-c"`)+
		mappingJSON("app", "base", `"hostname": "*", "prefix": "/g/", "service": "base"`)+
		mappingJSON("app", "canary", `"hostname": "*", "prefix": "/g/", "service": "canary", "weight": 10`))
	halves := func() {
		t.Helper()
		simtest.Expect(t, st.last.Program, "GET http://x:8080/test/", simtest.To("svc_b", 50), simtest.To("svc_c", 50))
		n := 0
		for _, v := range st.last.Program.RouteConfigs[0].VirtualHosts {
			for _, r := range v.Routes {
				if r.Match.Path == "/test/" {
					n++
				}
			}
		}
		if n != 2 {
			t.Fatalf("%d branches", n)
		}
	}
	halves()
	single := mappingJSON("app", "single", `"hostname": "*", "prefix": "/single/", "service": "svc-a", "timeout_ms": 4000`)
	st.edit(single)
	halves()
	st.edit("", mappingRef("app", "single"))
	halves()
	st.edit(single)
	halves()
	split := func(shares map[string]float64) {
		t.Helper()
		for cluster, share := range shares {
			simtest.Expect(t, st.last.Program, "GET http://x:8080/g/", simtest.To("cluster_"+cluster+"_", share))
		}
	}
	split(map[string]float64{"base": 90, "canary": 10})
	st.edit(mappingJSON("app", "late", `"hostname": "*", "prefix": "/g/", "service": "late", "weight": 20`))
	split(map[string]float64{"base": 70, "canary": 10, "late": 20})
	st.edit(mappingJSON("app", "canary", `"hostname": "*", "prefix": "/g/", "service": "canary", "weight": 30`))
	split(map[string]float64{"base": 50, "canary": 30, "late": 20})
	st.edit("", mappingRef("app", "late"))
	split(map[string]float64{"base": 70, "canary": 30})
}

// TestIdentityIsKindNamespaceName: objects of one name in two namespaces, or with dots, never stand for one another.
func TestIdentityIsKindNamespaceName(t *testing.T) {
	st := tell(t, frame+
		mappingJSON("app", "first", `"hostname": "*", "prefix": "/one/", "regex_headers": {"x-tenant": "a.*"}, "service": "one"`)+
		mappingJSON("app", "second", `"hostname": "*", "prefix": "/two/", "regex_headers": {"x-tenant": "b.*"}, "regex_query_parameters": {"q": "z.*"}, "service": "two"`)+
		mappingJSON("other", "first", `"hostname": "*", "prefix": "/three/", "service": "three"`)+
		mappingJSON("app", "a.b", `"hostname": "*", "prefix": "/ab/", "service": "ab"`)+
		mappingJSON("app", "a.c", `"hostname": "*", "prefix": "/ac/", "service": "ac"`))
	_, after := st.edit(mappingJSON("app", "second", `"hostname": "*", "prefix": "/two/", "regex_headers": {"x-tenant": "b.*"}, "regex_query_parameters": {"q": "z.*"}, "service": "two-b"`))
	if after.Counts.Lowered != 1 || after.Counts.Linked != 1 {
		t.Errorf("lowered %d, linked %d", after.Counts.Lowered, after.Counts.Linked)
	}
	simtest.Expect(t, after.Program, "GET http://x:8080/two/?q=zz -H 'x-tenant: bb'", simtest.To("two_b", 100))
	_, after = st.edit("", mappingRef("other", "first"))
	simtest.Expect(t, after.Program, "GET http://x:8080/one/ -H 'x-tenant: aa'", simtest.To("one", 100))
	simtest.Expect(t, after.Program, "GET http://x:8080/three/", simtest.NotFound())
	simtest.Expect(t, after.Program, "GET http://x:8080/ab/", simtest.To("ab_app", 100))
	simtest.Expect(t, after.Program, "GET http://x:8080/ac/", simtest.To("ac_app", 100))
}

// TestRouteEditMovesRoutesOnly: what an edit of a route leaves alone keeps its very resource, so that nothing is sent.
func TestRouteEditMovesRoutesOnly(t *testing.T) {
	st := tell(t, frame+mappingJSON("app", "m", `"hostname": "*", "prefix": "/m/", "service": "s"`)+mappingJSON("app", "n", `"hostname": "*", "prefix": "/n/", "service": "n"`))
	before, after := st.edit(mappingJSON("app", "m", `"hostname": "*", "prefix": "/m/", "service": "s", "timeout_ms": 9000`))
	for kind, rs := range after.Resources {
		for i, r := range rs {
			same := before.Resources[kind][i] == r
			if kind == ir.TypeRouteConfig && same || kind != ir.TypeRouteConfig && !same {
				t.Errorf("%s %s: unchanged is %t", kind, r.Name, same)
			}
		}
	}
}

// TestWorkIsThatOfTheChange: the same work for one change among 50 and among 2,000.
func TestWorkIsThatOfTheChange(t *testing.T) {
	var counts []translators.Counts
	for _, n := range []int{50, 2000} {
		hosts := n / 10
		c := newCompiler()
		s := snapshot.Empty().Derive(decodeAll(t, benchDocuments(n, hosts, false)), nil, nil)
		c.Compile(s)
		r := c.Compile(s.Derive(decodeAll(t, []string{withKeys(benchMapping(7, hosts, false, 12345))}), nil, nil))
		r.Counts.Objects = 0
		counts = append(counts, r.Counts)
	}
	if counts[0] != counts[1] || counts[0].Lowered != 1 || counts[0].Linked != 1 {
		t.Errorf("work of one change: %+v among 50, %+v among 2,000", counts[0], counts[1])
	}
}

// TestWildcardOutputGrowsWithTheSum: Mappings for every host are held once by all clear-text hosts.
func TestWildcardOutputGrowsWithTheSum(t *testing.T) {
	size := func(mappings, hosts int) int {
		var docs strings.Builder
		docs.WriteString(strings.Split(frame, "\n")[0] + "\n")
		for h := range hosts {
			fmt.Fprintf(&docs, `{"apiVersion": "getambassador.io/v3alpha1", "kind": "Host", "metadata": {"name": "h%d", "namespace": "gw"}, "spec": {"hostname": "h%d.example.com", "requestPolicy": {"insecure": {"action": "Route"}}}}`+"\n", h, h)
		}
		for m := range mappings {
			docs.WriteString(mappingJSON("gw", fmt.Sprintf("m%04d", m), fmt.Sprintf(`"hostname": "*", "prefix": "/m-%04d/", "service": "s"`, m)))
		}
		total := 0
		for _, r := range newCompiler().Compile(load(t, "in.json", docs.String())).Resources[ir.TypeRouteConfig] {
			total += len(r.Value)
		}
		return total
	}
	if one, fifty := size(500, 1), size(500, 50); fifty > one+50*100 {
		t.Errorf("500 routes: %d bytes with one host, %d with fifty", one, fifty)
	}
}

// TestCertificatesCostTheirPairs: Hosts with a certificate each have a route configuration each, so that output grows with
// the pairs of Hosts and Mappings and no faster; routes are made and encoded once for all, and again once for an edit.
func TestCertificatesCostTheirPairs(t *testing.T) {
	size := func(mappings, hosts int) (bytes int, edit translators.Counts) {
		docs := strings.Replace(strings.Split(frame, "\n")[0], `"HTTP"`, `"HTTPS"`, 1) + "\n"
		for h := range hosts {
			docs += fmt.Sprintf(`{"apiVersion": "getambassador.io/v3alpha1", "kind": "Host", "metadata": {"name": "h%[1]d", "namespace": "gw"}, "spec": {"hostname": "h%[1]d.example.com", "tlsSecret": {"name": "c%[1]d"}}}
{"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "c%[1]d", "namespace": "gw"}, "type": "kubernetes.io/tls", "data": {"tls.crt": "$CERT", "tls.key": "$KEY"}}
`, h)
		}
		for m := range mappings {
			docs += mappingJSON("gw", fmt.Sprintf("m%04d", m), fmt.Sprintf(`"hostname": "*", "prefix": "/m-%04d/", "service": "s"`, m))
		}
		st := tell(t, docs)
		for _, r := range st.last.Resources[ir.TypeRouteConfig] {
			bytes += len(r.Value)
		}
		_, after := st.edit(mappingJSON("gw", "m0007", `"hostname": "*", "prefix": "/m-0007/", "service": "s", "timeout_ms": 9000`))
		simtest.Expect(t, after.Program, "GET https://h1.example.com:8080/m-0007/ -H 'Host: h1.example.com'", simtest.To("cluster_s_", 100))
		return bytes, after.Counts
	}
	few, _ := size(137, 10)
	all, edit := size(137, 41)
	if most := few * 41 / 10 * 11 / 10; all > most {
		t.Errorf("%d bytes with 10 certificates, %d with 41", few, all)
	}
	if edit.Lowered != 1 || edit.Linked != 1 || edit.Emitted > 2*41+5 {
		t.Errorf("work of one edit: %+v", edit)
	}
}

// TestBrokenObjectsCostNothing: objects that lead nowhere are told of, and nothing is done for them until they change.
func TestBrokenObjectsCostNothing(t *testing.T) {
	docs := frame
	for m := range 1300 {
		docs += mappingJSON("app", fmt.Sprintf("broken-%04d", m), fmt.Sprintf(`"hostname": "*", "prefix": "/b-%04d/", "service": "nope-%04d", "resolver": "endpoint"`, m, m))
	}
	st := tell(t, docs)
	if n := len(st.last.Diagnostics); n != 1300 {
		t.Fatalf("%d findings", n)
	}
	again := st.c.Compile(st.s)
	if c := again.Counts; c.Lowered+c.Linked+c.Emitted+c.EndpointSets != 0 {
		t.Errorf("the work of nothing: %+v", c)
	}
	_, after := st.edit(`{"apiVersion": "v1", "kind": "Service", "metadata": {"name": "nope-0007", "namespace": "app"}, "spec": {"ports": [{"port": 80}]}}`)
	if after.Counts.Lowered != 1 || after.Counts.Linked > 1 || len(after.Diagnostics) != 1299 {
		t.Errorf("the work of one Service: %+v, and %d findings", after.Counts, len(after.Diagnostics))
	}
}

// TestStatusIsNoChange: what no stage reads is no change at all: status, managed fields, resource versions.
func TestStatusIsNoChange(t *testing.T) {
	plain := mappingJSON("app", "m", `"hostname": "*", "prefix": "/m/", "service": "s"`)
	st := tell(t, frame+plain)
	noisy := strings.Replace(plain, `"namespace": "app"`, `"namespace": "app", "resourceVersion": "7", "managedFields": [{"manager": "x"}], "annotations": {"kubectl.kubernetes.io/last-applied-configuration": "{}"}`, 1)
	noisy = strings.Replace(noisy, `"spec":`, `"status": {"state": "Running"}, "spec":`, 1)
	before, after := st.edit(noisy)
	if after.Counts.Lowered != 0 || after.Counts.Linked != 0 || after.Counts.Emitted != 0 {
		t.Errorf("work was done: %+v", after.Counts)
	}
	if before.Program.RouteConfigs[0] != after.Program.RouteConfigs[0] {
		t.Error("the program was made anew")
	}
}

// TestKeysStayInSecrets: key material is in SDS resources and nowhere else.
func TestKeysStayInSecrets(t *testing.T) {
	input := frame + `{"apiVersion": "getambassador.io/v3alpha1", "kind": "Listener", "metadata": {"name": "s", "namespace": "gw"}, "spec": {"port": 8443, "protocol": "HTTPS", "securityModel": "XFP", "hostBinding": {"namespace": {"from": "ALL"}}}}
{"apiVersion": "getambassador.io/v3alpha1", "kind": "Host", "metadata": {"name": "h", "namespace": "gw"}, "spec": {"hostname": "h.example.com", "tlsSecret": {"name": "good"}}}
{"apiVersion": "getambassador.io/v3alpha1", "kind": "Host", "metadata": {"name": "b", "namespace": "gw"}, "spec": {"hostname": "b.example.com", "tlsSecret": {"name": "bad"}}}
{"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "good", "namespace": "gw"}, "type": "kubernetes.io/tls", "data": {"tls.crt": "$CERT", "tls.key": "$KEY"}}
{"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "bad", "namespace": "gw"}, "type": "kubernetes.io/tls", "data": {"tls.crt": "$CERT", "tls.key": "$KEY2"}}`
	s := load(t, "in.json", input)
	r := newCompiler().Compile(s)
	var shown bytes.Buffer
	if err := r.Program.WriteJSON(&shown); err != nil {
		t.Fatal(err)
	}
	for _, d := range r.Diagnostics {
		fmt.Fprintln(&shown, d)
	}
	for _, o := range []string{"good", "bad"} {
		if s.Get(snapshot.KindSecret, "gw", o).Raw != nil {
			t.Error("Raw holds a Secret")
		}
	}
	secrets := 0
	for kind, rs := range r.Resources {
		for _, x := range rs {
			if kind == ir.TypeSecret {
				secrets += bytes.Count(x.Value, []byte("PRIVATE KEY"))
				continue
			}
			shown.Write(x.Value)
		}
	}
	if secrets == 0 {
		t.Error("no Secret was emitted")
	}
	for _, p := range pairs() {
		pem, err := base64.StdEncoding.DecodeString(p.key)
		if err != nil {
			t.Fatal(err)
		}
		for _, marker := range []string{"PRIVATE KEY", p.key, strings.Split(string(pem), "\n")[1]} {
			if strings.Contains(shown.String(), marker) {
				t.Errorf("key material is shown: %.20s", marker)
			}
		}
	}
}
