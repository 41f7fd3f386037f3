package quarantine

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"github.com/chancery-gateway/chancery/snapshot"
	"github.com/chancery-gateway/chancery/snapshot/api"
)

// file holds the last good forms: magic, checksum, then gzip of one JSON object per line.
const (
	file  = "last-good.objects"
	magic = "chancery last good objects 1\n"
)

// secret is a Secret as it is written down; its content is nowhere else.
type secret struct {
	APIVersion string            `json:"apiVersion"`
	Kind       string            `json:"kind"`
	Metadata   metadata          `json:"metadata"`
	Type       string            `json:"type,omitempty"`
	Data       map[string][]byte `json:"data,omitempty"`
}

type metadata struct {
	Name        string            `json:"name"`
	Namespace   string            `json:"namespace,omitempty"`
	Labels      map[string]string `json:"labels,omitempty"`
	Annotations map[string]string `json:"annotations,omitempty"`
}

// text returns the object as JSON; nil for kinds that are not kept: endpoints come and go, and are not judged.
func text(o *snapshot.Object) ([]byte, error) {
	switch spec := o.Spec.(type) {
	case *snapshot.EndpointSlice:
		return nil, nil
	case *snapshot.Secret:
		return json.Marshal(secret{"v1", "Secret", metadata{o.Name, o.Namespace, o.Labels, o.Annotations}, spec.Type, spec.Data})
	}
	return o.Raw, nil
}

// save writes the objects in one step; only the owner may read them, for there are keys among them.
func save(dir string, s *snapshot.Snapshot) (err error) {
	if dir == "" {
		return nil
	}
	defer func() {
		if err != nil {
			err = fmt.Errorf("save last good objects: %w", err)
		}
	}()
	var body bytes.Buffer
	z, err := gzip.NewWriterLevel(&body, gzip.BestSpeed)
	if err != nil {
		return err
	}
	for _, k := range s.Kinds() {
		for o := range s.List(k) {
			line, err := text(o)
			if err != nil {
				return err
			}
			if line == nil {
				continue
			}
			if _, err := z.Write(append(slices.Clip(line), '\n')); err != nil {
				return err
			}
		}
	}
	if err := z.Close(); err != nil {
		return err
	}
	sum := sha256.Sum256(body.Bytes())
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	f, err := os.CreateTemp(dir, file+".*.tmp") // mode 0600
	if err != nil {
		return err
	}
	defer os.Remove(f.Name()) // gone after the rename
	_, err = f.Write(slices.Concat([]byte(magic), sum[:], body.Bytes()))
	if err := errors.Join(err, f.Sync(), f.Close()); err != nil {
		return err
	}
	return os.Rename(f.Name(), filepath.Join(dir, file))
}

// load returns what save wrote; nil without an error when there is nothing.
func load(dir string) (*snapshot.Snapshot, error) {
	if dir == "" {
		return nil, nil
	}
	path := filepath.Join(dir, file)
	data, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	var objects []*snapshot.Object
	if err == nil {
		objects, err = decode(data)
	}
	if err != nil {
		os.Rename(path, path+".damaged") // best effort: so that it is not met again
		return nil, fmt.Errorf("last good objects %s: %w", path, err)
	}
	return snapshot.Empty().Derive(objects, nil, nil), nil
}

func decode(data []byte) ([]*snapshot.Object, error) {
	body, found := bytes.CutPrefix(data, []byte(magic))
	if !found || len(body) < sha256.Size {
		return nil, errors.New("it does not begin as such a file does")
	}
	sum, body := [sha256.Size]byte(body), body[sha256.Size:]
	if sha256.Sum256(body) != sum {
		return nil, errors.New("its checksum is wrong")
	}
	z, err := gzip.NewReader(bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	lines, err := io.ReadAll(z)
	if err != nil {
		return nil, err
	}
	var objects []*snapshot.Object
	for line := range bytes.Lines(lines) {
		if o, _ := api.Decode(bytes.TrimSpace(line), snapshot.Source{}, nil); o != nil { // what is no object any more is of no use
			objects = append(objects, o)
		}
	}
	return objects, nil
}
