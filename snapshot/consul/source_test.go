package consul_test

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chancery-gateway/chancery/snapshot"
	"github.com/chancery-gateway/chancery/snapshot/api/v3alpha1"
	"github.com/chancery-gateway/chancery/snapshot/consul"
	"github.com/chancery-gateway/chancery/snapshot/consul/consultest"
	"github.com/chancery-gateway/chancery/snapshot/files"
)

// bed is a source over a folder of manifests.
type bed struct {
	t   testing.TB
	dir string
	log *buffer

	mu  sync.Mutex
	all []*snapshot.Snapshot
}

type buffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (x *buffer) Write(p []byte) (int, error) {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.b.Write(p)
}

func (x *buffer) String() string {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.b.String()
}

// byName is the resolver of a Mapping's name in its own namespace.
func byName(s *snapshot.Snapshot, o *snapshot.Object) (*snapshot.Object, string) {
	spec, ok := o.Spec.(*v3alpha1.MappingSpec)
	if !ok || spec.Resolver == "" {
		return nil, ""
	}
	return s.Get(v3alpha1.KindConsulResolver, o.Namespace, spec.Resolver), spec.Service
}

// patient waits for whatever an agent says, however slow the machine is.
var patient = consul.Options{First: 2 * time.Minute, Later: 2 * time.Minute}

// start runs a source over manifests until the test ends.
func start(t testing.TB, o consul.Options, manifests string) *bed {
	t.Helper()
	b := &bed{t: t, dir: t.TempDir(), log: &buffer{}}
	b.write("a.yaml", manifests)
	inner, err := files.New([]string{b.dir}, files.Options{})
	if err != nil {
		t.Fatal(err)
	}
	o.Want, o.Logger = byName, slog.New(slog.NewTextHandler(b.log, nil))
	source := consul.New(inner, o)
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() {
		ended <- source.Run(ctx, func(s *snapshot.Snapshot) {
			b.mu.Lock()
			defer b.mu.Unlock()
			b.all = append(b.all, s)
		})
	}()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
		if t.Failed() {
			t.Log(b.log.String())
		}
	})
	return b
}

// write puts a whole file in place of another: nobody reads half of it.
func (b *bed) write(name, text string) {
	b.t.Helper()
	if err := os.WriteFile(b.dir+".new", []byte(text), 0o600); err != nil {
		b.t.Fatal(err)
	}
	if err := os.Rename(b.dir+".new", filepath.Join(b.dir, name)); err != nil {
		b.t.Fatal(err)
	}
}

// snapshots returns all that were delivered.
func (b *bed) snapshots() []*snapshot.Snapshot {
	b.mu.Lock()
	defer b.mu.Unlock()
	return slices.Clone(b.all)
}

// addresses returns the endpoints of a service in the newest snapshot, as "address:port", joined.
func (b *bed) addresses(resolver, service string) string {
	all := b.snapshots()
	if len(all) == 0 {
		return "no snapshot"
	}
	return addresses(all[len(all)-1], resolver, service)
}

func addresses(s *snapshot.Snapshot, resolver, service string) string {
	var out []string
	for o := range s.EndpointSlices("default", snapshot.ConsulSlices(resolver, service)) {
		slice := o.Spec.(*snapshot.EndpointSlice)
		for _, e := range slice.Endpoints {
			out = append(out, fmt.Sprintf("%s:%d", e.Addresses[0], slice.Ports[0].Port))
		}
	}
	slices.Sort(out)
	return strings.Join(out, " ")
}

func (b *bed) until(resolver, service, want string) {
	b.t.Helper()
	consultest.Eventually(b.t, fmt.Sprintf("%s by %s is %q, now %q", service, resolver, want, b.addresses(resolver, service)),
		func() bool { return b.addresses(resolver, service) == want })
}

// found returns the findings of the newest snapshot, as "severity code object: message".
func (b *bed) found() []string {
	var out []string
	if all := b.snapshots(); len(all) > 0 {
		for _, d := range all[len(all)-1].Findings() {
			out = append(out, fmt.Sprintf("%s %s %s: %s", d.Severity, d.Code.ID, d.Object, d.Message))
		}
	}
	return out
}

func (b *bed) finds(what string) {
	b.t.Helper()
	consultest.Eventually(b.t, "finding "+what, func() bool {
		return slices.ContainsFunc(b.found(), func(text string) bool { return strings.Contains(text, what) })
	})
}

func (b *bed) findsNothing() {
	b.t.Helper()
	consultest.Eventually(b.t, "no finding", func() bool { return len(b.found()) == 0 })
}

