package gateway

import (
	"crypto/sha1" // RFC 9562, version 5: a name, no security
	"encoding/hex"
	"fmt"
	"net"
	"net/http"
	"slices"

	"github.com/chancery-gateway/chancery/runtime/health"
	"github.com/chancery-gateway/chancery/runtime/settings"
	"github.com/chancery-gateway/chancery/runtime/watt"
	"github.com/chancery-gateway/chancery/snapshot"
)

// listenForSnapshots takes the addresses on which snapshots are shown. An address that nobody asked for and another program
// has is done without.
func (g *Gateway) listenForSnapshots() (all []net.Listener, err error) {
	if !g.options.Snapshots {
		return nil, nil
	}
	for _, a := range []struct{ address, setting string }{
		{g.settings.SnapshotAddress, "snapshot-address"}, {g.settings.SnapshotExternalAddress, "snapshot-external-address"},
	} {
		if a.address == "" {
			continue
		}
		l, err := listen("tcp", a.address, "the snapshot server's address", a.setting)
		asked := slices.ContainsFunc(g.settings.Origins(), func(o settings.Origin) bool { return o.Name == a.setting && o.Source != "default" })
		switch {
		case err == nil:
			all = append(all, l)
		case asked:
			for _, l := range all {
				l.Close()
			}
			return nil, err
		default:
			g.log.Warn("snapshots are not shown", "error", err)
		}
	}
	return all, nil
}

// snapshotHandler shows the source's newest snapshot, whose Secrets have no values: /snapshot to this machine,
// /snapshot-external to everyone.
func (g *Gateway) snapshotHandler() http.Handler {
	write := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		s := g.newest.Load()
		if s == nil {
			http.Error(w, "there is no snapshot yet", http.StatusServiceUnavailable)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		_ = watt.Write(w, s, watt.Meta{ // the client went away; nobody is left to be told
			ClusterID: g.clusterID(s), AmbassadorID: g.settings.AmbassadorID, AmbassadorVersion: g.options.Version,
		})
	})
	mux := http.NewServeMux()
	mux.Handle("GET /snapshot", health.Local(write))
	mux.Handle("GET /snapshot-external", write)
	return mux
}

// clusterID is the id that is set, else Emissary's: a UUID of the UID of the first namespace.
func (g *Gateway) clusterID(s *snapshot.Snapshot) string {
	if id := g.settings.ClusterID; id != "" {
		return id
	}
	root, name := "00000000-0000-0000-0000-000000000000", "default"
	if g.settings.SingleNamespace {
		name = g.settings.Namespace
	}
	if o := s.Get(snapshot.KindNamespace, "", name); o != nil && o.UID != "" {
		root = o.UID
	}
	space, _ := hex.DecodeString("6ba7b8119dad11d180b400c04fd430c8") // RFC 9562: names that are URLs
	h := sha1.New()
	h.Write(space)
	fmt.Fprintf(h, "d6e_id://%s/%s", root, g.settings.AmbassadorID)
	b := h.Sum(nil)[:16]
	b[6], b[8] = b[6]&0x0f|0x50, b[8]&0x3f|0x80
	return fmt.Sprintf("%x-%x-%x-%x-%x", b[:4], b[4:6], b[6:8], b[8:10], b[10:])
}
