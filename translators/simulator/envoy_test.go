package simulator

import (
	"bufio"
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
	"net/textproto"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// envoyPath finds the Envoy binary: CHANCERY_ENVOY, PATH, then the repository's own cache.
func envoyPath(t *testing.T) string {
	t.Helper()
	if p := os.Getenv("CHANCERY_ENVOY"); p != "" {
		return p
	}
	if p, err := exec.LookPath("envoy"); err == nil {
		return p
	}
	dir, err := os.Getwd()
	for err == nil && dir != "/" {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			found, _ := filepath.Glob(filepath.Join(dir, ".cache/venv/lib/python3*/site-packages/envoy/_bin/envoy"))
			if len(found) > 0 {
				return found[0]
			}
			break
		}
		dir = filepath.Dir(dir)
	}
	if os.Getenv("CI") != "" {
		t.Fatal("there is no Envoy: set CHANCERY_ENVOY")
	}
	t.Skip("there is no Envoy")
	return ""
}

// startEnvoy runs Envoy with the configuration until the test ends, and returns the port of each listener by name.
func startEnvoy(t *testing.T, config []byte) map[string]uint32 {
	t.Helper()
	path := envoyPath(t)
	dir := t.TempDir()
	file, admin := filepath.Join(dir, "envoy.pb"), filepath.Join(dir, "admin")
	if err := os.WriteFile(file, config, 0o600); err != nil {
		t.Fatal(err)
	}
	var log bytes.Buffer
	cmd := exec.Command(path, "-c", file, "--admin-address-path", admin, "--concurrency", "1", "--disable-hot-restart", "--log-level", "warning")
	cmd.Stdout, cmd.Stderr = &log, &log
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	dead := make(chan error, 1)
	go func() { dead <- cmd.Wait() }()
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		<-dead
		if t.Failed() {
			t.Logf("Envoy's log:\n%s", log.String())
		}
	})
	for deadline := time.Now().Add(2 * time.Minute); time.Now().Before(deadline); time.Sleep(20 * time.Millisecond) {
		select {
		case err := <-dead:
			dead <- err
			t.Fatalf("Envoy ended: %v\n%s", err, log.String())
		default:
		}
		address, err := os.ReadFile(admin)
		if err != nil || !adminSays(string(address), "/ready", "LIVE") {
			continue
		}
		return listenerPorts(t, string(address))
	}
	t.Fatal("Envoy is not ready after two minutes")
	return nil
}

func adminGet(address, path string) (string, error) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, "GET", "http://"+strings.TrimSpace(address)+path, nil)
	if err != nil {
		return "", err
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return "", err
	}
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	return string(body), err
}

func adminSays(address, path, want string) bool {
	body, err := adminGet(address, path)
	return err == nil && strings.Contains(body, want)
}

func listenerPorts(t *testing.T, address string) map[string]uint32 {
	t.Helper()
	body, err := adminGet(address, "/listeners?format=json")
	if err != nil {
		t.Fatal(err)
	}
	var list struct {
		Statuses []struct {
			Name    string `json:"name"`
			Address struct {
				Socket struct {
					Port uint32 `json:"port_value"`
				} `json:"socket_address"`
			} `json:"local_address"`
		} `json:"listener_statuses"`
	}
	if err := json.Unmarshal([]byte(body), &list); err != nil {
		t.Fatalf("%v in %s", err, body)
	}
	ports := map[string]uint32{}
	for _, l := range list.Statuses {
		ports[l.Name] = l.Address.Socket.Port
	}
	return ports
}

// answer is what a client saw.
type answer struct {
	// refused is set when no HTTP answer came.
	refused              bool
	status               int
	route, path          string
	location             string
	upstream             string // the port of the upstream that answered
	seenPath, seenHost   string // what it saw
	body                 string
	connectionWillBeOver bool
}

// client sends requests byte by byte as they are written, over one connection per destination.
type client struct {
	connections map[string]*wire
}

type wire struct {
	net.Conn
	in *bufio.Reader
}

func (c *client) close() {
	for _, conn := range c.connections {
		conn.Close()
	}
}

