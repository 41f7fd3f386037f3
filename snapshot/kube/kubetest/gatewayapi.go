package kubetest

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// GatewayAPI returns Gateway API's definitions with all their fields, a YAML stream, from its module in the version of go.mod:
// those of these plural names, all without any.
func GatewayAPI(t testing.TB, plurals ...string) string {
	t.Helper()
	var errs bytes.Buffer
	cmd := exec.Command("go", "list", "-m", "-f", "{{.Dir}}", "sigs.k8s.io/gateway-api")
	cmd.Stderr = &errs
	dir, err := cmd.Output()
	if err != nil {
		t.Fatalf("go list -m: %v\n%s", err, errs.Bytes())
	}
	if len(plurals) == 0 {
		plurals = []string{"backendtlspolicies", "gatewayclasses", "gateways", "grpcroutes", "httproutes", "listenersets", "referencegrants", "tcproutes", "tlsroutes", "udproutes"}
	}
	var out strings.Builder
	for _, plural := range plurals {
		text, err := os.ReadFile(filepath.Join(strings.TrimSpace(string(dir)), "config", "crd", "experimental", "gateway.networking.k8s.io_"+plural+".yaml"))
		if err != nil {
			t.Fatal(err)
		}
		out.WriteString("---\n")
		out.Write(text)
	}
	return out.String()
}
