package validator

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	endpointv3 "github.com/envoyproxy/go-control-plane/envoy/config/endpoint/v3"
	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	hcmv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/http_connection_manager/v3"
	discovery "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/chancery-gateway/chancery/snapshot"
	"github.com/chancery-gateway/chancery/translators"
	"github.com/chancery-gateway/chancery/translators/envoy"
	"github.com/chancery-gateway/chancery/translators/ir"
)

// hand holds the guilty resources of the sound program as messages, for a fault to be written into them as a module would.
type hand struct {
	cluster   *clusterv3.Cluster
	endpoints *endpointv3.ClusterLoadAssignment
	routes    *routev3.RouteConfiguration
	host      *routev3.VirtualHost
	route     *routev3.Route
	action    *routev3.RouteAction
	listener  *listenerv3.Listener
	chain     *listenerv3.FilterChain
	manager   *hcmv3.HttpConnectionManager
	// added are further resources; gone is the type of which the guilty resource is taken away, "" for none.
	added []proto.Message
	gone  string
	// text, which may be nil, changes the JSON of every resource.
	text func(string) string
}

// filter puts an HTTP filter before the router.
func (h *hand) filter(name string, config proto.Message) {
	n := len(h.manager.HttpFilters) - 1
	h.manager.HttpFilters = slices.Insert(h.manager.HttpFilters, n, &hcmv3.HttpFilter{Name: name, ConfigType: &hcmv3.HttpFilter_TypedConfig{TypedConfig: packed(config)}})
}

// moduleRun writes one fault into the resources of a program, as the module host does (runtime/modules).
type moduleRun struct {
	program *ir.Program
	put     func(*hand)
	// raw are the resources with the fault, whatever the rules say of them; lost are those that must not be served.
	raw     ir.ResourceSet
	lost    map[resourceName]bool
	written map[string]*ir.Resource // the last that was made of a text, as the module host keeps them
}

type resourceName struct{ url, name string }

// Begin, Fresh, Lower, Link, Emit, Refused and End implement translators.Extender and translators.Extension.
func (m *moduleRun) Begin() translators.Extension { return m }

func (m *moduleRun) Fresh() bool { return false }

func (m *moduleRun) Lower(*snapshot.Snapshot, func(snapshot.GroupKind) bool) translators.Lowered {
	return translators.Lowered{}
}

func (m *moduleRun) Link(*snapshot.Snapshot, *ir.Program) (*ir.Program, []snapshot.Diagnostic) {
	return m.program, nil
}

func (m *moduleRun) End() [][]translators.Written { return nil }

func (m *moduleRun) Refused(r *ir.Resource, text string) []snapshot.Diagnostic {
	m.lost[resourceName{r.Type, r.Name}] = true
	var out []snapshot.Diagnostic
	for _, o := range r.Origins {
		out = append(out, snapshot.Diagnostic{Severity: snapshot.Error, Code: codeWritten, Object: o, Message: text})
	}
	return out
}

var codeWritten = snapshot.NewCode("CH-TEST-001", "a written resource is not served", "In tests only.", "None.")

func decode[M proto.Message](set ir.ResourceSet, url, name string, m M) M {
	for _, r := range set[url] {
		if r.Name == name {
			if err := proto.Unmarshal(r.Value, m); err != nil {
				panic(err) // our own bytes
			}
		}
	}
	return m
}

func (m *moduleRun) Emit(_ *snapshot.Snapshot, set ir.ResourceSet) (ir.ResourceSet, []snapshot.Diagnostic) {
	h := &hand{
		cluster:   decode(set, ir.TypeCluster, "guilty", &clusterv3.Cluster{}),
		endpoints: decode(set, ir.TypeEndpoint, "guilty", &endpointv3.ClusterLoadAssignment{}),
		routes:    decode(set, ir.TypeRouteConfig, "routes", &routev3.RouteConfiguration{}),
		listener:  decode(set, ir.TypeListener, "guilty", &listenerv3.Listener{}),
		manager:   &hcmv3.HttpConnectionManager{},
	}
	h.host, h.chain = h.routes.VirtualHosts[0], h.listener.FilterChains[0]
	h.route = h.host.Routes[0]
	h.action = h.route.GetRoute()
	if err := h.chain.Filters[0].GetTypedConfig().UnmarshalTo(h.manager); err != nil {
		panic(err)
	}
	m.put(h)
	if len(h.listener.FilterChains) > 0 && h.listener.FilterChains[0] == h.chain && len(h.chain.Filters) == 1 && strings.HasSuffix(h.chain.Filters[0].GetTypedConfig().GetTypeUrl(), "HttpConnectionManager") {
		h.chain.Filters[0].GetTypedConfig().Value = encoded(h.manager)
	}
	final := ir.ResourceSet{}
	for url, rs := range set {
		final[url] = slices.DeleteFunc(slices.Clone(rs), func(r *ir.Resource) bool {
			return url == h.gone && (r.Name == "guilty" || r.Name == "routes")
		})
	}
	m.raw, m.lost = ir.ResourceSet{}, map[resourceName]bool{}
	var found []snapshot.Diagnostic
	for _, x := range append([]proto.Message{h.cluster, h.endpoints, h.routes, h.listener}, h.added...) {
		if typeOf(x) == h.gone {
			continue
		}
		if ds := m.write(final, x, h.text); ds != nil {
			found = append(found, ds...)
		}
	}
	return final, found
}