func (c *client) send(address string, r Request) (answer, error) {
	key := fmt.Sprintf("%s|%v|%s", address, r.TLS, r.SNI)
	for attempt := 0; ; attempt++ {
		conn, kept := c.connections[key]
		if !kept {
			raw, err := net.DialTimeout("tcp", address, time.Minute)
			if err != nil {
				return answer{}, err
			}
			if r.TLS {
				raw = tls.Client(raw, &tls.Config{ServerName: r.SNI, InsecureSkipVerify: true, NextProtos: nil})
			}
			conn = &wire{raw, bufio.NewReader(raw)}
			c.connections[key] = conn
		}
		a, err := conn.exchange(r)
		if err == nil && !a.connectionWillBeOver {
			return a, nil
		}
		conn.Close()
		delete(c.connections, key)
		if err == nil {
			return a, nil
		}
		if timeout, ok := err.(net.Error); ok && timeout.Timeout() {
			return answer{}, err
		}
		// A kept connection may have been closed since; a fresh one that dies was refused.
		if !kept {
			return answer{refused: true}, nil
		}
	}
}

func (c *wire) exchange(r Request) (answer, error) {
	if err := c.SetDeadline(time.Now().Add(time.Minute)); err != nil {
		return answer{}, err
	}
	var out strings.Builder
	fmt.Fprintf(&out, "%s %s HTTP/1.1\r\nhost: %s\r\n", r.Method, r.Path, r.Host)
	for _, h := range r.Headers {
		fmt.Fprintf(&out, "%s: %s\r\n", h.Name, h.Value)
	}
	if r.Method == "POST" || r.Method == "PUT" {
		out.WriteString("content-length: 0\r\n")
	}
	out.WriteString("\r\n")
	if _, err := io.WriteString(c, out.String()); err != nil {
		return answer{}, err
	}
	res, err := http.ReadResponse(c.in, &http.Request{Method: r.Method})
	if err != nil {
		return answer{}, err
	}
	a := answer{status: res.StatusCode, route: res.Header.Get("x-route"), path: res.Header.Get("x-path"), location: res.Header.Get("location"),
		upstream: res.Header.Get("x-upstream"), seenPath: res.Header.Get("x-seen-path"), seenHost: res.Header.Get("x-seen-host"), connectionWillBeOver: res.Close}
	if a.status == http.StatusSwitchingProtocols {
		a.connectionWillBeOver = true
		return a, nil
	}
	body, err := io.ReadAll(res.Body)
	a.body = string(body)
	return a, err
}

// startBackends runs n upstreams that tell what they saw, and returns their ports.
func startBackends(t *testing.T, n int) []uint32 {
	t.Helper()
	var ports []uint32
	for range n {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		port := uint32(l.Addr().(*net.TCPAddr).Port)
		ports = append(ports, port)
		t.Cleanup(func() { l.Close() })
		go func() {
			for {
				c, err := l.Accept()
				if err != nil {
					return
				}
				go serveBackend(c, port)
			}
		}()
	}
	return ports
}

// serveBackend answers requests without judging their target, as Go's own server would.
func serveBackend(c net.Conn, port uint32) {
	defer c.Close()
	in := textproto.NewReader(bufio.NewReader(c))
	for {
		line, err := in.ReadLine()
		if err != nil {
			return
		}
		header, err := in.ReadMIMEHeader()
		if err != nil {
			return
		}
		target := line[strings.IndexByte(line, ' ')+1 : strings.LastIndexByte(line, ' ')]
		status, rest := "200 OK", "content-length: 0\r\n"
		if u := header.Get("upgrade"); u != "" {
			status, rest = "101 Switching Protocols", "connection: upgrade\r\nupgrade: "+u+"\r\n"
		}
		if _, err := fmt.Fprintf(c, "HTTP/1.1 %s\r\nx-upstream: %d\r\nx-seen-path: %s\r\nx-seen-host: %s\r\n%s\r\n", status, port, target, header.Get("host"), rest); err != nil {
			return
		}
	}
}

// selfSigned makes a certificate that nobody verifies.
func selfSigned(t *testing.T) (certificate, key []byte) {
	t.Helper()
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), DNSNames: []string{"a.test"}, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour)}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &private.PublicKey, private)
	if err != nil {
		t.Fatal(err)
	}
	pkcs8, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		t.Fatal(err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: pkcs8})
}
