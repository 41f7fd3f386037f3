//go:build unix

package files

import (
	"io/fs"
	"syscall"
)

// inode tells a file that was put in place of another of the same size and time.
func inode(info fs.FileInfo) uint64 {
	if s, ok := info.Sys().(*syscall.Stat_t); ok {
		return uint64(s.Ino)
	}
	return 0
}

// identity tells a folder from another one that stands in its place.
type identity struct{ device, inode uint64 }

func identify(info fs.FileInfo) identity {
	if s, ok := info.Sys().(*syscall.Stat_t); ok {
		return identity{uint64(s.Dev), uint64(s.Ino)}
	}
	return identity{}
}
