//go:build !unix

package files

import "io/fs"

func inode(fs.FileInfo) uint64 { return 0 }

// identity tells a folder from another one that stands in its place.
type identity struct{}

func identify(fs.FileInfo) identity { return identity{} }
