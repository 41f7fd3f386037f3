package source

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/chancery-gateway/chancery/snapshot"
	"github.com/chancery-gateway/chancery/wasm/fault"
)

var module = []byte("\x00asm\x01\x00\x00\x00 the rest")

func write(t *testing.T, path string, data []byte) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, data, 0o644); err != nil {
		t.Fatal(err)
	}
}

func expect(t *testing.T, s Source, want []byte, code *snapshot.Code, temporary bool) {
	t.Helper()
	a, err := s.Fetch(context.Background())
	switch {
	case code == nil && err != nil:
		t.Errorf("%s: %v", s, err)
	case code == nil && !bytes.Equal(a.Module, want):
		t.Errorf("%s: %q", s, a.Module)
	case code != nil && (!fault.Is(err, code) || fault.IsTemporary(err) != temporary):
		t.Errorf("%s: %v (temporary: %v); %s was wanted (%v)", s, err, fault.IsTemporary(err), code.ID, temporary)
	}
}

func zipped(data []byte) []byte {
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	z.Write(data)
	z.Close()
	return b.Bytes()
}

type entry struct {
	name string
	data []byte
	kind byte
}

func archive(t *testing.T, entries ...entry) []byte {
	t.Helper()
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	for _, e := range entries {
		h := &tar.Header{Name: e.name, Size: int64(len(e.data)), Mode: 0o644, Typeflag: e.kind}
		if e.kind == 0 {
			h.Typeflag = tar.TypeReg
		}
		if e.kind == tar.TypeSymlink {
			h.Linkname = "/etc/passwd"
		}
		if err := w.WriteHeader(h); err != nil {
			t.Fatal(err)
		}
		if _, err := w.Write(e.data); err != nil {
			t.Fatal(err)
		}
	}
	w.Close()
	return b.Bytes()
}

func TestFile(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "m.wasm")
	expect(t, File{path}, nil, fault.NotFound, true)
	write(t, path, module)
	write(t, path+SignatureSuffix, []byte("signed"))
	a, err := (File{path}).Fetch(context.Background())
	if err != nil || string(a.Signature) != "signed" {
		t.Errorf("%+v, %v", a, err)
	}
	expect(t, File{path}, module, nil, false)
	fifo := filepath.Join(dir, "fifo.wasm")
	if err := syscall.Mkfifo(fifo, 0o600); err != nil {
		t.Fatal(err)
	}
	expect(t, File{fifo}, nil, fault.Fetch, false)
	expect(t, File{dir}, nil, fault.Fetch, false)
	large := filepath.Join(dir, "large.wasm")
	if f, err := os.Create(large); err != nil || f.Truncate(MaxModule+1) != nil {
		t.Fatal(err)
	}
	expect(t, File{large}, nil, fault.Size, false)
}

// layout writes an OCI image layout whose one manifest has the layers, and returns its folder.
func layout(t *testing.T, layers map[string][]byte) string {
	t.Helper()
	dir := t.TempDir()
	blob := func(data []byte) string {
		sum := sha256.Sum256(data)
		write(t, filepath.Join(dir, "blobs", "sha256", hex.EncodeToString(sum[:])), data)
		return "sha256:" + hex.EncodeToString(sum[:])
	}
	var list []string
	for media, data := range layers {
		list = append(list, fmt.Sprintf(`{"mediaType":%q,"digest":%q,"size":1}`, media, blob(data)))
	}
	manifest := blob(fmt.Appendf(nil, `{"schemaVersion":2,"layers":[%s]}`, strings.Join(list, ",")))
	write(t, filepath.Join(dir, "oci-layout"), []byte(`{"imageLayoutVersion":"1.0.0"}`))
	write(t, filepath.Join(dir, "index.json"), fmt.Appendf(nil,
		`{"manifests":[{"mediaType":"application/vnd.oci.image.manifest.v1+json","digest":%q,"size":99999999999999,"annotations":{%q:"v1"}}]}`, manifest, annotationTag))
	return dir
}