func mapping(name, resolver, service string) string {
	return fmt.Sprintf("---\n{apiVersion: getambassador.io/v3alpha1, kind: Mapping, metadata: {name: %s}, spec: {hostname: \"*\", prefix: /%s/, service: %s, resolver: %s}}\n", name, name, service, resolver)
}

func TestInstancesOfRealConsulArrive(t *testing.T) {
	a := consultest.Start(t, "dc12")
	a.Register("quote", "q1", "127.0.0.1", "10.0.0.1", 8001, true)
	a.Register("quote", "q2", "", "10.0.0.2", 8002, true)
	a.Register("quote", "q3", "127.0.0.3", "10.0.0.3", 8003, false)
	b := start(t, patient, a.Resolver("default", "dc")+mapping("q", "dc", "quote")+mapping("e", "dc", "empty"))
	const want = "10.0.0.2:8002 127.0.0.1:8001"
	b.until("dc", "quote", want)
	if first := b.snapshots()[0]; addresses(first, "dc", "quote") != want || first.Get(v3alpha1.KindMapping, "default", "e") == nil {
		t.Errorf("the first snapshot has %q", addresses(first, "dc", "quote"))
	}
	b.findsNothing()

	a.Register("quote", "q3", "127.0.0.3", "10.0.0.3", 8003, true)
	b.until("dc", "quote", "10.0.0.2:8002 127.0.0.1:8001 127.0.0.3:8003")
	a.Register("quote", "q1", "127.0.0.1", "10.0.0.1", 8001, false)
	b.until("dc", "quote", "10.0.0.2:8002 127.0.0.3:8003")
	a.Deregister("q2")
	b.until("dc", "quote", "127.0.0.3:8003")
	a.Register("quote", "q4", "::1", "10.0.0.4", 8003, true)
	b.until("dc", "quote", "127.0.0.3:8003 ::1:8003")
	a.Deregister("q3")
	a.Deregister("q4")
	b.until("dc", "quote", "") // the agent says so, so it is believed

	// Each change is a change of endpoints alone.
	all := b.snapshots()
	for i := 1; i < len(all); i++ {
		for _, c := range all[i].Changes(all[i-1]) {
			if c.Ref().GroupKind() != snapshot.KindEndpointSlice {
				t.Errorf("snapshot %d changes %s", i, c.Ref())
			}
		}
	}

	// A service that is new in a running source is there with the snapshot that asks for it.
	a.Register("late", "l1", "127.0.0.9", "10.0.0.9", 9000, true)
	b.write("b.yaml", mapping("l", "dc", "late"))
	b.until("dc", "late", "127.0.0.9:9000")
	for _, s := range b.snapshots() {
		if s.Get(v3alpha1.KindMapping, "default", "l") != nil && addresses(s, "dc", "late") == "" {
			t.Error("a snapshot has the Mapping without its endpoints")
		}
	}
	b.write("b.yaml", "")
	b.until("dc", "late", "")
}

func TestLastAnswerStaysWithoutTheAgent(t *testing.T) {
	a := consultest.Start(t, "dc1")
	a.Register("quote", "q1", "127.0.0.1", "10.0.0.1", 8001, true)
	b := start(t, patient, a.Resolver("default", "dc")+mapping("q", "dc", "quote"))
	b.until("dc", "quote", "127.0.0.1:8001")
	a.Kill()
	b.finds(`warning CH-CONSUL-002 ConsulResolver/default/dc: no answer about service "quote"`)
	b.finds("connection refused; what it said last stays in force")
	// Findings and other objects come and go meanwhile; the endpoints stay.
	b.write("b.yaml", "{apiVersion: v1, kind: Service, metadata: {name: other}, spec: {ports: [{port: 80}]}}")
	consultest.Eventually(t, "the Service is there", func() bool {
		all := b.snapshots()
		return all[len(all)-1].Get(snapshot.KindService, "default", "other") != nil
	})
	n := len(b.snapshots())
	time.Sleep(1500 * time.Millisecond)
	if more := len(b.snapshots()) - n; more > 0 {
		t.Errorf("%d snapshots say nothing new while the agent is away", more)
	}
	for i, s := range b.snapshots() {
		if got := addresses(s, "dc", "quote"); got != "127.0.0.1:8001" {
			t.Errorf("snapshot %d has %q", i, got)
		}
	}
	// Its successor knows nothing, counts from the beginning, and is believed.
	a.Restart()
	b.findsNothing()
	b.until("dc", "quote", "")
	a.Register("quote", "q2", "127.0.0.2", "10.0.0.2", 8002, true)
	b.until("dc", "quote", "127.0.0.2:8002")
}