// write puts a message into the set, unless the rules have something against it.
func (m *moduleRun) write(set ir.ResourceSet, x proto.Message, change func(string) string) []snapshot.Diagnostic {
	url := typeOf(x)
	text, err := protojson.MarshalOptions{AllowPartial: true}.Marshal(x)
	if err != nil {
		panic(err)
	}
	if change != nil {
		text = []byte(change(string(text)))
	}
	name := nameOf(x)
	i := slices.IndexFunc(set[url], func(r *ir.Resource) bool { return r.Name == name })
	if i >= 0 && change == nil {
		if a, b := textOf(set[url][i]), textOf(&ir.Resource{Type: url, Value: encoded(x)}); a == b {
			return nil
		}
	}
	if change == nil {
		m.raw[url] = append(m.raw[url], &ir.Resource{Type: url, Name: name, Value: encoded(x), Origins: by})
	}
	r, err := envoy.Parse(url, text, by)
	if err != nil {
		m.lost[resourceName{url, name}] = true
		d := snapshot.Diagnostic{Severity: snapshot.Error, Code: codeWritten, Object: who, Message: err.Error()}
		var rule *envoy.Violation
		if errors.As(err, &rule) {
			d.Code = rule.Code
		}
		return []snapshot.Diagnostic{d}
	}
	if i >= 0 && set[url][i].Version == r.Version {
		return nil
	}
	if was := m.written[r.Version+r.Name]; was != nil {
		r = was
	} else if m.written == nil {
		m.written = map[string]*ir.Resource{}
	}
	m.written[r.Version+r.Name] = r
	if i >= 0 {
		set[url][i] = r
	} else {
		set[url] = append(set[url], r)
		slices.SortFunc(set[url], func(a, b *ir.Resource) int { return strings.Compare(a.Name, b.Name) })
	}
	return nil
}

func textOf(r *ir.Resource) string {
	text, err := envoy.Text(r)
	if err != nil {
		panic(err) // our own types
	}
	return string(text)
}

func typeOf(m proto.Message) string {
	return "type.googleapis.com/" + string(m.ProtoReflect().Descriptor().FullName())
}

func nameOf(m proto.Message) string {
	if a, ok := m.(*endpointv3.ClusterLoadAssignment); ok {
		return a.ClusterName
	}
	return m.(interface{ GetName() string }).GetName()
}

// writtenFault is one fault that a module could write into a resource.
type writtenFault struct {
	name string
	// finder is who finds it, and found what it says: for a rule its code, path and text.
	finder, found string
	// envoy is what a real Envoy answers when it is shown the fault, as a regular expression; "" when it takes it without a word.
	envoy string
	put   func(*hand)
}

const (
	// ends and hangs stand in place of Envoy's answer for what it does not survive, notAsked for what cannot be shown.
	ends, hangs, notAsked = "(ends)", "(hangs)", "(not asked)"
)

