package deploy_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/rest"

	"github.com/chancery-gateway/chancery/runtime/command"
	"github.com/chancery-gateway/chancery/runtime/deploy"
	"github.com/chancery-gateway/chancery/runtime/supervisor"
	"github.com/chancery-gateway/chancery/snapshot/kube/kubetest"
	"github.com/chancery-gateway/chancery/snapshot/porttest"
)

// asProgram lets the test binary be the program, so that tests can measure it and kill it.
const asProgram = "DEPLOY_TEST_AS_PROGRAM"

func TestMain(m *testing.M) {
	if os.Getenv(asProgram) != "" {
		os.Exit(command.Main(os.Args, os.Stdin, os.Stdout, os.Stderr))
	}
	kubetest.Main(m)
}

// buffer is written by the program while the test reads.
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

// patience is how long tests wait for what must come about.
const patience = 2 * time.Minute

// gateway is one running `chancery entrypoint` with a real Envoy.
type gateway struct {
	t testing.TB
	// host is the address that Envoy listens on.
	host         string
	port, health int
	admin        int
	state        string // the folder that outlives it
	args         []string
	env          []string
	log          *buffer
	process      *exec.Cmd
}

// entrypoint runs the program over the cluster, as the user of the configuration, until the test ends. Its Envoy listens
// on port, which a Listener of the caller's names.
func entrypoint(t testing.TB, config *rest.Config, port int, args ...string) *gateway {
	t.Helper()
	if _, err := supervisor.Find(os.Getenv("CHANCERY_ENVOY")); err != nil {
		if os.Getenv("CI") == "" {
			t.Skip(err)
		}
		t.Fatal(err)
	}
	p := porttest.Free(t, 4)
	g := &gateway{t: t, host: "127.0.0.1", port: port, health: p[0], admin: p[1], state: t.TempDir(), log: &buffer{}}
	g.args = append([]string{"entrypoint", "--bind-address", "127.0.0.1", "--health-address", "127.0.0.1", "--health-port", strconv.Itoa(g.health),
		"--admin-port", strconv.Itoa(p[1]), "--ready-port", strconv.Itoa(p[2]), "--ads-address", fmt.Sprintf("127.0.0.1:%d", p[3]), "--envoy-concurrency", "2",
		"--shutdown-grace", "1s", "--state-dir", g.state}, args...)
	for i, arg := range args {
		if arg == "--bind-address" {
			g.host = args[i+1]
		}
	}
	g.env = []string{asProgram + "=1", "KUBECONFIG=" + kubetest.Kubeconfig(t, config)}
	g.start()
	t.Cleanup(func() {
		g.stop()
		if t.Failed() {
			text := g.log.String()
			t.Logf("log:\n%s", text[max(0, len(text)-8000):])
		}
	})
	return g
}

// start starts the program.
func (g *gateway) start() {
	g.t.Helper()
	g.process = exec.Command(os.Args[0], g.args...)
	g.process.Env = append(os.Environ(), g.env...)
	g.process.Stderr = g.log
	if err := g.process.Start(); err != nil {
		g.t.Fatal(err)
	}
}

// stop ends the program in order.
func (g *gateway) stop() {
	if g.process == nil {
		return
	}
	_ = g.process.Process.Signal(syscall.SIGTERM) // it may have ended by itself
	late := time.AfterFunc(patience, func() {
		g.t.Error("the program does not end")
		_ = g.process.Process.Kill()
	})
	_ = g.process.Wait() // by a signal, in most cases
	late.Stop()
	if code := g.process.ProcessState.ExitCode(); code == 66 {
		g.t.Error("the race detector found something; the log has it")
	}
	g.process = nil
}

// kill ends the program without warning.
func (g *gateway) kill() {
	g.t.Helper()
	if err := g.process.Process.Kill(); err != nil {
		g.t.Fatal(err)
	}
	_ = g.process.Wait()
	g.process = nil
}

// memory returns the resident megabytes of the program, without its Envoy.
func (g *gateway) memory() int {
	g.t.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", g.process.Process.Pid))
	if err != nil {
		g.t.Skip(err)
	}
	m := regexp.MustCompile(`VmRSS:\s+(\d+) kB`).FindSubmatch(text)
	n, err := strconv.Atoi(string(m[1]))
	if err != nil {
		g.t.Fatal(err)
	}
	return n / 1024
}

// ready waits until requests are answered.
func (g *gateway) ready() {
	g.t.Helper()
	kubetest.Eventually(g.t, patience, "ready", func(context.Context) bool {
		r, err := http.Get(fmt.Sprintf("http://127.0.0.1:%d/ambassador/v0/check_ready", g.health))
		if err != nil {
			return false
		}
		r.Body.Close()
		return r.StatusCode == http.StatusOK
	})
}

// get asks Envoy for a path and returns status and body.
func (g *gateway) get(path string) (int, string) {
	r, err := http.Get(fmt.Sprintf("http://%s:%d%s", g.host, g.port, path))
	if err != nil {
		return 0, err.Error()
	}
	defer r.Body.Close()
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return 0, err.Error()
	}
	return r.StatusCode, string(body)
}

