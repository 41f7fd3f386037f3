// Package supply brings rules from where they are kept: files, folders, archives, OPA bundles, OCI image layouts and web
// addresses; checks their signatures; and keeps the last good revision of each.
package supply

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
)

// The limits of one tree.
const (
	maxFile  = 4 << 20
	maxTotal = 64 << 20
	maxFiles = 5000
)

// tree is the content of a folder or archive: bytes by slash-separated name.
type tree map[string][]byte

func (t tree) names() []string { return slices.Sorted(maps.Keys(t)) }

// holds reports whether there is anything in it but what is said about it.
func (t tree) holds() bool {
	for name := range t {
		if !strings.HasPrefix(path.Base(name), ".") {
			return true
		}
	}
	return false
}

func (t tree) add(name string, r io.Reader) error {
	if len(t) >= maxFiles {
		return fmt.Errorf("more than %d files", maxFiles)
	}
	data, err := io.ReadAll(io.LimitReader(r, maxFile+1))
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	if len(data) > maxFile {
		return fmt.Errorf("%s has more than %d bytes", name, maxFile)
	}
	total := len(data)
	for _, b := range t {
		total += len(b)
	}
	if total > maxTotal {
		return fmt.Errorf("more than %d bytes in all", maxTotal)
	}
	t[name] = data
	return nil
}

// wanted reports whether a file is one that rules are made of.
func wanted(name string) bool {
	switch base := path.Base(name); {
	case base == ".manifest", base == ".signatures.json", base == "patch.json":
		return true
	case strings.HasPrefix(base, "."):
		return false
	}
	switch path.Ext(name) {
	case ".rego", ".yaml", ".yml", ".json":
		return true
	}
	return false
}

// readDir reads a folder. Folders whose names start with a dot are left out; links to files are followed.
func readDir(root string) (tree, error) {
	t := tree{}
	err := filepath.WalkDir(root, func(p string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name, err := filepath.Rel(root, p)
		if err != nil {
			return err
		}
		if d.IsDir() {
			if name != "." && strings.HasPrefix(d.Name(), ".") {
				return filepath.SkipDir
			}
			return nil
		}
		if name = filepath.ToSlash(name); !wanted(name) {
			return nil
		}
		info, err := os.Stat(p)
		if err != nil {
			return err
		}
		if !info.Mode().IsRegular() {
			return nil
		}
		f, err := os.Open(p)
		if err != nil {
			return err
		}
		defer f.Close()
		return t.add(name, f)
	})
	return t, err
}

// readArchive reads a tar archive, compressed with gzip or not.
func readArchive(data []byte) (tree, error) {
	var r io.Reader = bytes.NewReader(data)
	if bytes.HasPrefix(data, []byte{0x1f, 0x8b}) {
		z, err := gzip.NewReader(r)
		if err != nil {
			return nil, fmt.Errorf("the archive is no gzip: %w", err)
		}
		r = io.LimitReader(z, maxTotal+1<<20)
	}
	t := tree{}
	for a := tar.NewReader(r); ; {
		h, err := a.Next()
		if errors.Is(err, io.EOF) {
			return t, nil
		}
		if err != nil {
			return nil, fmt.Errorf("the archive is damaged or cut short: %w", err)
		}
		name := strings.TrimPrefix(path.Clean("/"+h.Name), "/")
		if h.Typeflag != tar.TypeReg || !wanted(name) {
			continue
		}
		if err := t.add(name, a); err != nil {
			return nil, fmt.Errorf("the archive is damaged or too large: %w", err)
		}
	}
}

// readLayout reads the first layer of an OCI image layout (OCI image specification, "Image Layout").
func readLayout(root string) (tree, error) {
	type descriptor struct {
		MediaType string `json:"mediaType"`
		Digest    string `json:"digest"`
	}
	blob := func(digest string) ([]byte, error) {
		algorithm, hex, ok := strings.Cut(digest, ":")
		if !ok || algorithm != "sha256" || strings.ContainsAny(hex, "/.") {
			return nil, fmt.Errorf("digest %q is not one of sha256", digest)
		}
		data, err := os.ReadFile(filepath.Join(root, "blobs", algorithm, hex))
		if err == nil && sum(data) != hex {
			err = fmt.Errorf("blob %s does not have the digest that it is called by", digest)
		}
		return data, err
	}
	data, err := os.ReadFile(filepath.Join(root, "index.json"))
	if err != nil {
		return nil, err
	}
	var top struct {
		Manifests []descriptor `json:"manifests"`
	}
	if err := json.Unmarshal(data, &top); err != nil || len(top.Manifests) == 0 {
		return nil, errors.New("index.json names no manifest")
	}
	if data, err = blob(top.Manifests[0].Digest); err != nil {
		return nil, err
	}
	var image struct {
		Layers []descriptor `json:"layers"`
	}
	if err := json.Unmarshal(data, &image); err != nil || len(image.Layers) == 0 {
		return nil, errors.New("the image manifest names no layer")
	}
	all := tree{}
	for _, l := range image.Layers {
		if !strings.Contains(l.MediaType, "tar") {
			continue
		}
		if data, err = blob(l.Digest); err != nil {
			return nil, err
		}
		t, err := readArchive(data)
		if err != nil {
			return nil, err
		}
		maps.Copy(all, t)
	}
	if len(all) == 0 {
		return nil, errors.New("the image has no layer with rules")
	}
	return all, nil
}
