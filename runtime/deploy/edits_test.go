package deploy_test

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	cryptorand "crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"math/rand/v2"
	"net"
	"testing"
	"time"

	"github.com/chancery-gateway/chancery/snapshot/kube/kubetest"
	"github.com/chancery-gateway/chancery/snapshot/porttest"
)

func TestEditsDisturbNobodyElse(t *testing.T) {
	c, client, ns, port := bed(t)
	address, one := backend(t, "one")
	_, two := backend(t, "two")
	ports := map[string]int{"one": one, "two": two}
	service := "{apiVersion: v1, kind: Service, metadata: {name: %[2]s, namespace: %[1]s}, spec: {ports: [{name: http, port: 80, targetPort: http}]}}"
	slice := "{apiVersion: discovery.k8s.io/v1, kind: EndpointSlice, metadata: {name: %[2]s, namespace: %[1]s, labels: {kubernetes.io/service-name: %[2]s}}, addressType: IPv4, ports: [{name: http, port: %[4]d, protocol: TCP}], endpoints: [{addresses: [%[3]s]}]}"
	mapping := `{apiVersion: getambassador.io/v3alpha1, kind: Mapping, metadata: {name: %[2]s, namespace: %[1]s}, spec: {hostname: "*", prefix: /%[2]s/, service: %[3]s, resolver: endpoint, rewrite: ""}}`
	host := `{apiVersion: getambassador.io/v3alpha1, kind: Host, metadata: {name: %[2]s, namespace: %[1]s}, spec: {hostname: %[2]s.example.com, tlsSecret: {name: %[2]s}, requestPolicy: {insecure: {action: Route}}}}`
	secret := `{apiVersion: v1, kind: Secret, metadata: {name: %[2]s, namespace: %[1]s}, type: kubernetes.io/tls, stringData: {tls.crt: %[3]q, tls.key: %[4]q}}`
	secure := porttest.Free(t, 1)[0]
	client.Apply(fmt.Sprintf("{apiVersion: getambassador.io/v3alpha1, kind: Listener, metadata: {name: tls, namespace: %s}, spec: {port: %d, protocol: HTTPS, securityModel: XFP, hostBinding: {namespace: {from: SELF}}}}", ns, secure))

	backendOf := map[string]string{} // of each Service
	for _, s := range []string{"stable", "a", "b", "c"} {
		backendOf[s] = "one"
		client.Apply(fmt.Sprintf(service, ns, s) + "\n---\n" + fmt.Sprintf(slice, ns, s, address, one))
	}
	client.Apply(fmt.Sprintf(mapping, ns, "stable", "stable"))
	g := entrypoint(t, c.Config(), port, "--namespace", ns, "--single-namespace")
	g.ready()
	g.answers("/stable/", 200, "one")
	wrong := g.traffic("/stable/")

	serviceOf := map[string]string{}                         // of each Mapping
	hosts, secrets := map[string]bool{}, map[string]string{} // the names that the Secrets' certificates are for
	// shown waits until the Host's own certificate is shown, or none while it has none.
	shown := func(h string) {
		t.Helper()
		want := ""
		if hosts[h] {
			want = secrets[h]
		}
		kubetest.Eventually(t, patience, fmt.Sprintf("%s shows the certificate %q", h, want), func(context.Context) bool { return certificateOf(secure, h+".example.com") == want })
	}
	const seed = 7
	random := rand.New(rand.NewPCG(seed, seed))
	pick := func(prefix string, n int) string { return fmt.Sprintf("%s%d", prefix, random.IntN(n)) }
	var worst time.Duration
	for edit := range 200 {
		begun := time.Now()
		switch random.IntN(10) {
		case 0, 1, 2: // a Mapping, new or changed
			m, s := pick("m", 12), string("abc"[random.IntN(3)])
			client.Apply(fmt.Sprintf(mapping, ns, m, s))
			serviceOf[m] = s
			g.answers("/"+m+"/", 200, backendOf[s])
		case 3, 4:
			m := pick("m", 12)
			if serviceOf[m] == "" {
				continue
			}
			client.Delete(fmt.Sprintf(mapping, ns, m, "a"))
			delete(serviceOf, m)
			g.answers("/"+m+"/", 404, "")
		case 5, 6: // endpoints
			s, b := string("abc"[random.IntN(3)]), []string{"one", "two"}[random.IntN(2)]
			client.Apply(fmt.Sprintf(slice, ns, s, address, ports[b]))
			backendOf[s] = b
			for m, of := range serviceOf {
				if of == s {
					g.answers("/"+m+"/", 200, b)
				}
			}
		case 7: // a Service goes and comes
			s := string("abc"[random.IntN(3)])
			client.Delete(fmt.Sprintf(service, ns, s))
			client.Apply(fmt.Sprintf(service, ns, s))
			for m, of := range serviceOf {
				if of == s {
					g.answers("/"+m+"/", 200, backendOf[s])
				}
			}
		case 8:
			h := pick("x", 4)
			if hosts[h] {
				client.Delete(fmt.Sprintf(host, ns, h))
			} else {
				client.Apply(fmt.Sprintf(host, ns, h))
			}
			hosts[h] = !hosts[h]
			shown(h)
		default:
			h := pick("x", 4)
			if secrets[h] != "" && random.IntN(3) == 0 {
				client.Delete(fmt.Sprintf(secret, ns, h, "", ""))
				secrets[h] = ""
			} else {
				name := fmt.Sprintf("%s-%d", h, edit)
				crt, key := certificate(t, name)
				client.Apply(fmt.Sprintf(secret, ns, h, crt, key))
				secrets[h] = name
			}
			shown(h)
		}
		worst = max(worst, time.Since(begun))
	}
	for m, s := range serviceOf {
		g.answers("/"+m+"/", 200, backendOf[s])
	}
	t.Logf("the slowest edit was effective after %s; %v compiles, %v updates of endpoints alone", worst.Round(time.Millisecond),
		g.metric("chancery_compiles_total"), g.metric("chancery_endpoint_updates_total"))
	if wrong() > 0 {
		t.Error("requests that no edit concerned went wrong")
	}
}

// certificate makes a certificate and its key, PEM.
func certificate(t testing.TB, name string) (crt, key string) {
	t.Helper()
	own, err := ecdsa.GenerateKey(elliptic.P256(), cryptorand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: name}, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour)}
	raw, err := x509.CreateCertificate(cryptorand.Reader, template, template, own.Public(), own)
	if err != nil {
		t.Fatal(err)
	}
	private, err := x509.MarshalPKCS8PrivateKey(own)
	if err != nil {
		t.Fatal(err)
	}
	return string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: raw})), string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: private}))
}

// certificateOf returns the common name of the certificate that is shown for a server name, "" for none.
func certificateOf(port int, name string) string {
	c, err := tls.DialWithDialer(&net.Dialer{Timeout: 2 * time.Second}, "tcp", fmt.Sprintf("127.0.0.1:%d", port), &tls.Config{ServerName: name, InsecureSkipVerify: true})
	if err != nil {
		return ""
	}
	defer c.Close()
	return c.ConnectionState().PeerCertificates[0].Subject.CommonName
}