func TestLayout(t *testing.T) {
	const tarLayer, tarZip = "application/vnd.oci.image.layer.v1.tar", "application/vnd.oci.image.layer.v1.tar+gzip"
	for _, c := range []struct {
		name   string
		layers map[string][]byte
		code   *snapshot.Code
	}{
		{"artefact", map[string][]byte{mediaWasm: module, mediaSignature: []byte("signed")}, nil},
		{"image", map[string][]byte{tarZip: zipped(archive(t, entry{name: "plugin.wasm", data: module}))}, nil},
		{"image with a module of another name", map[string][]byte{tarLayer: archive(t, entry{name: "./x.wasm", data: module}, entry{name: "README", data: []byte("hi")})}, nil},
		{"no layer", nil, fault.Archive},
		{"two modules", map[string][]byte{mediaWasm: module, mediaWasmOld: module}, fault.Archive},
		{"link instead of a module", map[string][]byte{tarLayer: archive(t, entry{name: "plugin.wasm", kind: tar.TypeSymlink})}, fault.Archive},
		{"module in a folder only", map[string][]byte{tarLayer: archive(t, entry{name: "a/plugin.wasm", data: module})}, fault.Archive},
		{"module above the root", map[string][]byte{tarLayer: archive(t, entry{name: "../plugin.wasm", data: module})}, fault.Archive},
		{"two and no plugin.wasm", map[string][]byte{tarLayer: archive(t, entry{name: "a.wasm", data: module}, entry{name: "b.wasm", data: module})}, fault.Archive},
		{"broken gzip", map[string][]byte{tarZip: zipped(module)[:15]}, fault.Archive},
		{"nonsense", map[string][]byte{tarLayer: []byte(strings.Repeat("nonsense", 200))}, fault.Archive},
	} {
		t.Run(c.name, func(t *testing.T) { expect(t, Layout{Dir: layout(t, c.layers)}, module, c.code, false) })
	}
	dir := layout(t, map[string][]byte{mediaWasm: module})
	expect(t, Layout{Dir: dir, Tag: "v1"}, module, nil, false)
	expect(t, Layout{Dir: filepath.Join(dir, "none")}, nil, fault.NotFound, true)
	sum := sha256.Sum256(module)
	write(t, filepath.Join(dir, "blobs", "sha256", hex.EncodeToString(sum[:])), append([]byte{}, append(module, 1)...))
	expect(t, Layout{Dir: dir}, nil, fault.Digest, false)
	write(t, filepath.Join(dir, "index.json"), []byte(`{"manifests":[{"digest":"sha256:../../../etc/passwd"}]}`))
	expect(t, Layout{Dir: dir}, nil, fault.Archive, false)
}

// TestDeclaredSizes: headers that announce terabytes cost nothing, and streams that unpack to them are cut at the limit.
func TestDeclaredSizes(t *testing.T) {
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	if err := w.WriteHeader(&tar.Header{Name: "plugin.wasm", Size: 7 << 40, Mode: 0o644, Format: tar.FormatGNU}); err != nil {
		t.Fatal(err)
	}
	var bomb bytes.Buffer
	z := gzip.NewWriter(&bomb)
	zeros := make([]byte, 1<<20)
	for range 200 {
		z.Write(zeros)
	}
	z.Close()
	for name, data := range map[string][]byte{"tar": b.Bytes(), "tar in gzip": zipped(b.Bytes()), "gzip bomb": bomb.Bytes()} {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		_, err := unpack(data, 8<<20)
		runtime.ReadMemStats(&after)
		if !fault.Is(err, fault.Archive) && !fault.Is(err, fault.Size) {
			t.Errorf("%s: %v", name, err)
		}
		if used := after.TotalAlloc - before.TotalAlloc; used > 80<<20 {
			t.Errorf("%s: %d MiB were allocated", name, used>>20)
		}
	}
}

func TestHTTP(t *testing.T) {
	var status int
	body := module
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.HasSuffix(r.URL.Path, SignatureSuffix) {
			w.WriteHeader(http.StatusNotFound)
			return
		}
		if status == http.StatusFound {
			http.Redirect(w, r, r.URL.Path, status)
			return
		}
		w.WriteHeader(status)
		w.Write(body)
	}))
	defer server.Close()
	s := HTTP{URL: server.URL + "/m.wasm"}
	for _, c := range []struct {
		status    int
		code      *snapshot.Code
		temporary bool
	}{
		{200, nil, false}, {404, fault.NotFound, true}, {403, fault.Fetch, false}, {429, fault.Fetch, true},
		{500, fault.Fetch, true}, {503, fault.Fetch, true}, {302, fault.Fetch, true},
	} {
		status = c.status
		expect(t, s, module, c.code, c.temporary)
	}
	status, body = 200, zipped(module)
	expect(t, s, module, nil, false)
	body = make([]byte, MaxModule+10)
	expect(t, s, nil, fault.Size, false)
	expect(t, HTTP{URL: "ftp://example.com/m.wasm"}, nil, fault.Spec, false)
	expect(t, HTTP{URL: "http://127.0.0.1:1/m.wasm", Client: &http.Client{Timeout: time.Second}}, nil, fault.Fetch, true)
	if text := (HTTP{URL: "https://user:secret@example.com/m.wasm"}).String(); strings.Contains(text, "secret") {
		t.Errorf("%s shows the password", text)
	}
}
