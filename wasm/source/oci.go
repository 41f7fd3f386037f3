package source

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/chancery-gateway/chancery/wasm/fault"
)

// Layout is a module in a folder of the form of the OCI image layout (OCI image specification, "image-layout"), as
// `oras copy --to-oci-layout` or `skopeo copy … oci:DIR` write it. It needs no registry.
type Layout struct {
	Dir string
	// Tag is the reference name of the manifest in index.json; "" takes the only one.
	Tag string
}

// Media types that are understood. The first is that of the CNCF artefact for WebAssembly.
const (
	mediaWasm       = "application/wasm"
	mediaWasmOld    = "application/vnd.wasm.content.layer.v1+wasm"
	mediaSignature  = "application/vnd.chancery.module.signature.v1+json"
	mediaIndex      = "application/vnd.oci.image.index.v1+json"
	annotationTag   = "org.opencontainers.image.ref.name"
	maxIndexNesting = 3
)

type descriptor struct {
	MediaType   string            `json:"mediaType"`
	Digest      string            `json:"digest"`
	Annotations map[string]string `json:"annotations"`
}

// Remote returns false: the folder is the operator's own.
func (Layout) Remote() bool { return false }

// String returns "oci:DIR:TAG".
func (l Layout) String() string {
	if l.Tag == "" {
		return "oci:" + l.Dir
	}
	return "oci:" + l.Dir + ":" + l.Tag
}

// Fetch reads index, manifest and layers. Every blob is checked against its digest.
func (l Layout) Fetch(ctx context.Context) (*Artifact, error) {
	text, err := readFile(filepath.Join(l.Dir, "index.json"), maxDocument)
	if err != nil {
		return nil, err
	}
	for range maxIndexNesting {
		var index struct {
			Manifests []descriptor `json:"manifests"`
		}
		if err := json.Unmarshal(text, &index); err != nil {
			return nil, fault.New(fault.Archive, "%s: index: %w", l, err)
		}
		chosen, err := l.choose(index.Manifests)
		if err != nil {
			return nil, err
		}
		if text, err = l.blob(chosen.Digest, maxDocument); err != nil {
			return nil, err
		}
		if chosen.MediaType != mediaIndex {
			artifact, err := l.manifest(text)
			if err == nil {
				err = ctx.Err()
			}
			return artifact, err
		}
	}
	return nil, fault.New(fault.Archive, "%s: indexes are nested more than %d deep", l, maxIndexNesting)
}

func (l Layout) choose(all []descriptor) (descriptor, error) {
	if l.Tag != "" && len(all) > 1 {
		all = slices.DeleteFunc(slices.Clone(all), func(d descriptor) bool { return d.Annotations[annotationTag] != l.Tag })
	}
	switch {
	case len(all) == 0:
		return descriptor{}, fault.Retry(fault.NotFound, "%s: the layout has no such manifest", l)
	case len(all) > 1:
		return descriptor{}, fault.New(fault.Archive, "%s: the layout has %d manifests; name one by its tag", l, len(all))
	}
	return all[0], nil
}

func (l Layout) manifest(text []byte) (*Artifact, error) {
	var manifest struct {
		Layers []descriptor `json:"layers"`
	}
	if err := json.Unmarshal(text, &manifest); err != nil {
		return nil, fault.New(fault.Archive, "%s: manifest: %w", l, err)
	}
	a := &Artifact{}
	for _, layer := range manifest.Layers {
		var err error
		switch {
		case layer.MediaType == mediaSignature:
			a.Signature, err = l.blob(layer.Digest, maxDocument)
		case layer.MediaType == mediaWasm, layer.MediaType == mediaWasmOld, strings.Contains(layer.MediaType, "tar"):
			if a.Module != nil {
				return nil, fault.New(fault.Archive, "%s: more than one layer holds a module", l)
			}
			var data []byte
			if data, err = l.blob(layer.Digest, MaxModule); err == nil {
				a.Module, err = unpack(data, MaxModule)
			}
		}
		if err != nil {
			return nil, err
		}
	}
	if a.Module == nil {
		return nil, fault.New(fault.Archive, "%s: no layer is of type %s or a tar archive", l, mediaWasm)
	}
	return a, nil
}

var digestPattern = regexp.MustCompile(`^sha256:([0-9a-f]{64})$`)

// blob reads a blob and checks its digest.
func (l Layout) blob(digest string, limit int64) ([]byte, error) {
	parts := digestPattern.FindStringSubmatch(digest)
	if parts == nil {
		return nil, fault.New(fault.Archive, "%s: %s is no sha256 digest", l, fmt.Sprintf("%.100q", digest))
	}
	data, err := readFile(filepath.Join(l.Dir, "blobs", "sha256", parts[1]), limit)
	if err != nil {
		return nil, err
	}
	if sum := sha256.Sum256(data); hex.EncodeToString(sum[:]) != parts[1] {
		return nil, fault.New(fault.Digest, "%s: blob %s has the digest sha256:%x", l, digest, sum)
	}
	return data, nil
}
