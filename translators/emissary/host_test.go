package emissary

import (
	"fmt"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/chancery-gateway/chancery/translators/ir"
)

func TestHost(t *testing.T) {
	for _, c := range []struct{ spec, want, findings string }{
		{`hostname: Red.Example.com`, `red.example.com red.example.com redirect`, ""},
		{``, `* * redirect`, ""},
		{`hostname: "app.example.com:8443", requestPolicy: {insecure: {action: Route}}`, `app.example.com:8443 app.example.com route`, ""},
		{`hostname: "*.example.com", requestPolicy: {insecure: {action: Reject}}`, `*.example.com *.example.com reject`, ""},
		{`hostname: "foo.*", requestPolicy: {insecure: {action: Redirect}}`, `foo.* foo.* redirect`, ""},
		{`hostname: a.b, requestPolicy: {insecure: {action: Route, additionalPort: 80}}`, `a.b a.b route`, "warning CH-HOST-005 spec.requestPolicy.insecure.additionalPort"},
		{`hostname: a.b, acmeProvider: {email: x}`, `a.b a.b redirect`, "warning CH-HOST-005 spec.acmeProvider"},
		{`hostname: a.b, acmeProvider: {authority: none}`, `a.b a.b redirect`, ""},
	} {
		t.Run(c.spec, func(t *testing.T) {
			f := lowerHost(t, c.spec)
			want(t, f, c.findings)
			h := hostOf(t, f)
			if got := h.Domain + " " + h.SNI + " " + string(h.Insecure); got != c.want || h.Closed != "" || h.TLS != nil || h.Select != nil {
				t.Errorf("got %s, want %s; closed %q", got, c.want, h.Closed)
			}
		})
	}
	for _, name := range []string{"a*b.c", "*.x.*", "a b", "a..b", "x:y", "*."} {
		f := lowerHost(t, `hostname: "`+name+`"`)
		want(t, f, "error CH-HOST-001 spec.hostname")
	}
}

func TestHostSelector(t *testing.T) {
	for _, c := range []struct{ spec, want, findings string }{
		{`mappingSelector: {matchLabels: {a: b}}`, `{"a":"b"}`, ""},
		{`selector: {matchLabels: {a: b}}`, `{"a":"b"}`, ""},
		{`selector: {matchLabels: {a: b}}, mappingSelector: {matchLabels: {c: d}}`, `{"c":"d"}`, "warning CH-HOST-005 spec.selector"},
		{`mappingSelector: {}`, `null`, ""},
		{`mappingSelector: {matchLabels: {}}`, `{}`, ""},
		{`mappingSelector: {matchExpressions: [{key: a, operator: Exists}]}`, `null`, "error CH-HOST-002 spec.mappingSelector.matchExpressions"},
	} {
		f := lowerHost(t, `hostname: a.b, `+c.spec)
		want(t, f, c.findings)
		h := hostOf(t, f)
		equal(t, c.spec, h.Select, c.want)
		if (h.Closed != "") != (c.findings != "" && strings.HasPrefix(c.findings, "error")) {
			t.Errorf("%s: closed %q", c.spec, h.Closed)
		}
	}
}

