package endtoend

import (
	"fmt"
	"strings"
	"testing"

	"github.com/chancery-gateway/chancery/snapshot/porttest"
)

// TestColdStartWithAFaultyModule: a script that Envoy or Chancery's own rules refuse, with no good form of an earlier run to stand in, costs the
// script alone: the listener serves everybody without it.
func TestColdStartWithAFaultyModule(t *testing.T) {
	for name, c := range map[string]struct{ script, code, says string }{
		"refused by Envoy":     {"function envoy_on_request(h) if end", "CH-PROOF-010", "Envoy says: "},
		"refused by our rules": {"while true do end", "CH-ENVOY-020", "a loop (while)"},
	} {
		t.Run(name, func(t *testing.T) {
			port := porttest.Free(t, 1)[0]
			b := newBackend(t, "b", nil)
			module := func(script string) string {
				return object("Module", "ambassador", fmt.Sprintf("config: {lua_scripts: %q, gzip: {content_type: [application/json], min_content_length: 1}}", script))
			}
			g := start(t, map[string]string{
				"base.yaml": join(object("Listener", "l", fmt.Sprintf("port: %d, protocol: HTTP, securityModel: XFP, hostBinding: {namespace: {from: ALL}}", port)),
					object("Host", "h", `hostname: "*", requestPolicy: {insecure: {action: Route}}`),
					object("Mapping", "m", fmt.Sprintf(`hostname: "*", prefix: /, service: "127.0.0.1:%d"`, b.port))),
				"module.yaml": module(c.script),
			})
			served := func() (status int, scripted string, encoding string) {
				a, err := ask(t, "GET", fmt.Sprintf("http://127.0.0.1:%d/", port), "any.example.com", nil, "Accept-Encoding", "br")
				if err != nil {
					return 0, err.Error(), ""
				}
				return a.status, a.echo.Header.Get("X-Lua"), a.header.Get("Content-Encoding")
			}
			eventually(t, "everybody is served", func() bool { status, _, _ := served(); return status == 200 })
			eventually(t, "the Module is blamed", func() bool {
				text := g.finding(c.code, "Module/ambassador")
				return strings.Contains(text, `HTTP filter "envoy.filters.http.lua" is left out: `) && strings.Contains(text, c.says)
			})
			if strings.Contains(g.log.String(), "Envoy refuses a resource") {
				t.Error("something refused reached the traffic's Envoy")
			}
			g.write("module.yaml", module("function envoy_on_request(h) h:headers():add('x-lua', 'ran') end"))
			eventually(t, "the corrected script runs", func() bool { _, scripted, _ := served(); return scripted == "ran" })
			eventually(t, "nobody is blamed any more", func() bool { return g.finding(c.code, "Module/ambassador") == "" })
		})
	}
}
