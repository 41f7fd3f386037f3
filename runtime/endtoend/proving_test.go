package endtoend

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/chancery-gateway/chancery/runtime/supervisor"
	"github.com/chancery-gateway/chancery/snapshot/porttest"
)

// finding returns the message of the first finding with the code about the object, "" for none.
func (g *gateway) finding(code, object string) string {
	g.t.Helper()
	r, err := http.Get(fmt.Sprintf("http://127.0.0.1:%d/ambassador/v0/diag/?json=true", g.health))
	if err != nil {
		g.t.Fatal(err)
	}
	defer r.Body.Close()
	var all struct {
		Diagnostics []struct {
			Code, Message, Path string
			Object              struct{ Kind, Name string }
		}
	}
	if err := json.NewDecoder(r.Body).Decode(&all); err != nil {
		g.t.Fatal(err)
	}
	for _, d := range all.Diagnostics {
		if d.Code == code && d.Object.Kind+"/"+d.Object.Name == object {
			return d.Path + ": " + d.Message
		}
	}
	return ""
}

// refusedByEnvoy is a header value that passes Chancery's own rules and that Envoy refuses.
const refusedByEnvoy = `%REQ(a?b?c)%`

// TestQuarantine: what Envoy refuses costs its own object only, which goes on in its last good form, past a restart too; a new
// object answers 503 and lets no wider route take its place; the cure ends it.
func TestQuarantine(t *testing.T) {
	port := porttest.Free(t, 1)[0]
	b := newBackend(t, "b", nil)
	mapping := func(name, prefix, header string) string {
		return object("Mapping", name, fmt.Sprintf(`hostname: "*", prefix: %s, service: "127.0.0.1:%d", add_request_headers: {x-told: {value: "%s"}}`, prefix, b.port, header))
	}
	files := map[string]string{
		"base.yaml": join(object("Listener", "l", fmt.Sprintf("port: %d, protocol: HTTP, securityModel: XFP, hostBinding: {namespace: {from: ALL}}", port)),
			object("Host", "h", `hostname: "*", requestPolicy: {insecure: {action: Route}}`)),
		"wide.yaml":    mapping("wide", "/", "wide"),
		"changed.yaml": mapping("changed", "/changed/", "first"),
		"own.yaml":     mapping("own", "/own/", "first"),
	}
	g := start(t, files)
	told := func(path string) string {
		a, err := ask(t, "GET", fmt.Sprintf("http://127.0.0.1:%d%s", port, path), "any.example.com", nil)
		if err != nil {
			return err.Error()
		}
		return fmt.Sprintf("%d%s", a.status, a.echo.Header["X-Told"])
	}
	is := func(path, want string) {
		t.Helper()
		eventually(t, path+" answers "+want, func() bool { return told(path) == want })
	}
	is("/changed/", "200[first]")
	g.write("changed.yaml", mapping("changed", "/changed/", refusedByEnvoy))
	g.write("new.yaml", mapping("new", "/new/", refusedByEnvoy))
	g.write("own.yaml", mapping("own", "/own/", "%REQ(")) // Chancery's own rules refuse that
	g.write("other.yaml", mapping("other", "/other/", "other"))
	is("/other/", "200[other]")
	is("/changed/", "200[first]")
	is("/new/", "503[]")
	is("/own/", "200[first]")
	eventually(t, "findings of our own rules", func() bool {
		return g.finding("CH-PROOF-013", "Mapping/own") != "" && strings.Contains(g.finding("CH-MAPPING-003", "Mapping/own"), "spec.add_request_headers[x-told].value")
	})
	eventually(t, "findings", func() bool {
		return g.finding("CH-PROOF-011", "Mapping/changed") != "" && g.finding("CH-PROOF-010", "Mapping/new") != ""
	})
	if text := g.finding("CH-PROOF-011", "Mapping/changed"); !strings.Contains(text, "spec.add_request_headers") || !strings.Contains(text, "More than 1 alternative header specified in token: a?b?c") {
		t.Errorf("finding %q", text)
	}
	g.write("changed.yaml", mapping("changed", "/changed/", "second"))
	g.write("new.yaml", mapping("new", "/new/", "second"))
	g.write("own.yaml", mapping("own", "/own/", "second"))
	is("/own/", "200[second]")
	is("/changed/", "200[second]")
	is("/new/", "200[second]")
	eventually(t, "the findings are gone", func() bool {
		return g.finding("CH-PROOF-011", "Mapping/changed") == "" && g.finding("CH-PROOF-010", "Mapping/new") == ""
	})
	if strings.Contains(g.log.String(), "Envoy refuses a resource") {
		t.Error("something refused reached the traffic's Envoy")
	}
}