func TestHostTLS(t *testing.T) {
	cert, key := newPair(t, time.Now().Add(time.Hour))
	tls := secretDoc("app/s", "kubernetes.io/tls", "tls.crt", cert, "tls.key", key)
	elsewhere := secretDoc("certs/h.example.com", "kubernetes.io/tls", "tls.crt", cert, "tls.key", key)
	ca := secretDoc("app/ca", "Opaque", "ca.crt", cert)
	for _, c := range []struct {
		name, spec     string
		docs           []string
		want, findings string
	}{
		{"plain", `tlsSecret: {name: s}`, []string{tls}, `{"certificates":["app/s"]}`, ""},
		{"other namespace", `tlsSecret: {name: h.example.com, namespace: certs}`, []string{elsewhere}, `{"certificates":["certs/h.example.com"]}`, ""},
		{"dotted name", `tlsSecret: {name: h.example.com}`, []string{secretDoc("app/h.example.com", "kubernetes.io/tls", "tls.crt", cert, "tls.key", key)},
			`{"certificates":["app/h.example.com"]}`, ""},
		// B095: the TLSContext's settings go with the Host's own secret.
		{"context beside secret elsewhere", `tlsSecret: {name: h.example.com, namespace: certs}, tlsContext: {name: opts}`,
			[]string{elsewhere, `{kind: TLSContext, metadata: {name: opts}, spec: {min_tls_version: v1.2, alpn_protocols: "h2,http/1.1"}}`},
			`{"certificates":["certs/h.example.com"],"params":{"minVersion":"1.2","alpn":["h2","http/1.1"]}}`, ""},
		{"context with its own secret", `tlsContext: {name: opts}`,
			[]string{elsewhere, `{kind: TLSContext, metadata: {name: opts}, spec: {secret: h.example.com.certs, max_tls_version: v1.2}}`},
			`{"certificates":["certs/h.example.com"],"params":{"maxVersion":"1.2"}}`, ""},
		{"implicit context", `tlsSecret: {name: s}`, []string{tls, `{kind: TLSContext, metadata: {name: h-context}, spec: {min_tls_version: v1.3}}`},
			`{"certificates":["app/s"],"params":{"minVersion":"1.3"}}`, ""},
		{"inline", `tlsSecret: {name: s}, tls: {min_tls_version: v1.2, cipher_suites: [ECDHE-RSA-AES128-GCM-SHA256], ecdh_curves: [P-256]}`, []string{tls},
			`{"certificates":["app/s"],"params":{"minVersion":"1.2","cipherSuites":["ECDHE-RSA-AES128-GCM-SHA256"],"curves":["P-256"]}}`, ""},
		{"client certificates", `tlsSecret: {name: s}, tls: {ca_secret: ca, cert_required: true}`, []string{tls, ca},
			`{"certificates":["app/s"],"validation":"app/ca/ca","requireClientCertificate":true}`, ""},
		{"cert_required in the secret", `tlsSecret: {name: s}, tls: {ca_secret: ca}`, []string{tls, secretDoc("app/ca", "Opaque", "tls.crt", cert, "cert_required", "true")},
			`{"certificates":["app/s"],"validation":"app/ca/ca","requireClientCertificate":true}`, ""},
		{"files", `tls: {cert_chain_file: /c.pem, private_key_file: /k.pem}`, nil, `{"certificates":["Host/app/h"]}`, ""},
		{"istio's own anchors", `tlsSecret: {name: s}, tls: {cert_required: true}`, []string{secretDoc("app/s", "istio.io/key-and-cert", "cert-chain.pem", cert, "key.pem", key, "root-cert.pem", cert)},
			`{"certificates":["app/s"],"validation":"app/s/ca","requireClientCertificate":true}`, ""},
		{"context lists other hosts", `tlsSecret: {name: s}, tlsContext: {name: opts}`, []string{tls, `{kind: TLSContext, metadata: {name: opts}, spec: {hosts: [x.y]}}`},
			`{"certificates":["app/s"]}`, "warning CH-HOST-004 spec.tlsContext"},
		// From here on the host is closed.
		{"no such context", `tlsSecret: {name: s}, tlsContext: {name: opts}`, []string{tls}, "", "error CH-HOST-004 spec.tlsContext.name"},
		{"both", `tlsSecret: {name: s}, tlsContext: {name: opts}, tls: {}`, []string{tls}, "", "error CH-HOST-004 spec.tls"},
		{"another secret", `tlsSecret: {name: s}, tlsContext: {name: opts}`, []string{tls, `{kind: TLSContext, metadata: {name: opts}, spec: {secret: other}}`}, "", "error CH-HOST-004 spec.tlsContext"},
		{"versions crossed", `tlsSecret: {name: s}, tls: {min_tls_version: v1.3, max_tls_version: v1.2}`, []string{tls}, "", "error CH-TLS-006 spec.tls.min_tls_version"},
		{"unknown version", `tlsSecret: {name: s}, tls: {min_tls_version: v2}`, []string{tls}, "", "error CH-TLS-006 spec.tls.min_tls_version"},
		{"unknown cipher", `tlsSecret: {name: s}, tls: {cipher_suites: [ROT13]}`, []string{tls}, "", "error CH-TLS-006 spec.tls.cipher_suites[0]"},
		{"unknown curve", `tlsSecret: {name: s}, tls: {ecdh_curves: [P-1]}`, []string{tls}, "", "error CH-TLS-006 spec.tls.ecdh_curves[0]"},
		{"curve twice", `tlsSecret: {name: s}, tls: {ecdh_curves: [P-256, prime256v1]}`, []string{tls}, "", "error CH-TLS-006 spec.tls.ecdh_curves[1]"},
		{"bad alpn", `tlsSecret: {name: s}, tls: {alpn_protocols: "h2,,x"}`, []string{tls}, "", "error CH-TLS-006 spec.tls.alpn_protocols"},
		// B098: no usable trust anchors, no service.
		{"no anchors", `tlsSecret: {name: s}, tls: {ca_secret: ca, cert_required: true}`, []string{tls}, "", "error CH-TLS-001 spec.tls.ca_secret"},
		{"bad anchors", `tlsSecret: {name: s}, tls: {ca_secret: ca}`, []string{tls, secretDoc("app/ca", "Opaque", "other", "x")}, "", "error CH-TLS-003 spec.tls.ca_secret"},
		{"required without anchors", `tlsSecret: {name: s}, tls: {cert_required: true}`, []string{tls}, "", "error CH-TLS-006 spec.tls.cert_required"},
		{"no revocation list", `tlsSecret: {name: s}, tls: {ca_secret: ca, crl_secret: crl}`, []string{tls, ca}, "", "error CH-TLS-001 spec.tls.crl_secret"},
		{"settings without certificate", `tls: {min_tls_version: v1.2}`, nil, "", "error CH-TLS-006 spec.tls"},
		{"name that SNI cannot tell", `hostname: "foo.*", tlsSecret: {name: s}`, []string{tls}, "", "error CH-HOST-001 spec.hostname"},
	} {
		t.Run(c.name, func(t *testing.T) {
			spec := c.spec
			if !strings.Contains(spec, "hostname") {
				spec = "hostname: h.example.com, " + spec
			}
			f := lowerHost(t, spec, c.docs...)
			want(t, f, c.findings)
			h := hostOf(t, f)
			if c.want == "" {
				if h.Closed == "" || h.TLS != nil || len(f.Secrets) > 0 {
					t.Errorf("closed %q, TLS %+v, %d secrets", h.Closed, h.TLS, len(f.Secrets))
				}
				return
			}
			equal(t, "TLS", h.TLS, c.want)
			if h.Closed != "" {
				t.Errorf("closed: %s", h.Closed)
			}
			for _, name := range append(h.TLS.Certificates, h.TLS.Validation) {
				if name != "" && !hasSecret(f, name) {
					t.Errorf("Secret %s is not in the fragments", name)
				}
			}
		})
	}
}