// TestWrittenFaults puts the faults that no object of ours can express into resources, as a module of the last phase could: each
// is found by a rule or by the validating Envoy, or does no harm; what a real Envoy says to it alone is shown beside.
func TestWrittenFaults(t *testing.T) {
	cert, key := pairOf(t)
	_, otherKey := pairOf(t)
	v := open(t, nil)
	impatient := open(t, func(o *Options) { o.Deadline = 50 * time.Millisecond }) // for what certainly hangs
	found := map[string]int{}
	faults := slices.Concat(writtenRoutes(), writtenListeners(t, cert, key, otherKey), writtenUpstreams())
	for _, f := range faults {
		t.Run(f.name, func(t *testing.T) {
			s := newSound(cert, key)
			m := &moduleRun{program: s.Program, put: f.put}
			before := envoy.NewEmitter(envoy.Options{}).Emit(s.Program)
			c := translators.New(translators.Options{Extender: m})
			empty := snapshot.Empty()
			r := c.Compile(empty)
			finder, text := harmless, ""
			if len(r.Diagnostics) > 0 {
				finder, text = rule, fmt.Sprint(r.Diagnostics[0].Code.ID, " ", r.Diagnostics[0].Message)
			}
			for round := 0; ; round++ {
				verdicts := judge(t, v, r.Changed...)
				if len(verdicts.Refused) == 0 {
					break
				}
				for u, said := range verdicts.Refused {
					text = said
					if !slices.Contains(u.Origins, who) {
						t.Errorf("%s %q is blamed on %v", u.Kind, u.Name, u.Origins)
					}
				}
				finder = asked
				if round == 5 {
					t.Fatalf("no end: %v", verdicts.Refused)
				}
				c.Refuse(verdicts.Refused)
				r = c.Compile(empty)
			}
			if finder != f.finder || !regexp.MustCompile(f.found).MatchString(text) {
				t.Errorf("found by %s: %q; want %s: %q", finder, text, f.finder, f.found)
			}
			found[finder]++
			if finder != harmless && !slices.ContainsFunc(r.Diagnostics, func(d snapshot.Diagnostic) bool { return d.Object == who }) {
				t.Errorf("nothing is said about the guilty object: %v", r.Diagnostics)
			}
			if (finder == harmless) != (len(m.lost) == 0) {
				t.Errorf("found by %s, and not served is %v", finder, m.lost)
			}
			for n := range m.lost { // as it would be without the module
				if a, b := versionOf(r.Resources, n), versionOf(before.Resources, n); a != b {
					t.Errorf("%v is served in version %q, which was %q", n, a, b)
				}
			}
			if refused := whole(t, v, r.Resources); len(refused) > 0 {
				t.Errorf("as a whole, Envoy refuses what is left: %v", refused)
			}
			if f.envoy == hangs {
				answer(t, impatient, m.raw, f.envoy)
			} else {
				answer(t, v, m.raw, f.envoy)
			}
		})
	}
	t.Logf("%d faults: %v", len(faults), found)
}

func versionOf(set ir.ResourceSet, n resourceName) string {
	for _, r := range set[n.url] {
		if r.Name == n.name {
			return r.Version
		}
	}
	return ""
}

// answer shows a real Envoy the fault as it is, past all rules, and compares what it says.
func answer(t *testing.T, v *Validator, raw ir.ResourceSet, want string) {
	t.Helper()
	switch want {
	case notAsked:
	case ends, hangs:
		said := ""
		for _, rs := range raw {
			for _, r := range rs {
				for _, u := range envoy.Pieces(r) {
					if text := fate(t, v, u); text != "" {
						said = text
					}
				}
			}
		}
		if pattern := map[string]string{ends: "Envoy ends when", hangs: "does not answer any more"}[want]; !strings.Contains(said, pattern) {
			t.Errorf("a real Envoy: %q, want %q", said, pattern)
		}
	default:
		var said []string
		for _, text := range whole(t, v, raw) {
			said = append(said, text)
		}
		if text := strings.Join(said, "\n"); (text == "") != (want == "") || !regexp.MustCompile(want).MatchString(text) {
			t.Errorf("a real Envoy says %q, want %q", text, want)
		}
	}
}

// fate shows Envoy a unit without looking into it before, and returns the verdict.
func fate(t *testing.T, v *Validator, u *ir.Unit) string {
	t.Helper()
	v.turn.Lock()
	defer v.turn.Unlock()
	j := &judgement{v: v, ctx: t.Context(), out: Verdicts{Refused: map[*ir.Unit]string{}}}
	if err := j.lockstep([]*candidate{{unit: u, key: key{1}, inspection: inspection{files: true}}}); err != nil {
		t.Fatal(err)
	}
	return j.out.Refused[u]
}

// TestOneAddressTwice: Envoy refuses a second listener of the same address, also one that does not bind. Our rule keeps it from that.
func TestOneAddressTwice(t *testing.T) {
	v := open(t, nil)
	if err := v.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	c := v.child
	ask := func(l *listenerv3.Listener) string {
		p := &probe{answered: make(chan struct{}), budget: v.options.budget(1)}
		if err := c.send(&discovery.DeltaDiscoveryResponse{TypeUrl: ir.TypeListener, Resources: []*discovery.Resource{resource(ir.TypeListener, l.Name, encoded(l))}}, p); err != nil {
			t.Fatal(err)
		}
		if !c.wait(p) {
			t.Fatalf("Envoy ended: %s", c.exit)
		}
		return p.refusal
	}
	listener := func(name string, port uint32) *listenerv3.Listener {
		l := mustListener(head(name, "192.0.2.1", port))
		l.FilterChains = []*listenerv3.FilterChain{{}}
		if err := proto.Unmarshal(c.good.chain, l.FilterChains[0]); err != nil {
			t.Fatal(err)
		}
		return l
	}
	if text := ask(listener("one", 80)); text != "" {
		t.Fatal(text)
	}
	if text := ask(listener("elsewhere", 81)); text != "" {
		t.Error(text)
	}
	silent := listener("three", 80)
	silent.BindToPort = wrapperspb.Bool(false)
	for _, l := range []*listenerv3.Listener{listener("two", 80), silent} {
		if text := ask(l); !strings.Contains(text, "duplicate address") {
			t.Errorf("listener %q: %q", l.Name, text)
		}
	}
}
