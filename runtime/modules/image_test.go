package modules

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/chancery-gateway/chancery/wasm/wasmtest"
)

// image is an OCI image layout in a folder.
type image struct {
	t   *testing.T
	dir string
}

func (i image) put(name string, text []byte) {
	i.t.Helper()
	path := filepath.Join(i.dir, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		i.t.Fatal(err)
	}
	if err := os.WriteFile(path, text, 0o600); err != nil {
		i.t.Fatal(err)
	}
}

// blob stores bytes and returns their descriptor.
func (i image) blob(media string, text []byte) map[string]any {
	sum := fmt.Sprintf("%x", sha256.Sum256(text))
	i.put("blobs/sha256/"+sum, text)
	return map[string]any{"mediaType": media, "digest": "sha256:" + sum, "size": len(text)}
}

// tag makes the tags those of images of one layer each, in place of those that there were.
func (i image) tag(layers map[string]map[string]any) {
	i.t.Helper()
	var all []any
	for tag, layer := range layers {
		manifest := i.blob("application/vnd.oci.image.manifest.v1+json", i.json(map[string]any{
			"schemaVersion": 2, "mediaType": "application/vnd.oci.image.manifest.v1+json",
			"config": i.blob("application/vnd.oci.empty.v1+json", []byte("{}")), "layers": []any{layer},
		}))
		manifest["annotations"] = map[string]string{"org.opencontainers.image.ref.name": tag}
		all = append(all, manifest)
	}
	i.put("oci-layout", []byte(`{"imageLayoutVersion":"1.0.0"}`))
	i.put("index.json", i.json(map[string]any{"schemaVersion": 2, "manifests": all}))
}

func (i image) json(v any) []byte {
	i.t.Helper()
	text, err := json.Marshal(v)
	if err != nil {
		i.t.Fatal(err)
	}
	return text
}

// packed is a layer as a container's image has it: a tar archive with the module, in gzip.
func (i image) packed(module []byte) []byte {
	i.t.Helper()
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	w := tar.NewWriter(z)
	if err := w.WriteHeader(&tar.Header{Name: "plugin.wasm", Mode: 0o644, Size: int64(len(module)), Typeflag: tar.TypeReg}); err != nil {
		i.t.Fatal(err)
	}
	for _, write := range []func() error{func() error { _, err := w.Write(module); return err }, w.Close, z.Close} {
		if err := write(); err != nil {
			i.t.Fatal(err)
		}
	}
	return b.Bytes()
}

// TestImage is a module's life as a tag of an OCI image layout that a Translator names: taken, replaced when the tag moves to an image of
// another form, and kept when the tag moves to an image whose layer is broken, or goes.
func TestImage(t *testing.T) {
	i := image{t, t.TempDir()}
	translator := fmt.Sprintf(`
apiVersion: chancery.dev/v1alpha1
kind: Translator
metadata: {name: t, namespace: gateways}
spec:
  source: {oci: {dir: %q, tag: live}}
  grant: {phases: [ir], reads: ["*"], writes: [{kind: ir/VirtualHost}], namespaces: ["*"], limits: {milliseconds: 60000}}
  settings: {label: team, header: x-team}
  shadow: {}
`, i.dir)
	first := i.blob("application/wasm", wasmtest.Example(t, "header", "1.0.0"))
	i.tag(map[string]map[string]any{"live": first, "other": i.blob("application/wasm", []byte("no module"))})

	// A folder of its own: which version was the highest is kept there.
	m, err := New(Options{Namespaces: []string{"gateways"}, CacheDir: filepath.Join(t.TempDir(), "modules")})
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	s := world(t, base+"---"+translator)
	c := newCompiler(m)
	expect := func(version, header string, wants ...string) {
		t.Helper()
		m.Host().Look()
		if err := m.Settle(t.Context()); err != nil {
			t.Fatal(err)
		}
		found := m.Findings()
		if len(wants) == 0 && len(found) > 0 {
			t.Error(found)
		}
		if len(wants) > 0 {
			if len(found) != 1 || found[0].Object.Kind != "Translator" {
				t.Fatalf("found %v", found)
			}
			contains(t, "the finding", found[0].Message, wants...)
		}
		if live := m.Host().Status()[0].Live; live == nil || live.Version != version {
			t.Errorf("live is %+v, not %s", live, version)
		}
		contains(t, "the program", everything(t, c.Compile(s))["program"], header)
	}
	m.Take(s)
	expect("1.0.0", `{"name":"x-team","value":"red"}`)

	second := wasmtest.Example(t, "header", "1.1.0", "header{settings.Header, value}", `header{settings.Header, "second " + value}`)
	i.tag(map[string]map[string]any{"live": i.blob("application/vnd.oci.image.layer.v1.tar+gzip", i.packed(second))})
	expect("1.1.0", `{"name":"x-team","value":"second red"}`)

	broken := i.blob("application/wasm", wasmtest.Example(t, "header", "1.2.0"))
	i.put("blobs/sha256/"+strings.TrimPrefix(broken["digest"].(string), "sha256:"), []byte("\x00asm, cut off"))
	i.tag(map[string]map[string]any{"live": broken})
	expect("1.1.0", `{"name":"x-team","value":"second red"}`, "at fetch", "CH-WASM-003", "version 1.1.0")

	i.tag(map[string]map[string]any{"one": first, "other": first})
	expect("1.1.0", `{"name":"x-team","value":"second red"}`, "at fetch", "CH-WASM-002", ":live", "version 1.1.0")
}