func TestResolversDoNotMix(t *testing.T) {
	one, two := consultest.Start(t, "dc1"), consultest.Start(t, "dc2")
	one.Register("quote", "q", "127.0.0.1", "10.0.0.1", 8001, true)
	two.Register("quote", "q", "127.0.0.2", "10.0.0.1", 8002, true)
	t.Setenv("CONSUL_OF_TEST", two.Address)
	b := start(t, patient, one.Resolver("default", "one")+"---\n"+
		"{apiVersion: getambassador.io/v3alpha1, kind: ConsulResolver, metadata: {name: two}, spec: {address: \"http://${CONSUL_OF_TEST}\"}}\n"+
		mapping("a", "one", "quote")+mapping("b", "two", "quote"))
	b.until("one", "quote", "127.0.0.1:8001")
	b.until("two", "quote", "127.0.0.2:8002")
	// An edit of a resolver leaves what was known in force until the other agent has answered.
	b.write("a.yaml", two.Resolver("default", "one")+mapping("a", "one", "quote"))
	b.until("one", "quote", "127.0.0.2:8002")
	for i, s := range b.snapshots() {
		if addresses(s, "one", "quote") == "" {
			t.Errorf("snapshot %d has no endpoints of the edited resolver", i)
		}
	}
	b.until("two", "quote", "")
}

func TestWhatIsWrongIsSaidOnTheResolver(t *testing.T) {
	a := consultest.Start(t, "dc1")
	a.Register("broken", "b1", "no-such-host.invalid", "10.0.0.1", 8001, true)
	a.Register("broken", "b2", "127.0.0.2", "10.0.0.2", 0, true)
	a.Register("broken", "b3", "localhost", "10.0.0.3", 8003, true)
	resolver := "---\n{apiVersion: getambassador.io/v3alpha1, kind: ConsulResolver, metadata: {name: %s}, spec: {address: %q, datacenter: %q}}\n"
	b := start(t, consul.Options{First: 3 * time.Second}, fmt.Sprintf(resolver, "unset", "$NO_SUCH_VARIABLE:8500", "dc1")+
		fmt.Sprintf(resolver, "elsewhere", a.Address, "dc9")+fmt.Sprintf(resolver, "scheme", "ftp://x", "dc1")+a.Resolver("default", "dc")+
		mapping("a", "unset", "quote")+mapping("b", "elsewhere", "quote")+mapping("c", "dc", "broken")+mapping("d", "scheme", "quote"))
	b.finds("error CH-CONSUL-001 ConsulResolver/default/unset: environment variable NO_SUCH_VARIABLE")
	b.finds("error CH-CONSUL-002 ConsulResolver/default/elsewhere: no answer about service \"quote\": 500 Internal Server Error: No path to datacenter; no endpoint of it is known")
	b.finds("error CH-CONSUL-001 ConsulResolver/default/scheme: \"ftp://x\" is no address of a Consul agent")
	b.finds("warning CH-CONSUL-003 ConsulResolver/default/dc: service \"broken\": instance \"b1\" is left out: host name")
	b.finds("instance \"b2\" is left out: 0 is no port")
	if got := b.addresses("dc", "broken"); !strings.Contains(got, "127.0.0.1:8003") {
		t.Errorf("the instance with a host name is at %q", got)
	}
}

// An agent that accepts and says nothing must not keep everything else from starting.
func TestSilentAgentHoldsNobodyUp(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	b := start(t, consul.Options{First: 200 * time.Millisecond}, fmt.Sprintf(
		"{apiVersion: getambassador.io/v3alpha1, kind: ConsulResolver, metadata: {name: dc}, spec: {address: %q, datacenter: dc1}}\n", l.Addr())+mapping("q", "dc", "quote"))
	b.finds("warning CH-CONSUL-002 ConsulResolver/default/dc: no answer about service \"quote\" yet")
	if s := b.snapshots()[0]; s.Get(v3alpha1.KindMapping, "default", "q") == nil {
		t.Error("the first snapshot lacks the Mapping")
	}
}

// Without a ConsulResolver the inner source's snapshots pass as they are.
func TestNoResolverCostsNothing(t *testing.T) {
	b := start(t, consul.Options{}, mapping("q", "dc", "quote"))
	consultest.Eventually(t, "a snapshot", func() bool { return len(b.snapshots()) > 0 })
	first := b.snapshots()[0]
	if first.Get(v3alpha1.KindMapping, "default", "q") == nil || len(first.Findings()) > 0 {
		t.Error(first.Findings())
	}
	b.write("b.yaml", mapping("r", "dc", "quote"))
	consultest.Eventually(t, "another", func() bool { return len(b.snapshots()) > 1 })
	if changes := b.snapshots()[1].Changes(first); len(changes) != 1 || changes[0].Ref().Name != "r" {
		t.Errorf("changes %v", changes)
	}
}