func hasSecret(f *ir.Fragments, name string) bool {
	for _, s := range f.Secrets {
		if s.Name == name {
			return true
		}
	}
	return false
}

// Equal names in two namespaces are two TLSContexts and two secrets (B030).
func TestHostsOfTwoTeams(t *testing.T) {
	cert, key := newPair(t, time.Now().Add(time.Hour))
	var docs []string
	for namespace, version := range map[string]string{"red": "v1.2", "blue": "v1.3"} {
		docs = append(docs,
			`{kind: Host, metadata: {name: site, namespace: `+namespace+`}, spec: {hostname: `+namespace+`.example.com, tlsSecret: {name: site-cert}, tlsContext: {name: site}}}`,
			`{kind: TLSContext, metadata: {name: site, namespace: `+namespace+`}, spec: {secret: site-cert, min_tls_version: `+version+`}}`,
			secretDoc(namespace+"/site-cert", "kubernetes.io/tls", "tls.crt", cert, "tls.key", key))
	}
	w := newWorld(t, strings.Join(docs, "\n---\n"))
	equal(t, "red", hostOf(t, w.lower(t, "Host/red/site")).TLS, `{"certificates":["red/site-cert"],"params":{"minVersion":"1.2"}}`)
	equal(t, "blue", hostOf(t, w.lower(t, "Host/blue/site")).TLS, `{"certificates":["blue/site-cert"],"params":{"minVersion":"1.3"}}`)
}

// Envoy knows every name that we let through.
func TestTLSNamesAreEnvoys(t *testing.T) {
	envoy := findEnvoy(t)
	const config = `{"static_resources":{"clusters":[{"name":"c","type":"STATIC","transport_socket":{"name":"t","typed_config":{"@type":"type.googleapis.com/envoy.extensions.transport_sockets.tls.v3.UpstreamTlsContext",
"common_tls_context":{"tls_params":{"cipher_suites":%s,"ecdh_curves":%s}}}}}]}}`
	if out, err := exec.Command(envoy, "--mode", "validate", "-l", "error", "--config-yaml", fmt.Sprintf(config, compact(t, tlsCiphers), compact(t, tlsCurves))).CombinedOutput(); err != nil {
		t.Errorf("%s", out)
	}
}

