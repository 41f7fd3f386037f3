package endtoend

import (
	"fmt"
	"net"
	"os"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/chancery-gateway/chancery/snapshot/porttest"
)

// TestAPortThatIsShared: whoever else listens on a port of Envoy's is told of with his process, until he leaves; Envoy's own
// workers and the processes on other ports are not.
func TestAPortThatIsShared(t *testing.T) {
	port := porttest.Free(t, 1)[0]
	b := newBackend(t, "a", nil)
	g := start(t, map[string]string{"a.yaml": join(
		object("Listener", "clear", fmt.Sprintf("port: %d, protocol: HTTP, securityModel: XFP, hostBinding: {namespace: {from: ALL}}", port)),
		object("Host", "web", "hostname: web.example.com, requestPolicy: {insecure: {action: Route}}"),
		object("Mapping", "web", fmt.Sprintf("hostname: web.example.com, prefix: /, service: \"127.0.0.1:%d\"", b.port)),
	)})
	eventually(t, "Envoy listens", func() bool {
		_, err := ask(t, "GET", fmt.Sprintf("http://127.0.0.1:%d/", port), "web.example.com", nil)
		return err == nil
	})
	share := net.ListenConfig{Control: func(_, _ string, c syscall.RawConn) error {
		var failed error
		err := c.Control(func(fd uintptr) { failed = unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_REUSEPORT, 1) })
		if err != nil {
			return err
		}
		return failed
	}}
	l, err := share.Listen(t.Context(), "tcp", fmt.Sprintf("127.0.0.1:%d", port))
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	eventually(t, "the finding", func() bool {
		said := g.finding("CH-RUN-003", "Listener/clear")
		return strings.Contains(said, fmt.Sprintf("process %d ", os.Getpid())) && strings.Contains(said, fmt.Sprintf("127.0.0.1:%d too", port))
	})
	l.Close()
	eventually(t, "the finding is gone", func() bool { return g.finding("CH-RUN-003", "Listener/clear") == "" })
}
