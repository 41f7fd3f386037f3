package endtoend

import (
	"context"
	"crypto/tls"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"testing"
	"time"

	"github.com/quic-go/quic-go"
	"github.com/quic-go/quic-go/http3"

	"github.com/chancery-gateway/chancery/snapshot/porttest"
)

// overQUIC sends a request over HTTP/3 on a connection of its own, made with this server name.
func overQUIC(t testing.TB, port int, sni, host, path string) (status int, header http.Header, from string, err error) {
	t.Helper()
	tr := &http3.Transport{
		TLSClientConfig: &tls.Config{ServerName: sni, InsecureSkipVerify: true},
		QUICConfig:      &quic.Config{HandshakeIdleTimeout: 5 * time.Second, MaxIdleTimeout: 10 * time.Second},
		Dial: func(ctx context.Context, _ string, c *tls.Config, q *quic.Config) (*quic.Conn, error) {
			return quic.DialAddr(ctx, fmt.Sprintf("127.0.0.1:%d", port), c, q)
		},
	}
	defer tr.Close()
	ctx, cancel := context.WithTimeout(t.Context(), 15*time.Second)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, "https://"+host+path, nil)
	if err != nil {
		return 0, nil, "", err
	}
	resp, err := tr.RoundTrip(r)
	if err != nil {
		return 0, nil, "", err
	}
	defer resp.Body.Close()
	var e echo
	if resp.StatusCode == http.StatusOK {
		if err := json.NewDecoder(resp.Body).Decode(&e); err != nil {
			return 0, nil, "", err
		}
	}
	if resp.ProtoMajor != 3 {
		t.Errorf("the answer is %s", resp.Proto)
	}
	return resp.StatusCode, resp.Header, e.Backend, nil
}

// TestHTTP3: a Listener of UDP serves Hosts with TLS over QUIC, TCP's responses tell clients of it, an edit of a route reaches both,
// and what a Host asks of its clients is not got around.
func TestHTTP3(t *testing.T) {
	p := porttest.Free(t, 2)
	both, lone := p[0], p[1]
	a, b := newBackend(t, "a", nil), newBackend(t, "b", nil)
	ca := newAuthority(t)
	listener := func(name string, port int, last string) string {
		return object("Listener", name, fmt.Sprintf("port: %d, protocolStack: [TLS, HTTP, %s], securityModel: XFP, hostBinding: {namespace: {from: ALL}}", port, last))
	}
	mapping := func(to *backend) string {
		return object("Mapping", "shop", fmt.Sprintf(`hostname: shop.example.com, prefix: /, service: "127.0.0.1:%d"`, to.port))
	}
	g := start(t, map[string]string{
		"base.yaml": join(
			listener("tcp", both, "TCP"), listener("udp", both, "UDP"), listener("lone", lone, "TCP"),
			object("Host", "shop", "hostname: shop.example.com, tlsSecret: {name: shop}, tls: {alpn_protocols: 'h2,http/1.1'}"), ca.secret("shop", "shop.example.com"),
			object("Host", "wild", `hostname: "*.example.com", tlsSecret: {name: wild}`), ca.secret("wild", "*.example.com"),
			object("Host", "mtls", "hostname: mtls.example.com, tlsSecret: {name: mtls}, tls: {ca_secret: client-ca, cert_required: true}"), ca.secret("mtls", "mtls.example.com"),
			fmt.Sprintf("apiVersion: v1\nkind: Secret\nmetadata: {name: client-ca, namespace: app}\ntype: Opaque\ndata: {ca.crt: %s}\n", base64.StdEncoding.EncodeToString(ca.pem())),
			object("Mapping", "wide", fmt.Sprintf(`hostname: "*.example.com", prefix: /, service: "127.0.0.1:%d"`, b.port)),
		),
		"shop.yaml": mapping(a),
	})
	eventually(t, "a request is answered over HTTP/3", func() bool {
		status, _, from, err := overQUIC(t, both, "shop.example.com", "shop.example.com", "/cart")
		return err == nil && status == 200 && from == "a"
	})
	if status, _, from, err := overQUIC(t, both, "other.example.com", "other.example.com", "/"); err != nil || status != 200 || from != "b" {
		t.Errorf("the wildcard Host: %d %q %v", status, from, err)
	}
	if status, _, _, err := overQUIC(t, both, "other.example.com", "shop.example.com", "/"); err != nil || status != 421 {
		t.Errorf("another Host's name: %d %v", status, err)
	}
	if status, _, _, err := overQUIC(t, both, "mtls.example.com", "mtls.example.com", "/"); err != nil || status != 421 {
		t.Errorf("a Host that asks for client certificates: %d %v", status, err)
	}
	if g.finding("CH-LINK-020", "Host/mtls") == "" || g.finding("CH-LINK-020", "Host/shop") != "" {
		t.Error("who is not served over HTTP/3 is not told, or who is, is")
	}
	advertised := both
	if both%1000 == 443 {
		advertised = 443
	}
	client := &tls.Config{InsecureSkipVerify: true}
	pair, key := ca.issue("client")
	certificate, err := tls.X509KeyPair(pair, key)
	if err != nil {
		t.Fatal(err)
	}
	client.Certificates = []tls.Certificate{certificate}
	for _, c := range []struct {
		port       int
		host, want string
	}{
		{both, "shop.example.com", fmt.Sprintf(`h3=":%d"; ma=86400`, advertised)}, {both, "mtls.example.com", ""}, {lone, "shop.example.com", ""},
	} {
		config := client.Clone()
		config.ServerName = c.host
		got, err := ask(t, "GET", fmt.Sprintf("https://127.0.0.1:%d/", c.port), c.host, config)
		if err != nil || got.status != 200 || got.header.Get("alt-svc") != c.want {
			t.Errorf("%s on port %d: %v %d, alt-svc %q, want %q", c.host, c.port, err, got.status, got.header.Get("alt-svc"), c.want)
		}
	}
	g.write("shop.yaml", mapping(b))
	eventually(t, "the edit reaches HTTP/3", func() bool {
		status, _, from, err := overQUIC(t, both, "shop.example.com", "shop.example.com", "/cart")
		return err == nil && status == 200 && from == "b"
	})
}
