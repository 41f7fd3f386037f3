// Package kubetest runs a real kube-apiserver and etcd for tests: one pair per test binary, made by `make servers`.
package kubetest

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"k8s.io/client-go/rest"

	"github.com/chancery-gateway/chancery/snapshot/porttest"
)

// versions names the folder that .ci/servers builds into.
const versions = "kube-1.36.3-etcd-3.6.8"

// Cluster is one API server with its etcd.
type Cluster struct {
	dir             string // of the binaries
	data            string
	api, etcd, peer int
	release         func() // gives the ports back
	etcdProcess     *process
	apiProcess      *process
	flags           []string // of the API server, beside the usual ones
}

// token is the administrator's.
const token = "administrator"

var (
	shared   *Cluster
	sharedIs sync.Once
	sharedAt error
)

// Main runs the tests of a binary and ends the cluster, if one of them asked for it. It is called from TestMain.
func Main(m *testing.M) {
	code := m.Run()
	if shared != nil {
		shared.Close()
	}
	os.Exit(code)
}

// Shared returns the cluster of this test binary. The test is skipped where the servers have not been built; in
// continuous integration (CI is set) it fails.
func Shared(t testing.TB) *Cluster {
	t.Helper()
	sharedIs.Do(func() { shared, sharedAt = Start() })
	switch {
	case errors.Is(sharedAt, errAbsent) && os.Getenv("CI") == "":
		t.Skip(sharedAt)
	case sharedAt != nil:
		t.Fatal(sharedAt)
	}
	return shared
}

var errAbsent = errors.New("kube-apiserver and etcd have not been built; `make servers` does")

// folder returns where the binaries are.
func folder() (string, error) {
	dir := os.Getenv("CHANCERY_SERVERS")
	if dir == "" {
		cache := os.Getenv("XDG_CACHE_HOME")
		if cache == "" {
			home, err := os.UserHomeDir()
			if err != nil {
				return "", err
			}
			cache = filepath.Join(home, ".cache")
		}
		dir = filepath.Join(cache, "chancery", "servers", versions)
	}
	for _, name := range []string{"etcd", "kube-apiserver"} {
		if _, err := os.Stat(filepath.Join(dir, name)); err != nil {
			return "", errAbsent
		}
	}
	return dir, nil
}

// Start starts a cluster and waits until it is ready. The API server has the flags beside the usual ones. Whoever starts
// one closes it.
func Start(flags ...string) (*Cluster, error) {
	dir, err := folder()
	if err != nil {
		return nil, err
	}
	memory := ""
	if info, err := os.Stat("/dev/shm"); err == nil && info.IsDir() {
		memory = "/dev/shm"
	}
	data, err := os.MkdirTemp(memory, "kubetest")
	if err != nil {
		return nil, err
	}
	c := &Cluster{dir: dir, data: data, flags: flags}
	if err := c.start(); err != nil {
		c.Close()
		return nil, err
	}
	return c, nil
}

func (c *Cluster) start() error {
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		return err
	}
	text := pem.EncodeToMemory(&pem.Block{Type: "RSA PRIVATE KEY", Bytes: x509.MarshalPKCS1PrivateKey(key)})
	if err := os.WriteFile(filepath.Join(c.data, "key"), text, 0o600); err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(c.data, "tokens"), []byte(token+`,administrator,administrator,"system:masters"`+"\n"), 0o600); err != nil {
		return err
	}
	ports, release, err := porttest.Reserve(3)
	if err != nil {
		return err
	}
	c.api, c.etcd, c.peer, c.release = ports[0], ports[1], ports[2], release
	if err := c.StartEtcd(); err != nil {
		return err
	}
	return c.StartAPIServer()
}

// StartEtcd starts etcd with the data it had.
func (c *Cluster) StartEtcd() (err error) {
	client, peer := "http://127.0.0.1:"+strconv.Itoa(c.etcd), "http://127.0.0.1:"+strconv.Itoa(c.peer)
	c.etcdProcess, err = run(filepath.Join(c.dir, "etcd"), "--data-dir", filepath.Join(c.data, "etcd"), "--unsafe-no-fsync", "--log-level", "error",
		"--listen-client-urls", client, "--advertise-client-urls", client, "--listen-peer-urls", peer,
		"--initial-advertise-peer-urls", peer, "--initial-cluster", "default="+peer,
		"--watch-progress-notify-interval", "5s") // as installers of clusters set it; bookmarks of quiet kinds come of it
	return err
}

// StartAPIServer starts the API server and waits until it is ready.
func (c *Cluster) StartAPIServer() (err error) {
	c.apiProcess, err = run(filepath.Join(c.dir, "kube-apiserver"), append([]string{"--etcd-servers=http://127.0.0.1:" + strconv.Itoa(c.etcd),
		"--service-account-issuer=https://kubernetes.default.svc", "--service-account-key-file=" + filepath.Join(c.data, "key"),
		"--service-account-signing-key-file=" + filepath.Join(c.data, "key"), "--secure-port=" + strconv.Itoa(c.api), "--bind-address=127.0.0.1",
		"--cert-dir=" + filepath.Join(c.data, "certificates"), "--token-auth-file=" + filepath.Join(c.data, "tokens"),
		"--authorization-mode=RBAC", "--service-cluster-ip-range=10.96.0.0/16", "--disable-admission-plugins=ServiceAccount"}, c.flags...)...)
	if err != nil {
		return err
	}
	client, err := rest.HTTPClientFor(c.Config())
	if err != nil {
		return err
	}
	ready := c.Config().Host + "/readyz"
	if slices.ContainsFunc(c.flags, func(f string) bool { return strings.HasPrefix(f, "--runtime-config=") }) {
		ready += "?exclude=informer-sync" // it waits for kinds that it is told not to serve
	}
	for deadline := time.Now().Add(5 * time.Minute); ; time.Sleep(20 * time.Millisecond) {
		if r, err := client.Get(ready); err == nil {
			r.Body.Close()
			if r.StatusCode == http.StatusOK {
				return nil
			}
		}
		if ended, err := c.apiProcess.ended(); ended {
			return fmt.Errorf("kube-apiserver ended: %w\n%s", err, c.apiProcess.output.tail())
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("kube-apiserver is not ready after 5 minutes\n%s", c.apiProcess.output.tail())
		}
	}
}