// A TLSContext is checked by itself, and reads the secrets that it names (B096).
func TestTLSContext(t *testing.T) {
	cert, key := newPair(t, time.Now().Add(time.Hour))
	tls := secretDoc("core/wildcard", "kubernetes.io/tls", "tls.crt", cert, "tls.key", key)
	for spec, expected := range map[string]string{
		`hosts: [app.example.com], secret: wildcard.core, min_tls_version: v1.2`: "",
		`secret: wildcard`: "error CH-TLS-001 spec.secret",
		`secret: wildcard.core, secret_namespacing: false`: "error CH-TLS-001 spec.secret",
		`cert_chain_file: /x`:                              "error CH-TLS-006 spec.private_key_file",
		`secret: wildcard.core, cert_chain_file: /x`:       "error CH-TLS-006 spec.cert_chain_file",
		`secret: wildcard.core, ca_secret: none`:           "error CH-TLS-001 spec.ca_secret",
		`min_tls_version: v1.3, max_tls_version: v1.0`:     "error CH-TLS-006 spec.min_tls_version",
		`redirect_cleartext_from: 80`:                      "warning CH-TLS-007 spec.redirect_cleartext_from",
	} {
		f := newWorld(t, "{kind: TLSContext, metadata: {name: c}, spec: {"+spec+"}}\n---\n"+tls).lower(t, "TLSContext/c")
		want(t, f, expected)
		if len(f.Secrets) > 0 {
			t.Error("a TLSContext that nothing uses brings secrets")
		}
	}
}

// An upstream whose TLS cannot be set up is never called in clear text.
func TestUpstreamTLS(t *testing.T) {
	cert, key := newPair(t, time.Now().Add(time.Hour))
	docs := []string{
		secretDoc("app/s", "kubernetes.io/tls", "tls.crt", cert, "tls.key", key), secretDoc("app/ca", "Opaque", "ca.crt", cert),
		`{kind: TLSContext, metadata: {name: full}, spec: {secret: s, ca_secret: ca, sni: x.example.com, alpn_protocols: h2, min_tls_version: v1.2}}`,
		`{kind: TLSContext, metadata: {name: ca-only}, spec: {ca_secret: ca}}`,
		`{kind: TLSContext, metadata: {name: broken}, spec: {secret: no-such}}`,
		`{kind: TLSContext, metadata: {name: far, namespace: one}, spec: {min_tls_version: v1.2}}`,
		`{kind: TLSContext, metadata: {name: twice, namespace: one}}`,
		`{kind: TLSContext, metadata: {name: twice, namespace: two}}`,
		`{kind: TLSContext, metadata: {name: foreign}, spec: {ambassador_id: [other]}}`,
	}
	for _, c := range []struct{ spec, want, findings string }{
		{`service: web, tls: full`, `{"sni":"x.example.com","certificate":"app/s","validation":"app/ca/ca","params":{"minVersion":"1.2","alpn":["h2"]}}`, ""},
		{`service: "https://web", tls: ca-only, host_rewrite: h.example.com`, `{"sni":"h.example.com","validation":"app/ca/ca"}`, ""},
		{`service: "http://web", tls: ca-only`, `{"validation":"app/ca/ca"}`, "warning CH-CLUSTER-005 spec.service"},
		{`service: web, tls: far`, `{"params":{"minVersion":"1.2"}}`, ""},
		{`service: web, tls: twice.two`, `{}`, ""},
		{`service: "https://web"`, `{}`, "info CH-CLUSTER-004 spec.service"},
		{`service: web, tls: broken`, "", "error CH-CLUSTER-003 spec.tls"},
		{`service: "https://web", tls: none`, "", "error CH-CLUSTER-003 spec.tls"},
		{`service: web, tls: twice`, "", "error CH-CLUSTER-003 spec.tls"},
		{`service: web, tls: foreign`, "", "error CH-CLUSTER-003 spec.tls"},
	} {
		t.Run(c.spec, func(t *testing.T) {
			f := lowerMapping(t, "prefix: /, "+c.spec, docs...)
			want(t, f, c.findings)
			if c.want == "" {
				if len(f.Clusters)+len(f.Routes) > 0 {
					t.Error("the upstream is called all the same")
				}
				return
			}
			equal(t, "TLS", cluster(t, f).TLS, c.want)
			if cluster(t, f).Port != 443 {
				t.Errorf("port %d", cluster(t, f).Port)
			}
		})
	}
}
