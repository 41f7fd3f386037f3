package endtoend

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/chancery-gateway/chancery/runtime/command"
	"github.com/chancery-gateway/chancery/runtime/supervisor"
	"github.com/chancery-gateway/chancery/snapshot/porttest"
	"github.com/chancery-gateway/chancery/xds"
)

// elsewhere starts an Envoy of the fleet, which shows a certificate, and returns its admin port.
func elsewhere(t *testing.T, id string, xdsPort int, cert, key, ca string) int {
	t.Helper()
	path, err := supervisor.Find(os.Getenv("CHANCERY_ENVOY"))
	if err != nil {
		t.Fatal(err)
	}
	admin := porttest.Free(t, 1)[0]
	bootstrap := fmt.Sprintf(`
node: {id: %s, cluster: edge}
admin: {address: {socket_address: {address: 127.0.0.1, port_value: %d}}}
dynamic_resources:
  ads_config: {api_type: DELTA_GRPC, transport_api_version: V3, grpc_services: [{envoy_grpc: {cluster_name: xds}}]}
  cds_config: {ads: {}, resource_api_version: V3}
  lds_config: {ads: {}, resource_api_version: V3}
static_resources:
  clusters:
  - name: xds
    type: STATIC
    typed_extension_protocol_options:
      envoy.extensions.upstreams.http.v3.HttpProtocolOptions:
        "@type": type.googleapis.com/envoy.extensions.upstreams.http.v3.HttpProtocolOptions
        explicit_http_config: {http2_protocol_options: {}}
    load_assignment: {cluster_name: xds, endpoints: [{lb_endpoints: [{endpoint: {address: {socket_address: {address: 127.0.0.1, port_value: %d}}}}]}]}
    transport_socket:
      name: tls
      typed_config:
        "@type": type.googleapis.com/envoy.extensions.transport_sockets.tls.v3.UpstreamTlsContext
        sni: xds.example.com
        common_tls_context:
          alpn_protocols: [h2]
          tls_certificates: [{certificate_chain: {filename: %q}, private_key: {filename: %q}}]
          validation_context: {trusted_ca: {filename: %q}, match_typed_subject_alt_names: [{san_type: DNS, matcher: {exact: xds.example.com}}]}
`, id, admin, xdsPort, cert, key, ca)
	cmd := exec.Command(path, "--config-yaml", bootstrap, "--disable-hot-restart", "--concurrency", "1", "-l", "off")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { cmd.Process.Kill(); cmd.Wait() })
	return admin
}

