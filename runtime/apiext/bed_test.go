package apiext_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/rest"

	"github.com/chancery-gateway/chancery/runtime/apiext"
	"github.com/chancery-gateway/chancery/runtime/command"
	"github.com/chancery-gateway/chancery/runtime/deploy"
	"github.com/chancery-gateway/chancery/snapshot/kube/kubetest"
	"github.com/chancery-gateway/chancery/snapshot/porttest"
)

const child = "CHANCERY_APIEXT_CHILD"

// TestMain runs the tests, or, as a child of one, the program under the name that its first argument gives.
func TestMain(m *testing.M) {
	if os.Getenv(child) != "" {
		go func() {
			_, _ = io.Copy(io.Discard, os.Stdin) // ends with the test
			os.Exit(9)
		}()
		os.Exit(command.Main(os.Args[1:], strings.NewReader(""), os.Stdout, os.Stderr))
	}
	kubetest.Main(m)
}

// bed is an API server with Emissary's definitions, whose conversions go by a balancer to replicas of apiext.
type bed struct {
	*kubetest.Cluster
	client *kubetest.Client
	*balancer
}

var (
	laid   *bed
	laying sync.Mutex
)

// bedOf returns the bed of this test binary, which its tests use one after the other.
func bedOf(t *testing.T) *bed {
	t.Helper()
	laying.Lock()
	defer laying.Unlock()
	c := kubetest.Shared(t)
	client := kubetest.NewClient(t, c.Config())
	if laid == nil {
		b := &balancer{}
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		b.port = l.Addr().(*net.TCPAddr).Port
		go b.serve(l)
		manifest, err := deploy.Apiext(command.Version)
		if err != nil {
			t.Fatal(err)
		}
		client.Apply(reached(t, manifest, b.port))
		laid = &bed{Cluster: c, balancer: b}
	}
	laid.client = client
	laid.keep(nil)
	return laid
}

// reached returns the manifest with the Service on this machine: the API server is outside of the cluster's network.
func reached(t *testing.T, manifest []byte, port int) string {
	t.Helper()
	var out strings.Builder
	for _, o := range kubetest.Objects(t, manifest) {
		var err error
		switch o.GetKind() {
		case "Service":
			err = unstructured.SetNestedMap(o.Object, map[string]any{"type": "ExternalName", "externalName": "localhost"}, "spec")
		case "CustomResourceDefinition":
			if _, converted, _ := unstructured.NestedMap(o.Object, "spec", "conversion"); converted {
				err = unstructured.SetNestedField(o.Object, int64(port), "spec", "conversion", "webhook", "clientConfig", "service", "port")
			}
		}
		if err != nil {
			t.Fatal(err)
		}
		text, err := o.MarshalJSON()
		if err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(&out, "---\n%s\n", text)
	}
	return out.String()
}

// account is the access of apiext's ServiceAccount.
func (b *bed) account() *rest.Config {
	config := b.Config()
	config.Impersonate = rest.ImpersonationConfig{UserName: "system:serviceaccount:emissary-system:emissary-apiext"}
	return config
}

// replica is a process of apiext.
type replica struct {
	t               *testing.T
	process         *exec.Cmd
	reviews, probes string
	log             *record
	done            chan struct{}
}

// record keeps what a process wrote.
type record struct {
	mu sync.Mutex
	b  bytes.Buffer
}

// Write implements io.Writer.
func (r *record) Write(p []byte) (int, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.b.Write(p)
}

func (r *record) String() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.b.String()
}

func freePort(t *testing.T) string {
	t.Helper()
	return fmt.Sprintf("127.0.0.1:%d", porttest.Free(t, 1)[0])
}

// patience is how long tests wait for what must come about.
const patience = 2 * time.Minute

// startAs starts the program with the arguments, its own name first.
func (b *bed) startAs(t *testing.T, config *rest.Config, environment []string, args ...string) *replica {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	r := &replica{t: t, process: exec.Command(self, args...), log: &record{}, done: make(chan struct{})}
	r.process.Env = append(append(os.Environ(), child+"=1", "KUBECONFIG="+kubetest.Kubeconfig(t, config), "POD_NAMESPACE=emissary-system"), environment...)
	r.process.Stdout, r.process.Stderr = r.log, r.log
	input, err := r.process.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := r.process.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		_ = r.process.Wait() // it may be killed
		close(r.done)
	}()
	t.Cleanup(func() {
		_ = r.process.Process.Kill()
		<-r.done
		_ = input.Close()
	})
	return r
}

