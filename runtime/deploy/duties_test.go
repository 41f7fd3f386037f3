package deploy_test

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"math/big"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/chancery-gateway/chancery/snapshot/kube/kubetest"
	"github.com/chancery-gateway/chancery/snapshot/porttest"
)

// issue writes a certificate for a name, with its key, as Istio's agent does.
func issue(t testing.TB, dir, name string, serial int64) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(serial), DNSNames: []string{name}, NotAfter: time.Now().Add(time.Hour)}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	secret, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	for file, block := range map[string]*pem.Block{"cert-chain.pem": {Type: "CERTIFICATE", Bytes: der}, "key.pem": {Type: "PRIVATE KEY", Bytes: secret}} {
		if err := os.WriteFile(filepath.Join(dir, file), pem.EncodeToMemory(block), 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

// fetch asks a server of the program's own.
func fetch(t testing.TB, method, url string) (int, []byte) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), method, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, body
}

// The duties of Emissary's entrypoint beside a cluster: a folder of manifests, Istio's certificate, snapshots for tools, and
// snapshots from tools.
func TestFoldersAndSnapshots(t *testing.T) {
	c, client, ns, port := bed(t)
	address, backendPort := backend(t, "one")
	base, certs := t.TempDir(), t.TempDir()
	dir := filepath.Join(base, "ambassador-config")
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	manifest := func(name, text string) {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	mapping := func(name, prefix string) string {
		return fmt.Sprintf("---\n{apiVersion: getambassador.io/v3alpha1, kind: Mapping, metadata: {name: %s, namespace: %s}, spec: {hostname: \"*\", prefix: %s, service: \"http://%s:%d\", rewrite: \"\"}}\n",
			name, ns, prefix, address, backendPort)
	}
	manifest("a.yaml", mapping("from-file", "/file/"))
	issue(t, certs, "istio.example.com", 1)
	p := porttest.Free(t, 3)
	client.Apply(mapping("from-cluster", "/cluster/") + fmt.Sprintf(`---
{apiVersion: getambassador.io/v3alpha1, kind: Listener, metadata: {name: tls, namespace: %[1]s}, spec: {port: %[2]d, protocol: HTTPS, securityModel: XFP, hostBinding: {namespace: {from: SELF}}}}
---
{apiVersion: getambassador.io/v3alpha1, kind: Host, metadata: {name: istio, namespace: %[1]s}, spec: {hostname: istio.example.com, tlsSecret: {name: istio-certs}}}
---
{apiVersion: v1, kind: Secret, metadata: {name: other, namespace: %[1]s}, type: Opaque, stringData: {tls.crt: NOT-TO-BE-SHOWN}}
---
{apiVersion: getambassador.io/v3alpha1, kind: TLSContext, metadata: {name: other, namespace: %[1]s}, spec: {secret: other}}
`, ns, p[0]))
	external := fmt.Sprintf("127.0.0.1:%d", p[2])
	g := entrypoint(t, c.Config(), port, "--namespace", ns, "--single-namespace", "--snapshot-address", fmt.Sprintf("127.0.0.1:%d", p[1]),
		"--snapshot-external-address", external, "--accept-snapshots", "--istio-secret-dir", certs, "--config-dir", dir)
	g.ready()
	g.answers("/cluster/", 200, "one /cluster/")
	g.answers("/file/", 200, "one /file/")
	manifest("b.yaml", mapping("later", "/later/"))
	g.answers("/later/", 200, "one /later/")
	manifest("b.yaml", mapping("from-cluster", "/twice/"))
	g.answers("/later/", 404, "")
	g.answers("/cluster/", 200, "one /cluster/") // the cluster's own counts

	serial := func() int64 {
		conn, err := tls.Dial("tcp", fmt.Sprintf("127.0.0.1:%d", p[0]), &tls.Config{ServerName: "istio.example.com", InsecureSkipVerify: true})
		if err != nil {
			return 0
		}
		defer conn.Close()
		return conn.ConnectionState().PeerCertificates[0].SerialNumber.Int64()
	}
	kubetest.Eventually(t, patience, "Istio's certificate is served", func(context.Context) bool { return serial() == 1 })
	issue(t, certs, "istio.example.com", 2)
	kubetest.Eventually(t, patience, "the next one is served", func(context.Context) bool { return serial() == 2 })

	snapshotURL := fmt.Sprintf("http://127.0.0.1:%d/snapshot", p[1])
	for _, url := range []string{snapshotURL, "http://" + external + "/snapshot-external"} {
		status, body := fetch(t, http.MethodGet, url)
		var s struct {
			Kubernetes struct {
				Mapping []struct{ Metadata struct{ Name string } }
				Secret  []map[string]any `json:"secret"`
			}
			AmbassadorMeta struct {
				ClusterID string `json:"cluster_id"`
			}
		}
		if err := json.Unmarshal(body, &s); err != nil || status != 200 {
			t.Fatalf("%s: %d %v", url, status, err)
		}
		if len(s.Kubernetes.Mapping) != 2 || len(s.Kubernetes.Secret) < 1 || len(s.AmbassadorMeta.ClusterID) != 36 {
			t.Errorf("%s: %d Mappings, %d Secrets, cluster %q", url, len(s.Kubernetes.Mapping), len(s.Kubernetes.Secret), s.AmbassadorMeta.ClusterID)
		}
		for _, secret := range []string{"NOT-TO-BE-SHOWN", "Tk9ULVRPLUJFLVNIT1dO", "PRIVATE KEY"} {
			if bytes.Contains(body, []byte(secret)) {
				t.Errorf("%s shows a secret", url)
			}
		}
	}

	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	tool := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprintf(w, `{"Kubernetes":{"Mapping":[{"apiVersion":"getambassador.io/v3alpha1","kind":"Mapping","metadata":{"name":"handed","namespace":%q},"spec":{"hostname":"*","prefix":"/handed/","service":"http://%s:%d","rewrite":""}}]}}`,
			ns, address, backendPort)
	})}
	go tool.Serve(l)
	defer tool.Close()
	if status, body := fetch(t, http.MethodPost, fmt.Sprintf("http://127.0.0.1:%d/_internal/v0/watt?url=http://%s/snapshot", g.health, l.Addr())); status != 200 {
		t.Errorf("%d %s", status, body)
	}
	g.answers("/handed/", 200, "one /handed/")
	g.answers("/cluster/", 200, "one /cluster/")
}

// kubestatus is the program by another name, as in Emissary's image.
func TestKubestatusByItsName(t *testing.T) {
	c, client, ns, _ := bed(t)
	client.Apply(fmt.Sprintf(oneMapping, ns, "m"))
	name := filepath.Join(t.TempDir(), "kubestatus")
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(self, name); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(name, "mapping", "m", "-n", ns)
	cmd.Env = append(os.Environ(), asProgram+"=1", "KUBECONFIG="+kubetest.Kubeconfig(t, c.Config()))
	if out, err := cmd.Output(); err != nil || string(out) != "mapping/m."+ns+": null\n" {
		t.Errorf("%v: %s", err, out)
	}
}