// answers waits until a path is answered with the status and a body that starts so.
func (g *gateway) answers(path string, status int, body string) time.Duration {
	g.t.Helper()
	return kubetest.Eventually(g.t, patience, fmt.Sprintf("%s is answered with %d %q", path, status, body), func(context.Context) bool {
		s, b := g.get(path)
		return s == status && strings.HasPrefix(b, body)
	})
}

// metrics returns the program's own measurements.
func (g *gateway) metrics() string {
	g.t.Helper()
	r, err := http.Get(fmt.Sprintf("http://127.0.0.1:%d/metrics?envoy=false", g.health))
	if err != nil {
		g.t.Fatal(err)
	}
	defer r.Body.Close()
	text, err := io.ReadAll(r.Body)
	if err != nil {
		g.t.Fatal(err)
	}
	return string(text)
}

// metric returns the value of one of the program's own metrics.
func (g *gateway) metric(name string) float64 {
	g.t.Helper()
	m := regexp.MustCompile(`(?m)^` + regexp.QuoteMeta(name) + ` (\S+)$`).FindStringSubmatch(g.metrics())
	if m == nil {
		return 0
	}
	v, err := strconv.ParseFloat(m[1], 64)
	if err != nil {
		g.t.Fatal(err)
	}
	return v
}

// quiet waits until no compile has run for a while: what a start leaves to be done is done.
func (g *gateway) quiet() {
	g.t.Helper()
	last, since := -1.0, time.Now()
	kubetest.Eventually(g.t, patience, "no compile runs", func(context.Context) bool {
		if now := g.metric("chancery_compiles_total"); now != last {
			last, since = now, time.Now()
		}
		time.Sleep(50 * time.Millisecond)
		return time.Since(since) > 1500*time.Millisecond
	})
}

// stage returns the seconds that a stage has taken so far, in all its runs.
func (g *gateway) stage(name string) float64 {
	return g.metric(`chancery_stage_duration_seconds_sum{stage="` + name + `"}`)
}

// ownAddress returns the machine's own address: the API server takes no loopback endpoints.
func ownAddress(t testing.TB) string {
	t.Helper()
	all, err := net.InterfaceAddrs()
	if err != nil {
		t.Fatal(err)
	}
	at := slices.IndexFunc(all, func(a net.Addr) bool {
		ip := a.(*net.IPNet).IP
		return ip.To4() != nil && ip.IsGlobalUnicast()
	})
	if at < 0 {
		t.Skip("the machine has no address but the loopback's")
	}
	return all[at].(*net.IPNet).IP.String()
}

// backend answers every request with its name, on the machine's own address.
func backend(t testing.TB, name string) (address string, port int) {
	t.Helper()
	address = ownAddress(t)
	l, err := net.Listen("tcp", net.JoinHostPort(address, "0"))
	if err != nil {
		t.Fatal(err)
	}
	s := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { fmt.Fprintf(w, "%s %s", name, r.URL.Path) })}
	go s.Serve(l)
	t.Cleanup(func() { s.Close() })
	return address, l.Addr().(*net.TCPAddr).Port
}

// bed returns a cluster with the definitions, and a namespace of the test's own with a Listener and an open Host.
func bed(t testing.TB) (c *kubetest.Cluster, client *kubetest.Client, ns string, port int) {
	t.Helper()
	c = kubetest.Shared(t)
	client = kubetest.NewClient(t, c.Config())
	client.Apply(string(deploy.CRDs))
	ns = strings.ToLower(strings.NewReplacer("/", "-", "_", "-").Replace(t.Name()))
	port = porttest.Free(t, 1)[0]
	client.Apply(fmt.Sprintf(`
{apiVersion: v1, kind: Namespace, metadata: {name: %[1]s}}
---
apiVersion: getambassador.io/v3alpha1
kind: Listener
metadata: {name: l, namespace: %[1]s}
spec: {port: %[2]d, protocol: HTTP, securityModel: INSECURE, hostBinding: {namespace: {from: SELF}}}
---
apiVersion: getambassador.io/v3alpha1
kind: Host
metadata: {name: h, namespace: %[1]s}
spec: {hostname: "*", requestPolicy: {insecure: {action: Route}}}
---
apiVersion: getambassador.io/v3alpha1
kind: KubernetesEndpointResolver
metadata: {name: endpoint, namespace: %[1]s}
`, ns, port))
	return c, client, ns, port
}

const oneMapping = `
apiVersion: getambassador.io/v3alpha1
kind: Mapping
metadata: {name: %[2]s, namespace: %[1]s}
spec: {hostname: "*", prefix: /%[2]s/, service: quote, resolver: endpoint, rewrite: ""}
`

const slice = `
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata: {name: %[2]s, namespace: %[1]s, labels: {kubernetes.io/service-name: quote}}
addressType: IPv4
ports: [{name: http, port: %[4]d, protocol: TCP}]
endpoints: [{addresses: [%[3]s]}]
`