// TestFleet: Envoys elsewhere are served over the network, those with a trusted certificate only; each shows with its node and all that it
// took; a renewed certificate counts without a restart.
func TestFleet(t *testing.T) {
	ports := porttest.Free(t, 2)
	b, ca, stranger := newBackend(t, "b", nil), newAuthority(t), newAuthority(t)
	dir := t.TempDir()
	file := func(name string, content []byte) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, content, 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	pair := func(from *authority, name string) (cert, key string) {
		c, k := from.issue(name)
		return file(name+".pem", c), file(name+".key", k)
	}
	trusted := file("ca.pem", ca.pem())
	cert, key := pair(ca, "xds.example.com")
	g := start(t, map[string]string{"base.yaml": join(
		object("Listener", "l", fmt.Sprintf("port: %d, protocol: HTTP, securityModel: XFP, hostBinding: {namespace: {from: ALL}}", ports[0])),
		object("Host", "h", `hostname: "*", requestPolicy: {insecure: {action: Route}}`),
		object("Mapping", "m", fmt.Sprintf(`hostname: "*", prefix: /, service: "127.0.0.1:%d"`, b.port)))},
		"--envoy", "none", "--fleet-address", fmt.Sprint("127.0.0.1:", ports[1]), "--fleet-certificate", cert, "--fleet-key", key, "--fleet-ca", trusted)
	nodes := func() map[string]xds.NodeStatus {
		r, err := http.Get(fmt.Sprintf("http://127.0.0.1:%d/ambassador/v0/diag/?json=true", g.health))
		if err != nil {
			t.Fatal(err)
		}
		defer r.Body.Close()
		var all struct{ Nodes []xds.NodeStatus }
		if err := json.NewDecoder(r.Body).Decode(&all); err != nil {
			t.Fatal(err)
		}
		found := map[string]xds.NodeStatus{}
		for _, n := range all.Nodes {
			found[n.ID] = n
		}
		return found
	}
	badCert, badKey := pair(stranger, "stranger.example.com")
	strangersAdmin := elsewhere(t, "stranger", ports[1], badCert, badKey, trusted)
	for _, id := range []string{"edge-1", "edge-2"} {
		c, k := pair(ca, id+".example.com")
		elsewhere(t, id, ports[1], c, k, trusted)
	}
	eventually(t, "both Envoys have taken everything", func() bool {
		n := nodes()
		return n["edge-1"].Publication > 0 && n["edge-2"].Publication > 0
	})
	for id, n := range nodes() {
		if n.Cluster != "edge" || !strings.HasPrefix(n.Version, "1.") || !strings.HasPrefix(id, "edge-") {
			t.Errorf("node %s: %+v", id, n)
		}
	}
	eventually(t, "they serve", func() bool {
		a, err := ask(t, "GET", fmt.Sprintf("http://127.0.0.1:%d/", ports[0]), "any.example.com", nil)
		return err == nil && a.status == 200
	})
	eventually(t, "the stranger has tried", func() bool {
		r, err := http.Get(fmt.Sprintf("http://127.0.0.1:%d/stats?filter=cluster.xds.upstream_cx_(destroy|connect_fail)$", strangersAdmin))
		if err != nil {
			return false
		}
		defer r.Body.Close()
		text, _ := io.ReadAll(r.Body)
		return strings.Contains(string(text), ": ") && !strings.Contains(string(text), "connect_fail: 0\ncluster.xds.upstream_cx_destroy: 0")
	})
	if _, there := nodes()["stranger"]; there {
		t.Error("an Envoy without a trusted certificate is served")
	}

	// Our own certificate is renewed by another authority, which the next Envoy trusts.
	cert2, key2 := stranger.issue("xds.example.com")
	file("xds.example.com.pem", cert2)
	file("xds.example.com.key", key2)
	c, k := pair(ca, "edge-3.example.com")
	elsewhere(t, "edge-3", ports[1], c, k, file("ca2.pem", stranger.pem()))
	eventually(t, "the third Envoy has taken everything", func() bool { return nodes()["edge-3"].Publication > 0 })
}

// TestFleetFaults: what is missing for mutual TLS is told by its setting, and nothing is served.
func TestFleetFaults(t *testing.T) {
	dir := t.TempDir()
	for want, args := range map[string][]string{
		"--fleet-certificate": {"--fleet-address", "127.0.0.1:1", "--fleet-key", "x", "--fleet-ca", "x"},
		"--fleet-ca":          {"--fleet-address", "127.0.0.1:1", "--fleet-key", "x", "--fleet-certificate", "x"},
		"no such file":        {"--fleet-address", "127.0.0.1:1", "--fleet-key", "x", "--fleet-certificate", "x", "--fleet-ca", "x"},
	} {
		var out strings.Builder
		p := porttest.Free(t, 1)
		code := command.Run(t.Context(), append([]string{"chancery", "serve", dir, "--envoy", "none", "--state-dir", dir, "--ads-address", "127.0.0.1:0", "--health-address", "127.0.0.1",
			"--health-port", fmt.Sprint(p[0])}, args...), strings.NewReader(""), io.Discard, &out)
		if code != 2 || !strings.Contains(out.String(), want) {
			t.Errorf("%v: %d %s", args, code, out.String())
		}
	}
}