// TestCertificateQuarantine: a renewal that went wrong leaves the old certificate in service; a new host without a usable one is
// not served at all.
func TestCertificateQuarantine(t *testing.T) {
	port := porttest.Free(t, 1)[0]
	b, ca := newBackend(t, "b", nil), newAuthority(t)
	cert, key := ca.issue("old.example.com")
	_, otherKey := ca.issue("old.example.com")
	secret := func(name string, cert, key []byte) string {
		return fmt.Sprintf("apiVersion: v1\nkind: Secret\nmetadata: {name: %s, namespace: app}\ntype: kubernetes.io/tls\ndata:\n  tls.crt: %s\n  tls.key: %s\n",
			name, base64.StdEncoding.EncodeToString(cert), base64.StdEncoding.EncodeToString(key))
	}
	g := start(t, map[string]string{
		"base.yaml": join(object("Listener", "l", fmt.Sprintf("port: %d, protocol: HTTPS, securityModel: XFP, hostBinding: {namespace: {from: ALL}}", port)),
			object("Host", "old", `hostname: old.example.com, tlsSecret: {name: old}`),
			object("Mapping", "m", fmt.Sprintf(`hostname: "*", prefix: /, service: "127.0.0.1:%d"`, b.port))),
		"old.yaml": secret("old", cert, key),
	})
	asked := func(host string) (answer, error) {
		return ask(t, "GET", fmt.Sprintf("https://127.0.0.1:%d/", port), host, &tls.Config{ServerName: host, InsecureSkipVerify: true})
	}
	served := func(host string) bool { a, err := asked(host); return err == nil && a.status == 200 }
	eventually(t, "the first certificate serves", func() bool { return served("old.example.com") })
	g.write("old.yaml", secret("old", cert, otherKey))
	g.write("new.yaml", join(object("Host", "new", `hostname: new.example.com, tlsSecret: {name: new}`), secret("new", cert, otherKey)))
	eventually(t, "the finding", func() bool { return g.finding("CH-PROOF-011", "Secret/old") != "" })
	for range 20 {
		if !served("old.example.com") {
			t.Fatal("the old certificate is not served any more")
		}
		if _, err := asked("new.example.com"); err == nil {
			t.Fatal("a host without a usable certificate is served")
		}
	}
	cert2, key2 := ca.issue("old.example.com")
	g.write("old.yaml", secret("old", cert2, key2))
	eventually(t, "the next certificate serves", func() bool {
		a, err := asked("old.example.com")
		return err == nil && a.status == 200 && a.cert.SerialNumber.Cmp(parse(t, cert2).SerialNumber) == 0
	})
	eventually(t, "the finding is gone", func() bool { return g.finding("CH-PROOF-011", "Secret/old") == "" })
}

