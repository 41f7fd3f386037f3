package supply

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/open-policy-agent/opa/v1/ast"

	"github.com/chancery-gateway/chancery/policies"
	policy "github.com/chancery-gateway/chancery/policies/api"
	"github.com/chancery-gateway/chancery/policies/engine"
	"github.com/chancery-gateway/chancery/snapshot"
	"github.com/chancery-gateway/chancery/snapshot/api"
	"github.com/chancery-gateway/chancery/snapshot/manifest"
)

func sum(data []byte) string {
	s := sha256.Sum256(data)
	return hex.EncodeToString(s[:])
}

// Read reads every path once: a .rego file, a manifest with Policy objects, a folder, an archive or OPA bundle, an OCI image
// layout, or a web address. With a key only bundles that it signed are taken. The error is about the paths themselves; what
// is wrong inside is in the supply's findings. Tests (_test.rego) are among the modules.
func Read(ctx context.Context, paths []string, key *Key) (*policies.Supply, error) {
	return join(newSources(paths, key), func(s *source) error { return s.refresh(ctx) })
}

// source is one path with what was read of it.
type source struct {
	path string
	key  *Key
	tree tree
	// etag is that of a web address, stamp the state of files when they were read.
	etag, stamp string
	// revision is that of tree, highest the highest that was ever taken; "" for none.
	revision, highest string
	failure           *snapshot.Diagnostic
	// refused is what was wrong with what the path held when it was last read, nil for nothing.
	refused *snapshot.Diagnostic
	good    bool
}

// name is the path by which it is known from run to run.
func (s *source) name() string {
	if strings.Contains(s.path, "://") {
		return s.path
	}
	if abs, err := filepath.Abs(s.path); err == nil {
		return abs
	}
	return s.path
}

func newSources(paths []string, key *Key) []*source {
	out := make([]*source, len(paths))
	for i, p := range paths {
		out[i] = &source{path: p, key: key}
	}
	return out
}

func (s *source) fail(c *snapshot.Code, err error) error {
	s.failure = &snapshot.Diagnostic{Severity: snapshot.Error, Code: c, Position: snapshot.Position{File: s.path}, Message: err.Error()}
	return fmt.Errorf("%s: %w", s.path, err)
}

// refresh reads the path again. On failure what was read before stays.
func (s *source) refresh(ctx context.Context) error {
	t, err := s.load(ctx)
	if errors.Is(err, errUnchanged) {
		s.failure = s.refused // whatever kept the address from answering is over
		return nil
	}
	if err != nil {
		var p *os.PathError
		if errors.As(err, &p) {
			err = p.Err
		}
		return s.fail(codeUnreadable, err)
	}
	err = s.accept(t)
	s.refused = s.failure
	return err
}

// accept puts in force what the path holds now, if it may be.
func (s *source) accept(t tree) error {
	if !t.holds() && s.tree.holds() {
		return s.fail(codeEmptied, errors.New("there are no rules any more; those that were in force stay"))
	}
	if _, delta := t["patch.json"]; delta {
		return s.fail(codeDelta, errors.New("a delta bundle cannot be signed and is not taken"))
	}
	if s.key != nil {
		if err := t.verify(*s.key); err != nil {
			return s.fail(codeUnsigned, err)
		}
	}
	var m struct {
		Revision string `json:"revision"`
	}
	if text, ok := t[".manifest"]; ok {
		if err := json.Unmarshal(text, &m); err != nil {
			return s.fail(codeUnreadable, fmt.Errorf(".manifest: %w", err))
		}
	}
	if _, ordered := numbers(m.Revision); !ordered && s.highest != "" {
		return s.fail(codeOlder, fmt.Errorf("revision %q has no place in an order, and %s was in force", m.Revision, s.highest))
	}
	if lower(m.Revision, s.highest) {
		return s.fail(codeOlder, fmt.Errorf("revision %s is lower than %s, which was in force", m.Revision, s.highest))
	}
	if _, ordered := numbers(m.Revision); ordered {
		s.highest = m.Revision
	}
	s.tree, s.revision, s.failure, s.good = t, m.Revision, nil, true
	return nil
}

// lower compares revisions that are numbers or dotted numbers; others have no order.
func lower(a, b string) bool {
	x, okX := numbers(a)
	y, okY := numbers(b)
	return okX && okY && slices.Compare(x, y) < 0
}

func numbers(s string) (out []int, ok bool) {
	for _, part := range strings.Split(strings.TrimPrefix(s, "v"), ".") {
		n := 0
		if part == "" || len(part) > 18 {
			return nil, false
		}
		for _, c := range part {
			if c < '0' || c > '9' {
				return nil, false
			}
			n = n*10 + int(c-'0')
		}
		out = append(out, n)
	}
	return out, true
}

var errUnchanged = errors.New("unchanged")

