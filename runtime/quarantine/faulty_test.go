package quarantine

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	"google.golang.org/protobuf/proto"

	"github.com/chancery-gateway/chancery/snapshot"
	"github.com/chancery-gateway/chancery/snapshot/api"
	"github.com/chancery-gateway/chancery/translators"
	"github.com/chancery-gateway/chancery/translators/emissary"
	"github.com/chancery-gateway/chancery/translators/ir"
	"github.com/chancery-gateway/chancery/xds/validator"
)

// chain is a compiler with its quarantine: what stands between a source and the traffic.
type chain struct {
	t *testing.T
	q *Quarantine
	c *translators.Compiler
	s *snapshot.Snapshot
}

const listener = `{"apiVersion":"getambassador.io/v3alpha1","kind":"Listener","metadata":{"name":"l","namespace":"app"},"spec":{"port":8080,"protocol":"HTTP","securityModel":"XFP","hostBinding":{"namespace":{"from":"ALL"}}}}`

func newChain(t *testing.T, dir string, judge Judge) *chain {
	t.Helper()
	o := Options{Dir: dir}
	if judge != nil {
		o.Open = func(context.Context, *ir.Bootstrap) (Judge, error) { return judge, nil }
	}
	q, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	c := &chain{t: t, q: q, c: translators.New(translators.Options{FrontEnds: []translators.FrontEnd{emissary.New(emissary.Options{})}}), s: snapshot.Empty()}
	return c
}

// deliver compiles the next snapshot until it is proven, as the pipeline does, and returns what there is to say.
func (c *chain) deliver(s *snapshot.Snapshot) (*translators.Result, []snapshot.Diagnostic) {
	c.t.Helper()
	c.s = s
	for range 10 {
		r := c.c.Compile(c.q.Take(s))
		p := c.q.Prove(c.t.Context(), s, r)
		if !p.Again {
			return r, append(slices.Clone(r.Diagnostics), p.Findings...)
		}
		c.c.Refuse(p.Refused)
	}
	c.t.Fatal("no end")
	return nil, nil
}

func (c *chain) put(texts ...string) *snapshot.Snapshot {
	c.t.Helper()
	var objects []*snapshot.Object
	for _, text := range texts {
		objects = append(objects, decoded(c.t, text))
	}
	return c.s.Derive(objects, nil, nil)
}

func object(kind, name, spec string) string {
	return fmt.Sprintf(`{"apiVersion":"getambassador.io/v3alpha1","kind":%q,"metadata":{"name":%q,"namespace":"app"},"spec":%s}`, kind, name, spec)
}

// routesOf are the prefixes of the routes that lead to a cluster.
func routesOf(r *translators.Result) string {
	var out []string
	for _, x := range r.Resources[ir.TypeRouteConfig] {
		var rc routev3.RouteConfiguration
		if err := proto.Unmarshal(x.Value, &rc); err != nil {
			panic(err) // our own bytes
		}
		for _, v := range rc.VirtualHosts {
			for _, x := range v.Routes {
				if p := x.Match.GetPrefix(); x.GetRoute() != nil && !strings.HasPrefix(p, "/ambassador/") && x.Match.GetPath() == "" {
					out = append(out, p)
				}
			}
		}
	}
	slices.Sort(out)
	return strings.Join(slices.Compact(out), " ")
}

func about(ds []snapshot.Diagnostic, name string) (codes []string) {
	for _, d := range ds {
		if d.Object.Name == name {
			codes = append(codes, d.Code.ID)
		}
	}
	return codes
}