// apiext starts a replica and waits until it is ready and the balancer has it.
func (b *bed) apiext(t *testing.T, environment ...string) *replica {
	t.Helper()
	reviews, probes := freePort(t), freePort(t)
	r := b.startAs(t, b.account(), environment, "apiext", "emissary-apiext", "--address", reviews, "--probe-address", probes)
	r.reviews, r.probes = reviews, probes
	b.add(backend{reviews, probes})
	r.ready()
	return r
}

func (r *replica) ready() {
	r.t.Helper()
	kubetest.Eventually(r.t, patience, "the replica is ready", func(context.Context) bool {
		select {
		case <-r.done:
			r.t.Fatalf("the replica ended:\n%s", r.log)
		default:
		}
		return probe(r.probes) == nil
	})
}

// probe asks the probe of readiness.
func probe(address string) error {
	client := http.Client{Timeout: 20 * time.Second} // of a machine that is slow; whoever has ended answers at once
	answer, err := client.Get("http://" + address + "/probes/ready")
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	if err != nil {
		return err
	}
	if answer.StatusCode != http.StatusOK {
		return fmt.Errorf("%s: %s", answer.Status, text)
	}
	return nil
}

// balancer leads connections to backends that are ready, as a Service does.
type balancer struct {
	port int

	mu       sync.Mutex
	backends []backend
	next     int
}

type backend struct{ reviews, probes string }

func (b *balancer) add(x backend) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.backends = append(b.backends, x)
}

// keep forgets all backends but these.
func (b *balancer) keep(some []backend) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.backends = some
}

func (b *balancer) serve(l net.Listener) {
	for {
		c, err := l.Accept()
		if err != nil {
			return
		}
		go b.lead(c)
	}
}

func (b *balancer) lead(c net.Conn) {
	defer c.Close()
	b.mu.Lock()
	b.next++
	all, first := slices.Clone(b.backends), b.next
	b.mu.Unlock()
	for i := range all {
		x := all[(first+i)%len(all)]
		if x.probes != "" && probe(x.probes) != nil {
			continue
		}
		to, err := net.Dial("tcp", x.reviews)
		if err != nil {
			continue
		}
		defer to.Close()
		ended := make(chan struct{}, 2)
		for _, pair := range [][2]net.Conn{{to, c}, {c, to}} {
			go func() {
				_, _ = io.Copy(pair[0], pair[1])
				ended <- struct{}{}
			}()
		}
		<-ended
		return
	}
}

// inProcess starts a server inside of the test, with a clock of its own.
func (b *bed) inProcess(t *testing.T, now func() time.Time) *apiext.Server {
	t.Helper()
	s, err := apiext.New(b.account(), apiext.Service, apiext.Namespace, slog.New(slog.NewTextHandler(t.Output(), nil)))
	if err != nil {
		t.Fatal(err)
	}
	s.Authority.Now, s.Every, s.Drain = now, 6*time.Second, 10*time.Millisecond // the API server has half of that to notice
	return s
}

// converts waits until the API server has objects converted by whoever the definition of a kind names now.
func (b *bed) converts(t *testing.T, o *unstructured.Unstructured) {
	t.Helper()
	var err error
	kubetest.Eventually(t, patience, "the definition leads to a replica", func(context.Context) bool {
		_, err = b.client.TryApply(o)
		return err == nil || !strings.Contains(err.Error(), "conversion webhook")
	})
	if err != nil {
		t.Fatalf("%s %s: %v", o.GetKind(), o.GetName(), err)
	}
}

// serve serves until the test ends.
func (b *bed) serveIn(t *testing.T, s *apiext.Server) {
	t.Helper()
	var listeners []net.Listener
	for range 2 {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		listeners = append(listeners, l)
	}
	ctx, end := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- s.Serve(ctx, listeners[0], listeners[1]) }()
	t.Cleanup(func() {
		end()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	b.add(backend{listeners[0].Addr().String(), listeners[1].Addr().String()})
	kubetest.Eventually(t, patience, "the server is ready", func(context.Context) bool { return s.Ready() == nil })
}

// term asks a replica to end and waits for that.
func (r *replica) term() {
	r.t.Helper()
	if err := r.process.Process.Signal(syscall.SIGTERM); err != nil {
		r.t.Fatal(err)
	}
	select {
	case <-r.done:
	case <-time.After(patience):
		r.t.Fatal("the replica does not end")
	}
	if code := r.process.ProcessState.ExitCode(); code != 0 {
		r.t.Errorf("exit code %d:\n%s", code, r.log)
	}
}
