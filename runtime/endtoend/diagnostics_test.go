package endtoend

import (
	"fmt"
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