// KillAPIServer ends the API server at once.
func (c *Cluster) KillAPIServer() { c.apiProcess.kill() }

// RestartAPIServer ends the API server and starts it with these flags in place of those it had beside the usual ones.
func (c *Cluster) RestartAPIServer(flags ...string) error {
	c.KillAPIServer()
	c.flags = flags
	return c.StartAPIServer()
}

// Wipe deletes one key of etcd, as an accident would: nobody is asked.
func (c *Cluster) Wipe(key string) error {
	return c.ask("kv/deleterange", map[string][]byte{"key": []byte(key)}, nil)
}

// Compact makes etcd forget every state before the present one.
func (c *Cluster) Compact() error {
	var status struct {
		Header struct {
			Revision string `json:"revision"`
		} `json:"header"`
	}
	if err := c.ask("maintenance/status", struct{}{}, &status); err != nil {
		return err
	}
	return c.ask("kv/compaction", map[string]any{"revision": status.Header.Revision, "physical": true}, nil)
}

// ask sends etcd one request; answer is nil where nobody reads it.
func (c *Cluster) ask(what string, question, answer any) error {
	body, err := json.Marshal(question)
	if err != nil {
		return err
	}
	r, err := http.Post("http://127.0.0.1:"+strconv.Itoa(c.etcd)+"/v3/"+what, "application/json", bytes.NewReader(body))
	if err != nil {
		return err
	}
	defer r.Body.Close()
	if r.StatusCode != http.StatusOK {
		return fmt.Errorf("etcd answers %s to %s", r.Status, what)
	}
	if answer == nil {
		return nil
	}
	return json.NewDecoder(r.Body).Decode(answer)
}

// Config returns the administrator's access.
func (c *Cluster) Config() *rest.Config {
	return &rest.Config{
		Host: "https://127.0.0.1:" + strconv.Itoa(c.api), BearerToken: token, TLSClientConfig: rest.TLSClientConfig{Insecure: true},
		QPS: -1,
	}
}

// Kubeconfig writes a kubeconfig file for a configuration and returns its name.
func Kubeconfig(t testing.TB, c *rest.Config) string {
	t.Helper()
	name := filepath.Join(t.TempDir(), "kubeconfig")
	text := fmt.Sprintf(`apiVersion: v1
kind: Config
clusters: [{name: c, cluster: {server: %q, insecure-skip-tls-verify: true}}]
users: [{name: u, user: {token: %q, as: %q}}]
contexts: [{name: x, context: {cluster: c, user: u}}]
current-context: x
`, c.Host, c.BearerToken, c.Impersonate.UserName)
	if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return name
}

// Close ends both processes and removes their data.
func (c *Cluster) Close() {
	for _, p := range []*process{c.apiProcess, c.etcdProcess} {
		if p != nil {
			p.kill()
		}
	}
	if c.release != nil {
		c.release()
	}
	_ = os.RemoveAll(c.data) // a folder in memory that nobody will look for
}

// process is one server.
type process struct {
	command *exec.Cmd
	output  *ring
	done    chan struct{}
	err     error
}

func run(path string, args ...string) (*process, error) {
	p := &process{command: exec.Command(path, args...), output: &ring{}, done: make(chan struct{})}
	p.command.Stdout, p.command.Stderr = p.output, p.output
	tie(p.command)
	started := make(chan error)
	go func() {
		// A child with a death signal dies with the thread that started it, so that thread is kept for it.
		runtime.LockOSThread()
		started <- p.command.Start()
		if p.command.Process != nil {
			p.err = p.command.Wait()
		}
		close(p.done)
	}()
	return p, <-started
}

func (p *process) kill() {
	_ = p.command.Process.Kill() // it may have ended by itself
	<-p.done
}

func (p *process) ended() (bool, error) {
	select {
	case <-p.done:
		return true, p.err
	default:
		return false, nil
	}
}

// ring keeps the end of what a process wrote.
type ring struct {
	mu sync.Mutex
	b  bytes.Buffer
}

// Write implements io.Writer.
func (r *ring) Write(p []byte) (int, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.b.Len() > 1<<20 {
		r.b.Reset()
	}
	return r.b.Write(p)
}

func (r *ring) tail() []byte {
	r.mu.Lock()
	defer r.mu.Unlock()
	b := r.b.Bytes()
	return bytes.Clone(b[max(0, len(b)-4000):])
}

// Eventually waits until ok holds.
func Eventually(t testing.TB, within time.Duration, what string, ok func(context.Context) bool) time.Duration {
	t.Helper()
	return eventually(t.Context(), t, within, what, ok)
}

func eventually(ctx context.Context, t testing.TB, within time.Duration, what string, ok func(context.Context) bool) time.Duration {
	t.Helper()
	ctx, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	for begun := time.Now(); ; time.Sleep(2 * time.Millisecond) {
		if ok(ctx) {
			return time.Since(begun)
		}
		if ctx.Err() != nil {
			t.Fatalf("not within %s: %s", within, what)
		}
	}
}