func (s *source) load(ctx context.Context) (tree, error) {
	if strings.HasPrefix(s.path, "http://") || strings.HasPrefix(s.path, "https://") {
		return s.fetch(ctx)
	}
	info, err := os.Stat(s.path)
	if err != nil {
		return nil, err
	}
	if info.IsDir() {
		if _, err := os.Stat(filepath.Join(s.path, "oci-layout")); err == nil {
			return readLayout(s.path)
		}
		return readDir(s.path)
	}
	data, err := os.ReadFile(s.path)
	if err != nil {
		return nil, err
	}
	switch filepath.Ext(s.path) {
	case ".rego", ".yaml", ".yml", ".json":
		return tree{"": data}, nil
	}
	return readArchive(data)
}

var client = &http.Client{Timeout: 30 * time.Second}

// fetch asks a web address, with the entity tag of what is there already.
func (s *source) fetch(ctx context.Context) (tree, error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, s.path, nil)
	if err != nil {
		return nil, err
	}
	if s.etag != "" {
		r.Header.Set("If-None-Match", s.etag)
	}
	answer, err := client.Do(r)
	if err != nil {
		return nil, err
	}
	defer answer.Body.Close()
	switch answer.StatusCode {
	case http.StatusNotModified:
		return nil, errUnchanged
	case http.StatusOK:
	default:
		return nil, fmt.Errorf("the server answers %s", answer.Status)
	}
	data, err := io.ReadAll(io.LimitReader(answer.Body, maxTotal+1))
	if err != nil {
		return nil, err
	}
	t, err := readArchive(data)
	if err == nil {
		s.etag = answer.Header.Get("ETag")
	}
	return t, err
}

// join makes one supply of all sources. An error of a path that has never been good is returned; one of a path that was, is
// a finding beside what it was.
func join(sources []*source, refresh func(*source) error) (*policies.Supply, error) {
	out := &policies.Supply{}
	var digests, revisions []string
	data := map[string]any{}
	for _, s := range sources {
		if err := refresh(s); err != nil && !s.good {
			return nil, &Unusable{Path: s.path, Finding: *s.failure}
		}
		if s.failure != nil {
			out.Findings = append(out.Findings, *s.failure)
		}
		if s.revision != "" {
			revisions = append(revisions, s.revision)
		}
		for _, name := range s.tree.names() {
			text := s.tree[name]
			file := s.path
			if name != "" {
				file = path.Join(filepath.ToSlash(s.path), name)
				if strings.Contains(s.path, "://") {
					file = strings.TrimSuffix(s.path, "/") + "/" + name
				}
			}
			digests = append(digests, file+" "+sum(text))
			switch base := path.Base(file); {
			case strings.HasPrefix(base, "."):
			case strings.HasSuffix(file, ".rego"):
				out.Modules = append(out.Modules, engine.Module{File: file, Text: text})
			case base == "data.json" || base == "data.yaml":
				place(data, path.Dir(name), text, file, out)
			default:
				manifests(out, file, text)
			}
		}
	}
	if len(data) > 0 {
		delete(data, "chancery")
		v, err := ast.InterfaceToValue(data)
		if err == nil {
			out.Data, _ = v.(ast.Object)
		}
	}
	out.Revision, out.Digest = strings.Join(revisions, " "), sum([]byte(strings.Join(digests, "\n")))[:32]
	return out, nil
}

// Unusable is the error of a path of which nothing can be used.
type Unusable struct {
	Path    string
	Finding snapshot.Diagnostic
}

// Error says what is wrong.
func (u *Unusable) Error() string {
	return fmt.Sprintf("%s: %s [%s]", u.Path, u.Finding.Message, u.Finding.Code.ID)
}

// place puts a data file where its folder says (OPA docs, "Bundle File Format").
func place(data map[string]any, dir string, text []byte, file string, out *policies.Supply) {
	var doc map[string]any
	docs := manifest.Documents(file, text)
	if len(docs) == 1 && docs[0].Err == nil {
		if err := json.Unmarshal(docs[0].JSON, &doc); err == nil {
			at := data
			for _, step := range strings.Split(dir, "/") {
				if step == "." || step == "" {
					continue
				}
				next, ok := at[step].(map[string]any)
				if !ok {
					next = map[string]any{}
					at[step] = next
				}
				at = next
			}
			for k, v := range doc {
				at[k] = v
			}
			return
		}
	}
	out.Findings = append(out.Findings, snapshot.Diagnostic{Severity: snapshot.Error, Code: codeDecode, Position: snapshot.Position{File: file}, Message: "the data file holds no JSON object"})
}

// manifests takes the policy objects of a manifest; other objects are none of its business.
func manifests(out *policies.Supply, file string, text []byte) {
	for _, d := range manifest.Documents(file, text) {
		if d.Err != nil {
			out.Findings = append(out.Findings, *d.Err)
			continue
		}
		o, found := api.Decode(d.JSON, snapshot.Source{Position: d.Position, Text: d.Text}, nil)
		if o == nil {
			if strings.Contains(string(d.JSON), policy.Group) {
				out.Findings = append(out.Findings, found...)
			}
			continue
		}
		switch o.GroupKind() {
		case policy.KindPolicy, policy.KindTenant, policy.KindException:
			out.Objects = append(out.Objects, o)
		}
	}
}
