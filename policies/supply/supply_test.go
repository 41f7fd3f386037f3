package supply

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"errors"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

const rego = "package chancery.admission.p\n\ndeny contains \"x\" if input.object.kind\n"

// folder writes files to a temporary folder.
func folder(t *testing.T, files map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for name, text := range files {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// archive makes a tar.gz of files.
func archive(t *testing.T, files map[string]string) []byte {
	t.Helper()
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	w := tar.NewWriter(z)
	for name, text := range files {
		if err := w.WriteHeader(&tar.Header{Name: "./" + name, Mode: 0o644, Size: int64(len(text)), Typeflag: tar.TypeReg}); err != nil {
			t.Fatal(err)
		}
		if _, err := w.Write([]byte(text)); err != nil {
			t.Fatal(err)
		}
	}
	if err := errors.Join(w.Close(), z.Close()); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func keys(t *testing.T) (private string, public Key) {
	t.Helper()
	k, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	der, err := x509.MarshalPKCS8PrivateKey(k)
	if err != nil {
		t.Fatal(err)
	}
	pub, err := x509.MarshalPKIXPublicKey(&k.PublicKey)
	if err != nil {
		t.Fatal(err)
	}
	return string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der})), Key{ID: "k1", PEM: string(pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: pub}))}
}

// code returns the code of an error of Read, "" for none.
func code(t *testing.T, err error) string {
	t.Helper()
	var u *Unusable
	if err == nil {
		return ""
	}
	if !errors.As(err, &u) {
		t.Fatal(err)
	}
	return u.Finding.Code.ID
}

func TestRead(t *testing.T) {
	dir := folder(t, map[string]string{
		"a.rego": rego, "sub/b.rego": rego, "sub/data.json": `{"x": 1}`, ".manifest": `{"revision": "7"}`, ".hidden/c.rego": rego, "README.md": "text",
		"p.yaml":   "apiVersion: chancery.dev/v1alpha1\nkind: Policy\nmetadata: {name: p}\nspec: {library: tls_floor}\n---\napiVersion: v1\nkind: Service\nmetadata: {name: s}\n",
		"bad.yaml": "a: [",
	})
	s, err := Read(context.Background(), []string{dir}, nil)
	if err != nil {
		t.Fatal(err)
	}
	if len(s.Modules) != 2 || len(s.Objects) != 1 || s.Revision != "7" || len(s.Findings) != 1 || s.Data.String() != `{"sub": {"x": 1}}` {
		t.Errorf("%d modules, %d objects, revision %q, findings %v, data %v", len(s.Modules), len(s.Objects), s.Revision, s.Findings, s.Data)
	}
}

