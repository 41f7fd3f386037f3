package endtoend

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/chancery-gateway/chancery/snapshot/porttest"
)

// TestProbesThroughEnvoy: Envoy leads to the health port that is set, not to its default.
func TestProbesThroughEnvoy(t *testing.T) {
	port := porttest.Free(t, 1)[0]
	start(t, map[string]string{"base.yaml": join(
		object("Listener", "l", fmt.Sprintf("port: %d, protocol: HTTP, securityModel: XFP, hostBinding: {namespace: {from: ALL}}", port)),
		object("Host", "h", `hostname: "*", requestPolicy: {insecure: {action: Route}}`))})
	for _, path := range []string{"/ambassador/v0/check_ready", "/ambassador/v0/check_alive", "/ambassador/v0/diag/"} {
		eventually(t, path+" is answered", func() bool {
			got, err := ask(t, "GET", fmt.Sprintf("http://127.0.0.1:%d%s", port, path), "any.example.com", nil)
			return err == nil && got.status == 200
		})
	}
}

// TestDiagnosticsPage: what is wrong, why a request does not route, and what Envoy took, on one page.
func TestDiagnosticsPage(t *testing.T) {
	port := porttest.Free(t, 1)[0]
	g := start(t, map[string]string{"base.yaml": join(
		object("Listener", "l", fmt.Sprintf("port: %d, protocol: HTTP, securityModel: XFP, hostBinding: {namespace: {from: ALL}}", port)),
		object("Host", "h", `hostname: shop.example.com, requestPolicy: {insecure: {action: Route}}`),
		object("Mapping", "good", "hostname: shop.example.com, prefix: /good/, service: 127.0.0.1:9"),
		object("Mapping", "bad", "hostname: shop.example.com, prefix: /bad/, service: 127.0.0.1:9, weight: 101"))})
	page := func(query string) string {
		r, err := http.Get(fmt.Sprintf("http://127.0.0.1:%d/ambassador/v0/diag/?%s", g.health, query))
		if err != nil {
			t.Fatal(err)
		}
		defer r.Body.Close()
		body, err := io.ReadAll(r.Body)
		if err != nil || r.StatusCode != http.StatusOK {
			t.Fatalf("%d %v: %s", r.StatusCode, err, body)
		}
		return string(body)
	}
	for query, want := range map[string][]string{
		"": {"<!DOCTYPE html>", "<strong>are answered</strong>", "running, LIVE", "Mapping/app/bad", "prefix /good/", ": 1 sent"},
		fmt.Sprintf("url=http://shop.example.com:%d/bad/", port): {"No service gets this request: it is answered 404.", "Host/app/h"},
		"url=http://shop.example.com/bad/":                       {"Findings about Mappings and Hosts that ask for such requests", "spec.weight"},
		"object=Mapping/app/good":                                {"What it became", "forward to"},
		"json=true":                                              {`"route_info"`},
	} {
		eventually(t, "the page with "+query, func() bool {
			body := page(query)
			for _, w := range want {
				if !strings.Contains(body, w) {
					return false
				}
			}
			return true
		})
	}
}
