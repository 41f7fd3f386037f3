package validator

import (
	"errors"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"syscall"
	"time"
)

// folderPrefix begins the name of every child's folder, which holds its sockets and its bootstrap.
const folderPrefix = "chancery-validator-"

// settled is the age from which a folder or file that nobody serves or has finished is nobody's: until then it may be under way.
const settled = time.Minute

// sweepFolders removes the folders of children whose Chancery was killed. A folder whose socket is answered has an owner, and
// those of other users are let be.
func sweepFolders(log *slog.Logger) {
	found, err := filepath.Glob(filepath.Join(os.TempDir(), folderPrefix+"*"))
	if err != nil {
		return // the pattern is good
	}
	for _, dir := range found {
		info, err := os.Lstat(dir)
		if err != nil || !info.IsDir() {
			continue
		}
		if s, ok := info.Sys().(*syscall.Stat_t); !ok || int(s.Uid) != os.Geteuid() || !abandoned(dir, info.ModTime()) {
			continue
		}
		if err := os.RemoveAll(dir); err != nil {
			log.Warn("the folder of a validating Envoy that is gone cannot be removed", "folder", dir, "error", err)
			continue
		}
		log.Info("removed the folder of a validating Envoy that is gone", "folder", dir)
	}
}

// abandoned reports whether nobody serves a folder's socket any more.
func abandoned(dir string, changed time.Time) bool {
	c, err := net.DialTimeout("unix", filepath.Join(dir, adsSocket), time.Second)
	switch {
	case err == nil:
		c.Close() // the owner takes it for a client that went away
		return false
	case errors.Is(err, syscall.ECONNREFUSED):
		return true
	case errors.Is(err, syscall.ENOENT): // not yet, or not any more
		return time.Since(changed) > settled
	}
	return false
}

// sweepFiles removes what a save left that was killed before it was done.
func sweepFiles(path string) {
	found, err := filepath.Glob(path + ".*.tmp")
	if err != nil {
		return // a folder with signs of a pattern in its name: nothing is lost but some bytes
	}
	for _, name := range found {
		if info, err := os.Lstat(name); err == nil && info.Mode().IsRegular() && time.Since(info.ModTime()) > settled {
			os.Remove(name) // best effort
		}
	}
}
