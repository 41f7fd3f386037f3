package endtoend

import (
	"bytes"
	"fmt"
	"net"
	"regexp"
	"strings"
	"testing"

	"github.com/chancery-gateway/chancery/snapshot/porttest"
)

// TestStatsd: Envoy sends what it counts to the receiver that Emissary's variables name, in both forms.
func TestStatsd(t *testing.T) {
	for _, c := range []struct {
		name string
		env  map[string]string
		want string // a line that the receiver gets
	}{
		{"statsd", map[string]string{"STATSD_HOST": "localhost"}, `(?m)^envoy\.http\.ingress_http\.downstream_rq_2xx:[1-9][0-9]*\|c$`},
		{"datadog", map[string]string{"STATSD_HOST": "127.0.0.1", "DOGSTATSD": "true", "DD_ENTITY_ID": "pod-1"},
			`(?m)^envoy\.http\.downstream_rq_xx:[1-9][0-9]*\|c\|#.*dd\.internal\.entity_id:pod-1`},
	} {
		t.Run(c.name, func(t *testing.T) {
			conn, err := net.ListenPacket("udp", "127.0.0.1:0")
			if err != nil {
				t.Fatal(err)
			}
			got := &buffer{}
			go func() {
				packet := make([]byte, 65536)
				for {
					n, _, err := conn.ReadFrom(packet)
					if err != nil {
						return // closed
					}
					fmt.Fprintf(got, "%s\n", bytes.TrimSpace(packet[:n]))
				}
			}()
			t.Cleanup(func() { conn.Close() })
			t.Setenv("STATSD_ENABLED", "true")
			t.Setenv("STATSD_PORT", fmt.Sprint(conn.LocalAddr().(*net.UDPAddr).Port))
			t.Setenv("STATSD_FLUSH_INTERVAL", "100ms")
			for name, value := range c.env {
				t.Setenv(name, value)
			}
			port := porttest.Free(t, 1)[0]
			start(t, map[string]string{"a.yaml": join(
				object("Listener", "clear", fmt.Sprintf("port: %d, protocol: HTTP, securityModel: XFP, hostBinding: {namespace: {from: ALL}}", port)),
				object("Host", "web", "hostname: web.example.com, requestPolicy: {insecure: {action: Route}}"),
				object("Mapping", "web", fmt.Sprintf("hostname: web.example.com, prefix: /, service: \"127.0.0.1:%d\"", newBackend(t, "a", nil).port)),
			)})
			line := regexp.MustCompile(c.want)
			eventually(t, "the receiver is told of a request", func() bool {
				if _, err := ask(t, "GET", fmt.Sprintf("http://127.0.0.1:%d/", port), "web.example.com", nil); err != nil {
					return false
				}
				return line.MatchString(got.String())
			})
		})
	}
}

// TestStatsdNobody: a receiver whom nobody knows costs the statistics alone, and is told of.
func TestStatsdNobody(t *testing.T) {
	g := start(t, map[string]string{"a.yaml": object("Host", "web", "hostname: web.example.com")}, "--statsd", "--statsd-host", "nobody.invalid")
	eventually(t, "the finding", func() bool {
		return strings.Contains(g.finding("CH-RUN-002", "/"), `statsd-host "nobody.invalid" cannot be looked up`)
	})
}