// TestFaultyForm: one bad edit takes no live route away, whichever rule of ours refuses it, with an Envoy to ask and without.
func TestFaultyForm(t *testing.T) {
	for _, judge := range []Judge{nil, &court{}} {
		for name, bad := range map[string]string{
			"front end": `{"hostname":"*","prefix":"/new/","service":"a:99999"}`,
			"header":    `{"hostname":"*","prefix":"/new/","service":"a","add_request_headers":{"x a":{"value":"y"}}}`,
			"regex":     `{"hostname":"*","prefix":"/new/[a-","prefix_regex":true,"service":"a"}`,
			"back end":  `{"hostname":"*","prefix":"/new/","service":"a","add_request_headers":{"x-a":{"value":"%REQ("}}}`,
			"rewrite":   `{"hostname":"*","prefix":"/new/","service":"a","regex_rewrite":{"pattern":"(a)","substitution":"\\7"}}`,
		} {
			t.Run(fmt.Sprintf("%s, %T", name, judge), func(t *testing.T) {
				dir := t.TempDir()
				c := newChain(t, dir, judge)
				r, ds := c.deliver(c.put(listener, object("Mapping", "a", `{"hostname":"*","prefix":"/a/","service":"a"}`), object("Mapping", "b", `{"hostname":"*","prefix":"/b/","service":"b"}`)))
				if got := routesOf(r); got != "/a/ /b/" {
					t.Fatalf("served are %s: %v", got, ds)
				}
				r, ds = c.deliver(c.put(object("Mapping", "a", bad), object("Mapping", "b", `{"hostname":"*","prefix":"/b2/","service":"b"}`), object("Mapping", "c", bad)))
				if got := routesOf(r); got != "/a/ /b2/" {
					t.Errorf("served are %s: %v", got, ds)
				}
				said := about(ds, "a")
				if len(said) < 2 || !slices.Contains(said, Faulty.ID) || c.q.Held() != 1 {
					t.Errorf("said is %v", ds)
				}
				if rest := about(ds, "c"); len(rest) == 0 || slices.Contains(rest, Faulty.ID) { // new: it simply loses
					t.Errorf("said is %v", ds)
				}
				for _, d := range ds {
					if d.Object.Name == "a" && d.Severity == snapshot.Error && d.Path == "" && !strings.HasPrefix(d.Code.ID, "CH-ENVOY") {
						t.Errorf("no field is named: %v", d)
					}
				}
				if err := c.q.Save(); err != nil {
					t.Fatal(err)
				}
				bads := c.s

				later := newChain(t, dir, judge) // a restart
				if r, _ = later.deliver(bads); routesOf(r) != "/a/ /b2/" {
					t.Errorf("after a restart served are %s", routesOf(r))
				}
				r, ds = c.deliver(c.put(object("Mapping", "a", `{"hostname":"*","prefix":"/cured/","service":"a"}`)))
				if got := routesOf(r); got != "/b2/ /cured/" || c.q.Held() != 0 || len(about(ds, "a")) > 0 {
					t.Errorf("cured: %s, %v", got, ds)
				}
				r, _ = c.deliver(c.put(object("Mapping", "a", bad)))
				if got := routesOf(r); got != "/b2/ /cured/" {
					t.Errorf("bad again: %s", got)
				}
				mapping := snapshot.Ref{Group: snapshot.EmissaryGroup, Kind: "Mapping", Namespace: "app", Name: "a"}
				r, ds = c.deliver(c.s.Derive(nil, []snapshot.Ref{mapping}, nil))
				if got := routesOf(r); got != "/b2/" || len(about(ds, "a")) > 0 {
					t.Errorf("deleted: %s, %v", got, ds)
				}
				r, _ = c.deliver(c.put(object("Mapping", "a", bad))) // a new one of the name
				if got := routesOf(r); got != "/b2/" {
					t.Errorf("made anew: %s", got)
				}
			})
		}
	}
}

// TestUnreadableAtStart: an object that cannot be read when Chancery starts is served as an earlier run knew it.
func TestUnreadableAtStart(t *testing.T) {
	dir := t.TempDir()
	c := newChain(t, dir, nil)
	c.deliver(c.put(listener, object("Mapping", "a", `{"hostname":"*","prefix":"/a/","service":"a"}`)))
	if err := c.q.Save(); err != nil {
		t.Fatal(err)
	}
	_, found := api.Decode([]byte(object("Mapping", "a", `{"hostname":"*","prefix":7}`)), snapshot.Source{}, nil)
	if len(found) == 0 {
		t.Fatal("nothing is wrong")
	}
	later := newChain(t, dir, nil)
	s := later.put(listener).Derive(nil, nil, found)
	for range 2 {
		r, ds := later.deliver(s)
		if got := routesOf(r); got != "/a/" || !slices.Contains(about(ds, "a"), Faulty.ID) {
			t.Errorf("served are %s: %v", got, ds)
		}
	}
	r, ds := later.deliver(s.Derive(nil, nil, nil))
	if got := routesOf(r); got != "" || len(about(ds, "a")) > 0 {
		t.Errorf("deleted: %s, %v", got, ds)
	}
}

