package source

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"errors"
	"io"
	"path"
	"strings"

	"github.com/chancery-gateway/chancery/wasm/fault"
)

var (
	magicWasm = []byte("\x00asm")
	magicGzip = []byte{0x1f, 0x8b}
)

// maxEntries bounds the number of entries of a tar archive that are looked at.
const maxEntries = 10_000

// unpack returns the module in data: the module itself, or one in a gzip stream, a tar archive, or both. limit bounds
// every stage by bytes that were read, never by a size that a header declares.
func unpack(data []byte, limit int64) ([]byte, error) {
	if bytes.HasPrefix(data, magicGzip) {
		z, err := gzip.NewReader(bytes.NewReader(data))
		if err != nil {
			return nil, fault.New(fault.Archive, "gzip: %w", err)
		}
		plain, err := io.ReadAll(io.LimitReader(z, limit+1))
		if int64(len(plain)) > limit {
			return nil, fault.New(fault.Size, "the archive unpacks to more than %d bytes", limit)
		}
		if err != nil {
			return nil, fault.New(fault.Archive, "gzip: %w", err)
		}
		data = plain
	}
	if bytes.HasPrefix(data, magicWasm) {
		return data, nil
	}
	return untar(data, limit)
}

// untar returns plugin.wasm at the archive's root, or else the only .wasm file there. The whole archive is in memory
// already, so that an entry can't be larger than what is left of it.
func untar(data []byte, limit int64) ([]byte, error) {
	t := tar.NewReader(bytes.NewReader(data))
	var found [][]byte
	for n := 0; ; n++ {
		h, err := t.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, fault.New(fault.Archive, "tar: %w", err)
		}
		if n == maxEntries {
			return nil, fault.New(fault.Archive, "tar: more than %d entries", maxEntries)
		}
		name := path.Clean(strings.TrimPrefix(h.Name, "/"))
		if h.Typeflag != tar.TypeReg || strings.Contains(name, "/") || path.Ext(name) != ".wasm" {
			continue
		}
		if h.Size > int64(len(data)) {
			return nil, fault.New(fault.Archive, "tar: %q is said to have %d bytes; the archive has %d", name, h.Size, len(data))
		}
		module, err := io.ReadAll(io.LimitReader(t, limit+1))
		if err != nil {
			return nil, fault.New(fault.Archive, "tar: %w", err)
		}
		if name == "plugin.wasm" {
			return module, nil
		}
		found = append(found, module)
	}
	if len(found) != 1 {
		return nil, fault.New(fault.Archive, "the archive has %d modules at its root and no plugin.wasm", len(found))
	}
	return found[0], nil
}