func parse(t testing.TB, text []byte) *x509.Certificate {
	t.Helper()
	block, _ := pem.Decode(text)
	c, err := x509.ParseCertificate(block.Bytes)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// TestLastGoodOutlivesTheProgram: an object that is edited to its worse while the program is down is served in the form that was
// good before, and is told of.
func TestLastGoodOutlivesTheProgram(t *testing.T) {
	port := porttest.Free(t, 1)[0]
	b := newBackend(t, "b", nil)
	mapping := func(header string) string {
		return object("Mapping", "m", fmt.Sprintf(`hostname: "*", prefix: /m/, service: "127.0.0.1:%d", add_request_headers: {x-told: {value: "%s"}}`, b.port, header))
	}
	m := startMortal(t, map[string]string{
		"base.yaml": join(object("Listener", "l", fmt.Sprintf("port: %d, protocol: HTTP, securityModel: XFP, hostBinding: {namespace: {from: ALL}}", port)),
			object("Host", "h", `hostname: "*", requestPolicy: {insecure: {action: Route}}`)),
		"m.yaml": mapping("good"),
	})
	told := func() string {
		a, err := ask(t, "GET", fmt.Sprintf("http://127.0.0.1:%d/m/", port), "any.example.com", nil)
		if err != nil {
			return err.Error()
		}
		return fmt.Sprintf("%d%s", a.status, a.echo.Header["X-Told"])
	}
	eventually(t, "it is served", func() bool { return told() == "200[good]" })
	eventually(t, "the good form is on the disk", func() bool {
		found, err := filepath.Glob(filepath.Join(m.state, "*", "last-good.objects"))
		return err == nil && len(found) == 1
	})
	m.kill()
	m.write("m.yaml", mapping(refusedByEnvoy))
	m.launch()
	m.ready()
	eventually(t, "the finding", func() bool { return m.finding("CH-PROOF-011", "Mapping/m") != "" })
	if got := told(); got != "200[good]" {
		t.Errorf("answer %s", got)
	}
	m.write("m.yaml", mapping("better"))
	eventually(t, "the cure is served", func() bool { return told() == "200[better]" })
}

// TestValidatorAbsent: while no validating Envoy starts, changes are served with a warning, or wait for one where it is required;
// nothing that is served already is lost, and the verdict is made up for.
func TestValidatorAbsent(t *testing.T) {
	real, err := supervisor.Find(os.Getenv("CHANCERY_ENVOY"))
	if err != nil {
		if os.Getenv("CI") == "" {
			t.Skip(err)
		}
		t.Fatal(err)
	}
	for _, require := range []bool{false, true} {
		t.Run(fmt.Sprint("required ", require), func(t *testing.T) {
			dir := t.TempDir()
			script, broken := filepath.Join(dir, "envoy"), filepath.Join(dir, "broken")
			text := fmt.Sprintf("#!/bin/sh\ncase \"$*\" in *chancery-validator-*) if [ -e %s ]; then echo out of order >&2; exit 1; fi;; esac\nexec %s \"$@\"\n", broken, real)
			if err := os.WriteFile(script, []byte(text), 0o700); err != nil {
				t.Fatal(err)
			}
			t.Setenv("CHANCERY_ENVOY", script)
			t.Setenv("CHANCERY_REQUIRE_VALIDATOR", fmt.Sprint(require))
			port := porttest.Free(t, 1)[0]
			b := newBackend(t, "b", nil)
			mapping := func(name, header string) string {
				return object("Mapping", name, fmt.Sprintf(`hostname: "*", prefix: /%s/, service: "127.0.0.1:%d", add_request_headers: {x-told: {value: "%s"}}`, name, b.port, header))
			}
			m := startMortal(t, map[string]string{
				"base.yaml": join(object("Listener", "l", fmt.Sprintf("port: %d, protocol: HTTP, securityModel: XFP, hostBinding: {namespace: {from: ALL}}", port)),
					object("Host", "h", `hostname: "*", requestPolicy: {insecure: {action: Route}}`)),
				"m.yaml": mapping("m", "good"),
			})
			status := func(path string) int {
				a, err := ask(t, "GET", fmt.Sprintf("http://127.0.0.1:%d%s", port, path), "any.example.com", nil)
				if err != nil {
					return 0
				}
				return a.status
			}
			eventually(t, "it is served", func() bool { return status("/m/") == 200 })
			if err := os.WriteFile(broken, nil, 0o600); err != nil {
				t.Fatal(err)
			}
			pid := 0
			eventually(t, "the validator's process is told of", func() bool { pid = m.validator(); return pid > 0 })
			syscall.Kill(pid, syscall.SIGKILL) // may be gone
			eventually(t, "the validator is gone", func() bool { return m.validator() != pid })
			m.write("new.yaml", mapping("new", "good"))
			eventually(t, "the finding", func() bool { return strings.Contains(m.finding("CH-PROOF-012", "/"), "out of order") })
			if require {
				if got := status("/new/"); got != 404 {
					t.Errorf("what nobody judged is answered %d", got)
				}
			} else {
				eventually(t, "the change is served", func() bool { return status("/new/") == 200 })
			}
			if got := status("/m/"); got != 200 {
				t.Errorf("what was served before is answered %d", got)
			}
			if err := os.Remove(broken); err != nil {
				t.Fatal(err)
			}
			eventually(t, "the change is proven and served", func() bool { return status("/new/") == 200 && m.finding("CH-PROOF-012", "/") == "" })
		})
	}
}
