package endtoend

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	running "github.com/chancery-gateway/chancery/runtime/gateway"
	"github.com/chancery-gateway/chancery/runtime/supervisor"
	"github.com/chancery-gateway/chancery/snapshot/porttest"
	"github.com/chancery-gateway/chancery/xds"
)

// oldestEnvoy returns the oldest supported Envoy, which `make envoy` puts into .cache/oldest.
func oldestEnvoy(t *testing.T) string {
	t.Helper()
	path, err := filepath.Abs("../../.cache/oldest/envoy/_bin/envoy")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(path); err != nil {
		t.Fatalf("%v; `make envoy` fetches it", err)
	}
	if version, err := supervisor.Version(t.Context(), path); err != nil || !strings.HasPrefix(version, "1.36.") {
		t.Fatalf("%s is Envoy %s, %v", path, version, err)
	}
	return path
}

// overview is what the diagnostics page knows.
func overview(t *testing.T, g *gateway) (all running.Overview) {
	t.Helper()
	r, err := http.Get(fmt.Sprintf("http://127.0.0.1:%d/ambassador/v0/diag/?json=true", g.health))
	if err != nil {
		t.Fatal(err)
	}
	defer r.Body.Close()
	if err := json.NewDecoder(r.Body).Decode(&all); err != nil {
		t.Fatal(err)
	}
	return all
}

// TestFleetOfVersions: an Envoy 1.36 of the fleet is served what it knows and takes all of it; what it does without is a finding that names
// the node and the object, as long as it is connected. A newer one beside it gets everything.
func TestFleetOfVersions(t *testing.T) {
	oldest := oldestEnvoy(t)
	ports := porttest.Free(t, 2)
	b, ca := newBackend(t, "b", nil), newAuthority(t)
	dir := t.TempDir()
	pair := func(name string) (cert, key string) {
		c, k := ca.issue(name)
		cert, key = filepath.Join(dir, name+".pem"), filepath.Join(dir, name+".key")
		for path, content := range map[string][]byte{cert: c, key: k} {
			if err := os.WriteFile(path, content, 0o600); err != nil {
				t.Fatal(err)
			}
		}
		return cert, key
	}
	trusted := filepath.Join(dir, "ca.pem")
	if err := os.WriteFile(trusted, ca.pem(), 0o600); err != nil {
		t.Fatal(err)
	}
	cert, key := pair("xds.example.com")
	g := start(t, map[string]string{"base.yaml": join(
		object("Listener", "l", fmt.Sprintf("port: %d, protocol: HTTP, securityModel: XFP, hostBinding: {namespace: {from: ALL}}", ports[0])),
		object("Host", "h", `hostname: "*", requestPolicy: {insecure: {action: Route}}`),
		object("Module", "ambassador", `config: {gzip: {content_type: [text/css], min_content_length: 1}}`),
		"apiVersion: v1\nkind: Service\nmetadata: {name: b, namespace: app}\nspec: {ports: [{name: web, port: 80, targetPort: 8080}]}\n",
		fmt.Sprintf("apiVersion: discovery.k8s.io/v1\nkind: EndpointSlice\nmetadata: {name: b-1, namespace: app, labels: {kubernetes.io/service-name: b}}\naddressType: IPv4\nports: [{name: web, port: %d}]\nendpoints: [{addresses: [127.0.0.1]}]\n", b.port),
		object("Mapping", "checked", `hostname: "*", prefix: /, service: b, resolver: endpoint, `+
			`health_checks: [{health_check: {http: {path: /first}}}, {health_check: {http: {path: /second}}}]`))},
		"--envoy", "none", "--fleet-address", fmt.Sprint("127.0.0.1:", ports[1]), "--fleet-certificate", cert, "--fleet-key", key, "--fleet-ca", trusted)
	node := func(id string) (found xds.NodeStatus) {
		for _, n := range overview(t, g).Nodes {
			if n.ID == id {
				return n
			}
		}
		return found
	}
	lacks := func() (all []string) {
		for _, d := range overview(t, g).Diagnostics {
			if d.Code == "CH-ENVOY-022" {
				all = append(all, fmt.Sprint(d.Severity, " ", d.Object.Kind, " ", d.Object.Name, ": ", d.Message))
			}
		}
		return all
	}

	newest, err := supervisor.Find(os.Getenv("CHANCERY_ENVOY"))
	if err != nil {
		t.Fatal(err)
	}
	t.Setenv("CHANCERY_ENVOY", oldest)
	c, k := pair("edge-old.example.com")
	admin := elsewhere(t, "edge-old", ports[1], c, k, trusted)
	eventually(t, "the older Envoy has taken everything", func() bool { return node("edge-old").Publication > 0 })
	if n := node("edge-old"); !strings.HasPrefix(n.Version, "1.36.") {
		t.Errorf("its version is %s", n.Version)
	}
	eventually(t, "it is told what the older Envoy lacks", func() bool {
		all := lacks()
		return len(all) == 1 && strings.HasPrefix(all[0], "warning Mapping checked: on Envoy edge-old (1.36.") && strings.Contains(all[0], "health_checks")
	})
	eventually(t, "it serves", func() bool {
		a, err := ask(t, "GET", fmt.Sprintf("http://127.0.0.1:%d/", ports[0]), "any.example.com", nil)
		return err == nil && a.status == 200
	})
	a, err := ask(t, "GET", fmt.Sprintf("http://127.0.0.1:%d/", ports[0]), "any.example.com", nil, "Accept-Encoding", "gzip")
	if err != nil || a.header.Get("Content-Encoding") != "" {
		t.Errorf("JSON, which is not among the content types, is compressed: %v %v", a.header, err)
	}

	t.Setenv("CHANCERY_ENVOY", newest)
	c, k = pair("edge-new.example.com")
	elsewhere(t, "edge-new", ports[1], c, k, trusted)
	eventually(t, "the newer Envoy has taken everything", func() bool { return node("edge-new").Publication > 0 })
	for _, id := range []string{"edge-old", "edge-new"} {
		for _, typ := range node(id).Types {
			if len(typ.Refused) > 0 || (len(typ.Lacks) > 0) != (id == "edge-old" && strings.HasSuffix(typ.Type, "Cluster")) {
				t.Errorf("%s: %+v", id, typ)
			}
		}
	}
	if all := lacks(); len(all) != 1 || strings.Contains(all[0], "edge-new") {
		t.Errorf("findings %q", all)
	}
	quit, err := http.Post(fmt.Sprintf("http://127.0.0.1:%d/quitquitquit", admin), "", nil)
	if err != nil {
		t.Fatal(err)
	}
	quit.Body.Close()
	eventually(t, "what an Envoy that has gone lacked is told no more", func() bool { return len(lacks()) == 0 })
}
