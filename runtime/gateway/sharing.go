package gateway

import (
	"context"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	gw "sigs.k8s.io/gateway-api/apis/v1"

	"github.com/chancery-gateway/chancery/runtime/supervisor"
	"github.com/chancery-gateway/chancery/snapshot"
	"github.com/chancery-gateway/chancery/translators"
)

var codeShared = snapshot.NewCode("CH-RUN-003", "Another process listens on a listener's port",
	"Envoy's sockets allow others of the same user on their port, for the sake of hot restarts. A second gateway on one machine then gets a "+
		"part of the connections without a word, and so does whoever listens on one address of a port that Envoy has on all.",
	"End the other process, or give one of the two another port.")

// betweenLooks is the time between two looks at who listens on Envoy's ports. What the first sees only the second believes:
// Envoys take over from each other.
const betweenLooks = 5 * time.Second

// followSockets tells of processes that get connections meant for Envoy's listeners.
func (g *Gateway) followSockets(ctx context.Context) error {
	if g.options.Envoy == "" {
		return nil
	}
	tick := time.NewTicker(betweenLooks)
	defer tick.Stop()
	var last, told []snapshot.Diagnostic
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
		var now []snapshot.Diagnostic
		if status, _, ok := g.child(); ok && status.State == supervisor.Running && status.PID > 0 {
			if r := g.pipeline.Result(); r != nil {
				now = sharing(status.PID, r)
			}
		}
		if slices.Equal(now, last) && !slices.Equal(now, told) {
			g.pipeline.Add("sockets", now)
			told = now
		}
		last = now
	}
}

// socket is one that listens.
type socket struct {
	at    netip.AddrPort
	inode string
}

// sharing returns findings about the listeners whose port others have too; nil where the system does not say who listens.
func sharing(envoy int, r *translators.Result) []snapshot.Diagnostic {
	own := inodes(envoy)
	if len(own) == 0 {
		return nil
	}
	var foreign []socket
	for _, s := range listening(envoy) {
		if !slices.Contains(own, s.inode) {
			foreign = append(foreign, s)
		}
	}
	var found []snapshot.Diagnostic
	for _, l := range r.Program.Listeners {
		address, err := netip.ParseAddr(l.Address)
		if err != nil || l.UDP {
			continue
		}
		for _, s := range foreign {
			if uint32(s.at.Port()) != l.Port || !address.IsUnspecified() && s.at.Addr() != address {
				continue // where Envoy has the one address and the other all, Envoy gets its connections
			}
			d := snapshot.Diagnostic{Severity: snapshot.Error, Code: codeShared,
				Message: fmt.Sprintf("%s listens on %s too and gets connections that are meant for this Envoy", owner(s.inode), s.at), Help: "end it, or use another port"}
			if len(l.Origins) > 0 {
				o := l.Origins[0]
				if there := r.Snapshot.Get(o.GroupKind(), o.Namespace, o.Name); there != nil {
					d = there.About(d.Severity, d.Code, portField(there, l.Port), d.Message, d.Help)
				}
			}
			found = append(found, d)
		}
	}
	return snapshot.SortDiagnostics(found)
}

// portField returns the field that names the port: that of a Listener or TCPMapping, or of the first listener of a Gateway or
// ListenerSet that has it.
func portField(o *snapshot.Object, port uint32) string {
	var ports []gw.PortNumber
	switch spec := o.Spec.(type) {
	case *gw.GatewaySpec:
		for _, l := range spec.Listeners {
			ports = append(ports, l.Port)
		}
	case *gw.ListenerSetSpec:
		for _, l := range spec.Listeners {
			ports = append(ports, l.Port)
		}
	default:
		return "spec.port"
	}
	if i := slices.Index(ports, gw.PortNumber(port)); i >= 0 {
		return fmt.Sprintf("spec.listeners[%d].port", i)
	}
	return "spec.listeners"
}

// inodes returns the sockets that a process has open.
func inodes(pid int) []string {
	links, _ := filepath.Glob(fmt.Sprintf("/proc/%d/fd/*", pid)) // the pattern is right
	var out []string
	for _, l := range links {
		if to, err := os.Readlink(l); err == nil {
			if inode, is := strings.CutPrefix(to, "socket:["); is {
				out = append(out, strings.TrimSuffix(inode, "]"))
			}
		}
	}
	return out
}

// listening returns the TCP sockets that listen in the network of a process.
func listening(pid int) []socket {
	var out []socket
	for _, name := range []string{"tcp", "tcp6"} {
		text, err := os.ReadFile(fmt.Sprintf("/proc/%d/net/%s", pid, name))
		if err != nil {
			continue
		}
		for line := range strings.Lines(string(text)) {
			fields := strings.Fields(line)
			if len(fields) < 10 || fields[3] != "0A" { // the state of those that listen
				continue
			}
			if at, ok := socketAddress(fields[1]); ok {
				out = append(out, socket{at, fields[9]})
			}
		}
	}
	return out
}

// socketAddress reads an address as /proc/net writes it: words in the machine's order, each in hexadecimal.
func socketAddress(text string) (netip.AddrPort, bool) {
	host, port, _ := strings.Cut(text, ":")
	words, err := hex.DecodeString(host)
	number, portErr := strconv.ParseUint(port, 16, 16)
	if err != nil || portErr != nil || len(words)%4 != 0 {
		return netip.AddrPort{}, false
	}
	for i := 0; i < len(words); i += 4 {
		binary.NativeEndian.PutUint32(words[i:], binary.BigEndian.Uint32(words[i:]))
	}
	address, ok := netip.AddrFromSlice(words)
	return netip.AddrPortFrom(address.Unmap(), uint16(number)), ok
}

// owner names the process that has a socket, as far as this one may look.
func owner(inode string) string {
	links, _ := filepath.Glob("/proc/[0-9]*/fd/*") // the pattern is right
	for _, l := range links {
		if to, err := os.Readlink(l); err == nil && to == "socket:["+inode+"]" {
			pid := strings.Split(l, "/")[2]
			name, _ := os.ReadFile("/proc/" + pid + "/comm") // it may have ended
			return fmt.Sprintf("process %s (%s)", pid, strings.TrimSpace(string(name)))
		}
	}
	return "another process"
}