// TestAnotherObjectOfTheName: who is made anew has no good form, even when nobody saw the time between.
func TestAnotherObjectOfTheName(t *testing.T) {
	c := newChain(t, "", nil)
	with := func(uid, spec string) string {
		return strings.Replace(object("Mapping", "a", spec), `"name"`, `"uid":"`+uid+`","name"`, 1)
	}
	c.deliver(c.put(listener, with("1", `{"hostname":"*","prefix":"/a/","service":"a"}`)))
	r, _ := c.deliver(c.put(with("2", `{"hostname":"*","prefix":"/b/","service":"a:99999"}`)))
	if got := routesOf(r); got != "" {
		t.Errorf("served are %s", got)
	}
}

// TestWithdrawal: who withdraws access is not overruled by a fault beside.
func TestWithdrawal(t *testing.T) {
	for _, c := range []struct {
		kind, was, now, field string
	}{
		{"Mapping", `{"bypass_auth":true}`, `{}`, "spec.bypass_auth"},
		{"Mapping", `{"bypass_auth":true}`, `{"bypass_auth":false}`, "spec.bypass_auth"},
		{"Mapping", `{}`, `{"bypass_auth":true}`, ""},
		{"Mapping", `{"prefix":"/a/"}`, `{"prefix":"/b/"}`, ""},
		{"Mapping", `{"allow_upgrade":["websocket","spdy/3.1"]}`, `{"allow_upgrade":["websocket"]}`, "spec.allow_upgrade"},
		{"Mapping", `{"allow_upgrade":["websocket"]}`, `{"allow_upgrade":["spdy/3.1","websocket"]}`, ""},
		{"Mapping", `{"cors":{"origins":["https://a"]}}`, `{"cors":{"origins":["https://b"]}}`, "spec.cors.origins"},
		{"Host", `{"requestPolicy":{"insecure":{"action":"Route"}}}`, `{"requestPolicy":{"insecure":{"action":"Redirect"}}}`, "spec.requestPolicy.insecure.action"},
		{"Host", `{"requestPolicy":{"insecure":{"action":"Reject"}}}`, `{}`, ""},
		{"Host", `{"tls":{}}`, `{"tls":{"ca_secret":"x"}}`, "spec.tls.ca_secret"},
		{"Host", `{"tls":{"ca_secret":"x"}}`, `{}`, ""},
		{"TLSContext", `{}`, `{"cert_required":true}`, "spec.cert_required"},
		{"TLSContext", `{"min_tls_version":"v1.2"}`, `{"min_tls_version":"v1.3"}`, "spec.min_tls_version"},
		{"TLSContext", `{"min_tls_version":"v1.3"}`, `{"min_tls_version":"v1.2"}`, ""},
		{"TLSContext", `{"crl_secret":"x"}`, `{"crl_secret":"y"}`, "spec.crl_secret"},
		{"Module", `{"config":{}}`, `{"config":{"ip_allow":[{"peer":"192.0.2.1"}]}}`, "spec.config.ip_allow"},
		{"Module", `{"config":{"ip_allow":[{"peer":"192.0.2.1"},{"peer":"192.0.2.2"}]}}`, `{"config":{"ip_allow":[{"peer":"192.0.2.1"}]}}`, "spec.config.ip_allow"},
		{"Module", `{"config":{"ip_allow":[{"peer":"192.0.2.1"}]}}`, `{"config":{"ip_allow":[{"peer":"192.0.2.2"},{"peer":"192.0.2.1"}]}}`, ""},
		{"Module", `{"config":{"ip_deny":[{"peer":"192.0.2.1"}]}}`, `{"config":{"ip_deny":[{"peer":"192.0.2.1"},{"peer":"192.0.2.2"}]}}`, "spec.config.ip_deny"},
		{"Module", `{"config":{"ip_deny":[{"peer":"192.0.2.1"}]}}`, `{"config":{"lua_scripts":"x"}}`, ""},
		{"Module", `{"config":{"xff_num_trusted_hops":1}}`, `{"config":{"xff_num_trusted_hops":0}}`, "spec.config.xff_num_trusted_hops"},
		{"AuthService", `{"auth_service":"a"}`, `{"auth_service":"b"}`, "spec.auth_service"},
		{"AuthService", `{"auth_service":"a","failure_mode_allow":true}`, `{"auth_service":"a"}`, "spec.failure_mode_allow"},
		{"AuthService", `{"auth_service":"a","timeout_ms":1}`, `{"auth_service":"a","timeout_ms":2}`, ""},
		{"RateLimitService", `{}`, `{"failure_mode_deny":true}`, "spec.failure_mode_deny"},
	} {
		form := func(spec string) *snapshot.Object {
			return &snapshot.Object{Ref: snapshot.Ref{Group: snapshot.EmissaryGroup, Kind: c.kind, Name: "x"}, Raw: []byte(object(c.kind, "x", spec))}
		}
		if got := withdraws(form(c.was), form(c.now)); got != c.field {
			t.Errorf("%s %s, then %s: %q, want %q", c.kind, c.was, c.now, got, c.field)
		}
	}

	c := newChain(t, "", nil)
	r, _ := c.deliver(c.put(listener, object("Mapping", "a", `{"hostname":"*","prefix":"/a/","service":"a","bypass_auth":true}`)))
	if got := routesOf(r); got != "/a/" {
		t.Fatal(got)
	}
	if r, _ = c.deliver(c.put(object("Mapping", "a", `{"hostname":"*","prefix":"/a/","service":"a:99999"}`))); routesOf(r) != "" || c.q.Held() != 0 {
		t.Errorf("served are %s", routesOf(r))
	}
}