func TestBroken(t *testing.T) {
	good := archive(t, map[string]string{"a.rego": rego})
	write := func(name string, data []byte) string {
		path := filepath.Join(t.TempDir(), name)
		if err := os.WriteFile(path, data, 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	for name, c := range map[string]struct{ path, code string }{
		"good":      {write("a.tar.gz", good), ""},
		"truncated": {write("a.tar.gz", good[:len(good)/2]), "CH-POLICY-080"},
		"no tar":    {write("a.tar.gz", []byte("hello, this is no archive at all")), "CH-POLICY-080"},
		"missing":   {filepath.Join(t.TempDir(), "none"), "CH-POLICY-080"},
		"delta":     {write("a.tar.gz", archive(t, map[string]string{"patch.json": `{"data": []}`})), "CH-POLICY-082"},
		"manifest":  {write("a.tar.gz", archive(t, map[string]string{"a.rego": rego, ".manifest": "["})), "CH-POLICY-080"},
	} {
		_, err := Read(context.Background(), []string{c.path}, nil)
		if got := code(t, err); got != c.code {
			t.Errorf("%s: %q, want %q: %v", name, got, c.code, err)
		}
	}
}

func TestSignatures(t *testing.T) {
	private, public := keys(t)
	_, other := keys(t)
	renamed := public
	renamed.ID = "k2"
	signed := func(change func(dir string)) string {
		dir := folder(t, map[string]string{"a.rego": rego, "data.json": `{"a": [1, 2]}`, ".manifest": `{"revision": "1"}`})
		signature, err := Sign(dir, private, "k1")
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, signatures), signature, 0o600); err != nil {
			t.Fatal(err)
		}
		change(dir)
		return dir
	}
	edit := func(name, text string) func(string) {
		return func(dir string) {
			if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
		}
	}
	for name, c := range map[string]struct {
		dir string
		key Key
		ok  bool
	}{
		"good":         {signed(func(string) {}), public, true},
		"wrong key":    {signed(func(string) {}), other, false},
		"wrong id":     {signed(func(string) {}), renamed, false},
		"no id":        {signed(func(string) {}), Key{PEM: public.PEM}, false},
		"edited":       {signed(edit("a.rego", rego+"\n")), public, false},
		"added":        {signed(edit("b.rego", rego)), public, false},
		"removed":      {signed(func(dir string) { os.Remove(filepath.Join(dir, "a.rego")) }), public, false},
		"unsigned":     {folder(t, map[string]string{"a.rego": rego}), public, false},
		"delta":        {signed(edit("patch.json", `{"data": []}`)), public, false},
		"no signature": {signed(edit(signatures, `{"signatures": []}`)), public, false},
		"plugin":       {signed(edit(signatures, `{"signatures": ["x"], "plugin": "none"}`)), public, false},
	} {
		_, err := Read(context.Background(), []string{c.dir}, &c.key)
		if (err == nil) != c.ok {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestWatch: a good change is taken, a broken or older one is not and is told, and a kept revision comes back.
func TestWatch(t *testing.T) {
	dir := folder(t, map[string]string{"a.rego": rego, ".manifest": `{"revision": "1.5"}`})
	w, err := New(context.Background(), []string{dir}, Options{})
	if err != nil {
		t.Fatal(err)
	}
	first := w.Current()
	write := func(name, text string) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		os.Chtimes(filepath.Join(dir, name), time.Now(), time.Now().Add(time.Duration(len(text))*time.Second))
	}
	if w.look(context.Background(), false) {
		t.Error("nothing changed")
	}
	write("b.rego", rego)
	if !w.look(context.Background(), false) || len(w.Current().Modules) != 2 {
		t.Fatal("the new file is not there")
	}
	write(".manifest", `{"revision": "1.4"}`)
	if !w.look(context.Background(), false) || len(w.Current().Findings) != 1 || w.Current().Findings[0].Code.ID != "CH-POLICY-083" || w.Current().Revision != "1.5" {
		t.Errorf("a lower revision: %v %q", w.Current().Findings, w.Current().Revision)
	}
	write(".manifest", `{"revision": "1.10"}`)
	if !w.look(context.Background(), false) || w.Current().Revision != "1.10" || len(w.Current().Findings) != 0 {
		t.Errorf("a higher revision: %v %q", w.Current().Findings, w.Current().Revision)
	}
	if err := w.Rollback(first.Digest); err != nil || w.Current().Digest != first.Digest || w.Rollback("none") == nil {
		t.Error("no way back")
	}
	if err := os.RemoveAll(dir); err != nil {
		t.Fatal(err)
	}
	stays := func(what, want string) {
		t.Helper()
		w.look(context.Background(), false)
		var codes []string
		for _, d := range w.Current().Findings {
			if d.Code.ID != "CH-POLICY-085" { // of the rollback
				codes = append(codes, d.Code.ID)
			}
		}
		if len(w.Current().Modules) == 0 || strings.Join(codes, " ") != want {
			t.Errorf("%s: %d modules and findings %q, not %q", what, len(w.Current().Modules), codes, want)
		}
	}
	stays("the folder vanishes", "CH-POLICY-080")
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	stays("an empty one is there", "CH-POLICY-086")
	write(".manifest", `{"revision": "1.11"}`)
	stays("of the rules only what is said about them is back", "CH-POLICY-086")
	write("a.rego", rego)
	write("b.rego", rego)
	stays("the rules are back", "")
}

// TestHTTP: the second request carries the entity tag, and an answer of 304 changes nothing.
func TestHTTP(t *testing.T) {
	var asked, unchanged atomic.Int64
	body := archive(t, map[string]string{"a.rego": rego})
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked.Add(1)
		if r.Header.Get("If-None-Match") == `"v1"` {
			unchanged.Add(1)
			w.WriteHeader(http.StatusNotModified)
			return
		}
		w.Header().Set("ETag", `"v1"`)
		w.Write(body)
	}))
	defer server.Close()
	w, err := New(context.Background(), []string{server.URL + "/bundle.tar.gz"}, Options{})
	if err != nil {
		t.Fatal(err)
	}
	if w.look(context.Background(), true) || unchanged.Load() != 1 || len(w.Current().Modules) != 1 {
		t.Errorf("asked %d times, unchanged %d", asked.Load(), unchanged.Load())
	}
	server.Close()
	if w.look(context.Background(), true); len(w.Current().Modules) != 1 {
		t.Error("a server that is gone takes the rules with it")
	}
}

func TestLayout(t *testing.T) {
	layer := archive(t, map[string]string{"a.rego": rego})
	image, err := json.Marshal(map[string]any{"layers": []any{map[string]any{"mediaType": "application/vnd.oci.image.layer.v1.tar+gzip", "digest": "sha256:" + sum(layer)}}})
	if err != nil {
		t.Fatal(err)
	}
	files := map[string]string{
		"oci-layout": `{"imageLayoutVersion": "1.0.0"}`, "index.json": `{"manifests": [{"digest": "sha256:` + sum(image) + `"}]}`,
		"blobs/sha256/" + sum(image): string(image), "blobs/sha256/" + sum(layer): string(layer),
	}
	if s, err := Read(context.Background(), []string{folder(t, files)}, nil); err != nil || len(s.Modules) != 1 {
		t.Fatal(err)
	}
	files["blobs/sha256/"+sum(layer)] = string(archive(t, map[string]string{"evil.rego": rego}))
	if _, err := Read(context.Background(), []string{folder(t, files)}, nil); code(t, err) != "CH-POLICY-080" {
		t.Errorf("a blob that is not what its name says: %v", err)
	}
}