// state returns status.state of an object, "" while it has none.
func state(t testing.TB, c *kubetest.Client, kind, ns, name string) string {
	t.Helper()
	o := &unstructured.Unstructured{}
	o.SetAPIVersion("getambassador.io/v3alpha1")
	o.SetKind(kind)
	o.SetNamespace(ns)
	got, err := c.Of(o).Get(t.Context(), name, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	s, _, _ := unstructured.NestedString(got.Object, "status", "state")
	return s
}

func TestFromManifestToAnswer(t *testing.T) {
	c, client, ns, port := bed(t)
	address, one := backend(t, "one")
	_, two := backend(t, "two")
	client.Apply(fmt.Sprintf(`
apiVersion: v1
kind: Service
metadata: {name: quote, namespace: %s}
spec: {ports: [{name: http, port: 80, targetPort: http}]}
`, ns) + "---" + fmt.Sprintf(slice, ns, "s", address, one))
	g := entrypoint(t, c.Config(), port, "--namespace", ns, "--single-namespace")
	g.ready()

	path, before := trace{}, g.stages()
	begun := time.Now()
	client.Apply(fmt.Sprintf(oneMapping, ns, "new"))
	applied := time.Since(begun)
	g.answers("/new/", 200, "one /new/")
	path.add(applied, time.Since(begun), before, g.stages())
	path.print(t)
	told := kubetest.Eventually(t, patience, "its status says so", func(context.Context) bool {
		return state(t, client, "Mapping", ns, "new") == "Running"
	})
	t.Logf("the status says so %s later", told.Round(10*time.Microsecond))

	t.Run("update", func(t *testing.T) {
		client.Apply(strings.Replace(fmt.Sprintf(oneMapping, ns, "new"), "/new/", "/newer/", 1))
		t.Logf("effective after %s", g.answers("/newer/", 200, "one /newer/"))
		g.answers("/new/", 404, "")
	})
	t.Run("endpoints past the compiler", func(t *testing.T) {
		g.quiet()
		compiles, fast := g.metric("chancery_compiles_total"), g.metric("chancery_endpoint_updates_total")
		stage := g.stage("endpoints")
		client.Apply(fmt.Sprintf(slice, ns, "s", address, two))
		t.Logf("effective after %s", g.answers("/newer/", 200, "two"))
		if n := g.metric("chancery_compiles_total") - compiles; n != 0 {
			t.Errorf("%v compiles ran", n)
		}
		if n := g.metric("chancery_endpoint_updates_total") - fast; n != 1 {
			t.Errorf("the fast path was taken %v times", n)
		}
		t.Logf("endpoints stage took %.3f ms", 1000*(g.stage("endpoints")-stage))
		client.Apply(fmt.Sprintf(slice, ns, "more", address, one))
		g.answers("/newer/", 200, "one")
		client.Delete(fmt.Sprintf(slice, ns, "s", address, two))
		kubetest.Eventually(t, patience, "only one is left", func(context.Context) bool {
			for range 10 {
				if _, b := g.get("/newer/"); !strings.HasPrefix(b, "one") {
					return false
				}
			}
			return true
		})
		if n := g.metric("chancery_compiles_total") - compiles; n != 0 {
			t.Errorf("%v compiles ran", n)
		}
	})
	t.Run("delete", func(t *testing.T) {
		client.Delete(fmt.Sprintf(oneMapping, ns, "new"))
		t.Logf("effective after %s", g.answers("/newer/", 404, ""))
	})
}

func TestKubestatus(t *testing.T) {
	c, client, ns, _ := bed(t)
	client.Apply(fmt.Sprintf(oneMapping, ns, "m"))
	file := filepath.Join(t.TempDir(), "status.json")
	if err := os.WriteFile(file, []byte(`{"state": "Running", "reason": "told so"}`), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, x := range []struct {
		args []string
		code int
		want string
	}{
		{[]string{"mapping", "m", "-n", ns}, 0, "mapping/m." + ns + ": null\n"},
		{[]string{"Mapping", "m", "-n", ns, "-u", file}, 0, "mapping/m." + ns + `: {"reason":"told so","state":"Running"}` + "\n"},
		{[]string{"mappings.getambassador.io", "-n", ns, "-f", "metadata.name=m"}, 0, "mapping/m." + ns + `: {"reason":"told so","state":"Running"}` + "\n"},
		{[]string{"mapping", "-n", ns, "-l", "a=b"}, 0, ""},
		{[]string{"nothing"}, 2, ""},
	} {
		cmd := exec.Command(os.Args[0], append([]string{"kubestatus"}, x.args...)...)
		cmd.Env = append(os.Environ(), asProgram+"=1", "KUBECONFIG="+kubetest.Kubeconfig(t, c.Config()))
		var errs bytes.Buffer
		cmd.Stderr = &errs
		out, err := cmd.Output()
		if cmd.ProcessState.ExitCode() != x.code || string(out) != x.want {
			t.Errorf("%q gives %d, %q, %v, %s", x.args, cmd.ProcessState.ExitCode(), out, err, errs.Bytes())
		}
	}
}
