package supply

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/chancery-gateway/chancery/policies"
)

// kept is how many revisions are kept for a rollback.
const kept = 10

// Revision is one revision of the rules of all paths that is kept.
type Revision struct {
	// Digest identifies the content; Bundle is the name that bundles give themselves, "" for none.
	Digest string    `json:"digest"`
	Bundle string    `json:"bundle,omitempty"`
	Taken  time.Time `json:"taken"`
	// InForce is set for the one that governs, RolledBack beside it when an operator chose it.
	InForce    bool `json:"inForce,omitempty"`
	RolledBack bool `json:"rolledBack,omitempty"`

	sources []content
	supply  *policies.Supply
}

// content is what one path held.
type content struct {
	Path     string `json:"path"`
	Revision string `json:"revision,omitempty"`
	ETag     string `json:"etag,omitempty"`
	Files    tree   `json:"files"`
}

// record is what outlives the process.
type record struct {
	// Highest are the highest revisions that were taken, by path; lower ones are refused.
	Highest map[string]string `json:"highest"`
	// Revisions are those that are kept, the newest last.
	Revisions []*Revision `json:"revisions"`
	// Chosen is the digest that an operator rolled back to, "" for none; it holds until the paths hold something else than Instead.
	Chosen  string `json:"chosen,omitempty"`
	Instead string `json:"instead,omitempty"`
}

// store is a folder with the record and the content of each revision; "" keeps everything in memory.
type store struct {
	dir string
	log *slog.Logger
}

const recordName = "record.json"

func (s store) file(digest string) string { return filepath.Join(s.dir, digest+".json.gz") }

// load reads the record. One that cannot be read is an error: to go on without it would let an older bundle in.
func (s store) load() (*record, error) {
	r := &record{Highest: map[string]string{}}
	if s.dir == "" {
		return r, nil
	}
	text, err := os.ReadFile(filepath.Join(s.dir, recordName))
	if errors.Is(err, fs.ErrNotExist) {
		return r, nil
	}
	if err == nil {
		err = json.Unmarshal(text, r)
	}
	if err != nil {
		return nil, fmt.Errorf("what was kept of the rules cannot be read; remove %s to start anew: %w", s.dir, err)
	}
	if r.Highest == nil {
		r.Highest = map[string]string{}
	}
	for _, one := range r.Revisions {
		if one.sources, err = s.content(one.Digest); err != nil {
			s.log.Warn("a kept revision of the rules is gone", "digest", one.Digest, "error", err)
		}
	}
	r.Revisions = slices.DeleteFunc(r.Revisions, func(one *Revision) bool { return one.sources == nil })
	return r, nil
}

func (s store) content(digest string) (out []content, err error) {
	if strings.Trim(digest, "0123456789abcdef") != "" || digest == "" {
		return nil, fmt.Errorf("%q is no digest", digest)
	}
	f, err := os.Open(s.file(digest))
	if err != nil {
		return nil, err
	}
	defer f.Close()
	z, err := gzip.NewReader(f)
	if err != nil {
		return nil, err
	}
	err = json.NewDecoder(io.LimitReader(z, 4*maxTotal)).Decode(&out)
	return out, err
}

// save writes the record and what is new, and removes what is not kept any more. A failure costs only what outlives the process.
func (s store) save(r *record) {
	if s.dir == "" {
		return
	}
	if err := s.write(r); err != nil {
		s.log.Warn("the revisions of the rules are not kept on disk", "error", err)
	}
}

func (s store) write(r *record) error {
	if err := os.MkdirAll(s.dir, 0o700); err != nil {
		return err
	}
	wanted := map[string]bool{recordName: true}
	for _, one := range r.Revisions {
		name := s.file(one.Digest)
		wanted[filepath.Base(name)] = true
		if _, err := os.Stat(name); err == nil {
			continue
		}
		var b bytes.Buffer
		z := gzip.NewWriter(&b)
		if err := errors.Join(json.NewEncoder(z).Encode(one.sources), z.Close(), replace(name, b.Bytes())); err != nil {
			return err
		}
	}
	text, err := json.MarshalIndent(r, "", "  ")
	if err == nil {
		err = replace(filepath.Join(s.dir, recordName), text)
	}
	if err != nil {
		return err
	}
	entries, err := os.ReadDir(s.dir)
	for _, e := range entries {
		if !wanted[e.Name()] {
			err = errors.Join(err, os.Remove(filepath.Join(s.dir, e.Name())))
		}
	}
	return err
}

// replace writes a file so that it is never seen half written.
func replace(name string, data []byte) error {
	f, err := os.CreateTemp(filepath.Dir(name), ".new-*")
	if err != nil {
		return err
	}
	_, err = f.Write(data)
	err = errors.Join(err, f.Sync(), f.Close())
	if err == nil {
		err = os.Rename(f.Name(), name)
	}
	if err != nil {
		os.Remove(f.Name())
	}
	return err
}

// sources makes sources that hold what the revision held, without any that the key did not sign.
func (r *Revision) restore(key *Key) ([]*source, error) {
	var out []*source
	for _, c := range r.sources {
		s := &source{path: c.Path, key: key, tree: c.Files, revision: c.Revision, etag: c.ETag, good: true}
		if key != nil {
			if err := c.Files.verify(*key); err != nil {
				return nil, fmt.Errorf("%s: %w", c.Path, err)
			}
		}
		out = append(out, s)
	}
	return out, nil
}
