package endtoend

import (
	"crypto/tls"
	"encoding/base64"
	"fmt"
	"testing"

	"github.com/chancery-gateway/chancery/snapshot/porttest"
)

// TestIsolationWherePortsCount: one Host is named with a port, so that Envoy has to tell ports apart; those that want client certificates
// are not reached through the connection of a wider one, whatever port a request names.
func TestIsolationWherePortsCount(t *testing.T) {
	port := porttest.Free(t, 1)[0]
	b, ca := newBackend(t, "b", nil), newAuthority(t)
	locked := "tlsSecret: {name: locked}, tls: {ca_secret: client-ca, cert_required: true}"
	start(t, map[string]string{"base.yaml": join(
		object("Listener", "l", fmt.Sprintf("port: %d, protocol: HTTPS, securityModel: XFP, hostBinding: {namespace: {from: ALL}}", port)),
		object("Host", "star", `hostname: "*", tlsSecret: {name: star}, requestPolicy: {insecure: {action: Route}}`), ca.secret("star", "*.example.org"),
		object("Host", "named", fmt.Sprintf(`hostname: "a.example.com:%d", tlsSecret: {name: star}`, port)),
		object("Host", "wide", fmt.Sprintf(`hostname: "*.example.com:%d", tlsSecret: {name: star}`, port)),
		object("Host", "locked", "hostname: locked.example.com, "+locked), ca.secret("locked", "locked.example.com"),
		object("Host", "locked-port", fmt.Sprintf(`hostname: "locked.example.net:%d", `, port)+locked),
		object("Host", "vaults", `hostname: "*.vault.example.com", requestPolicy: {insecure: {action: Reject}}, `+locked),
		fmt.Sprintf("apiVersion: v1\nkind: Secret\nmetadata: {name: client-ca, namespace: app}\ntype: Opaque\ndata: {ca.crt: %s}\n", base64.StdEncoding.EncodeToString(ca.pem())),
		object("Mapping", "all", fmt.Sprintf(`hostname: "*", prefix: /, service: "127.0.0.1:%d"`, b.port)))})
	send := func(scheme, sni, host string) int {
		a, err := ask(t, "GET", fmt.Sprintf("%s://127.0.0.1:%d/", scheme, port), host, &tls.Config{ServerName: sni, InsecureSkipVerify: true})
		if err != nil {
			t.Fatalf("%s %s: %v", sni, host, err)
		}
		return a.status
	}
	eventually(t, "the wide Host serves", func() bool {
		a, err := ask(t, "GET", fmt.Sprintf("https://127.0.0.1:%d/", port), "other.example.org", nil)
		return err == nil && a.status == 200
	})
	here := fmt.Sprint(":", port)
	for _, c := range []struct {
		scheme, sni, host string
		want              int
	}{
		{"https", "a.example.com", "a.example.com" + here, 200},
		{"https", "other.example.org", "other.example.org:9", 200},
		{"https", "other.example.org", "locked.example.com", 421},
		{"https", "other.example.org", "locked.example.com" + here, 421},
		{"https", "other.example.org", "locked.example.com:9", 421},
		{"https", "other.example.org", "LOCKED.example.com:9", 421},
		{"https", "other.example.com", "locked.example.com" + here, 421},
		{"https", "other.example.org", "locked.example.net", 421},
		{"https", "other.example.org", "locked.example.net:9", 421},
		{"https", "other.example.org", "a.vault.example.com", 421},
		{"https", "other.example.org", "a.vault.example.com" + here, 421},
		{"https", "other.example.org", "A.Vault.example.com:9", 421},
		{"http", "", "locked.example.com:9", 301},
		{"http", "", "a.vault.example.com:9", 421},
		{"http", "", "a.vault.example.com", 404},
		{"http", "", "other.example.org:9", 200},
	} {
		if got := send(c.scheme, c.sni, c.host); got != c.want {
			t.Errorf("%s, server name %q, host %q: %d, want %d", c.scheme, c.sni, c.host, got, c.want)
		}
	}
}