// TestFaultsOfOthers: what an object loses to others is no fault of its form, and keeps nothing alive.
func TestFaultsOfOthers(t *testing.T) {
	for _, id := range []string{"CH-LINK-002", "CH-POLICY-040", "CH-ENVOY-002", "CH-CLUSTER-009", "CH-AUTH-001", "CH-TLS-001"} {
		if ownFault(&snapshot.Diagnostic{Severity: snapshot.Error, Code: &snapshot.Code{ID: id}}) {
			t.Error(id)
		}
	}
	known := map[string]bool{}
	for _, c := range snapshot.Codes() {
		known[c.ID] = true
	}
	for _, id := range ownFaults {
		if !strings.HasSuffix(id, "-") && !known[id] {
			t.Errorf("there is no code %s", id)
		}
	}
}

// patient refuses what it is told to.
type patient struct{ word string }

func (p patient) Judge(_ context.Context, units []*ir.Unit) (validator.Verdicts, error) {
	out := validator.Verdicts{Refused: map[*ir.Unit]string{}}
	for _, u := range units {
		if strings.Contains(string(u.Value), p.word) {
			out.Refused[u] = "no " + p.word
		}
	}
	return out, nil
}

// TestReopen: when another Envoy judges, what the last one refused is tried again, and what only this one refuses is refused.
func TestReopen(t *testing.T) {
	judge := patient{"large"}
	c := newChain(t, "", nil)
	opened := 0
	c.q.options.Open = func(context.Context, *ir.Bootstrap) (Judge, error) { opened++; return judge, nil }
	mapping := func(name, prefix string) string {
		return object("Mapping", name, fmt.Sprintf(`{"hostname":"*","prefix":"/%s/","service":"s"}`, prefix))
	}
	c.deliver(c.put(listener, mapping("a", "a"), mapping("b", "b")))
	r, _ := c.deliver(c.put(mapping("a", "large-a"), mapping("c", "large-c"), mapping("d", "old")))
	if got := routesOf(r); got != "/a/ /b/ /old/" {
		t.Fatalf("served are %s", got)
	}
	judge = patient{"old"}
	c.q.Reopen()
	c.c = translators.New(translators.Options{FrontEnds: []translators.FrontEnd{emissary.New(emissary.Options{})}}) // as Pipeline.Renew does
	r, ds := c.deliver(c.s)
	if got := routesOf(r); got != "/b/ /large-a/ /large-c/" || opened != 2 || c.q.Held() != 0 {
		t.Errorf("served are %s after %d judges: %v", got, opened, ds)
	}
}
