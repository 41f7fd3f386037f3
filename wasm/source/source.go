// Package source fetches modules: from files, OCI image layouts and HTTP servers. No declared size is believed; what is
// read is counted.
package source

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"os"

	"github.com/chancery-gateway/chancery/wasm/fault"
)

// Limits of what a source may hand out, in bytes.
const (
	// MaxModule bounds a module, and an archive that holds one, before and after decompression.
	MaxModule = 64 << 20
	// maxDocument bounds the documents of an OCI layout and signature files.
	maxDocument = 1 << 20
)

// Artifact is what was fetched.
type Artifact struct {
	Module []byte
	// Signature is the detached signature file, nil where there is none.
	Signature []byte
}

// Source is a place where a module comes from. Errors carry a code of package fault; those that may pass by themselves
// are marked temporary.
type Source interface {
	Fetch(ctx context.Context) (*Artifact, error)
	// Remote sources may change what they hand out without the operator's doing.
	Remote() bool
	// String names the source for people.
	String() string
}

// SignatureSuffix is what the name of a module's signature file adds to the module's.
const SignatureSuffix = ".sig"

// File is a module in a file.
type File struct{ Path string }

// Remote returns false.
func (File) Remote() bool { return false }

// String returns the path.
func (f File) String() string { return f.Path }

// Fetch reads the file, and its signature where there is one beside it.
func (f File) Fetch(ctx context.Context) (*Artifact, error) {
	module, err := readFile(f.Path, MaxModule)
	if err != nil {
		return nil, err
	}
	signature, err := readFile(f.Path+SignatureSuffix, maxDocument)
	if err != nil && !fault.Is(err, fault.NotFound) {
		return nil, err
	}
	return &Artifact{Module: module, Signature: signature}, ctx.Err()
}

// readFile reads a regular file of at most limit bytes.
func readFile(path string, limit int64) ([]byte, error) {
	info, err := os.Stat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, fault.Retry(fault.NotFound, "%w", err)
	case err != nil:
		return nil, fault.Retry(fault.Fetch, "%w", err)
	case !info.Mode().IsRegular():
		return nil, fault.New(fault.Fetch, "%s is no regular file", path)
	}
	file, err := os.Open(path)
	if err != nil {
		return nil, fault.Retry(fault.Fetch, "%w", err)
	}
	defer file.Close()
	return readAll(file, limit, path)
}

// readAll reads to the end, and refuses more than limit bytes after having read just one too many.
func readAll(r io.Reader, limit int64, what string) ([]byte, error) {
	data, err := io.ReadAll(io.LimitReader(r, limit+1))
	if int64(len(data)) > limit {
		return nil, fault.New(fault.Size, "%s has more than %d bytes", what, limit)
	}
	if err != nil {
		return nil, fault.Retry(fault.Fetch, "reading %s: %w", what, err)
	}
	return data, nil
}
