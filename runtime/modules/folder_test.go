package modules

import (
	"os"
	"path/filepath"
	"testing"
)

// TestFaultsOfAFolderNameTheirFile: what is wrong with NAME.json is said of that, and what is wrong with the module of NAME.wasm.
func TestFaultsOfAFolderNameTheirFile(t *testing.T) {
	module, err := os.ReadFile(example(t, "header"))
	if err != nil {
		t.Fatal(err)
	}
	const settings = `{"settings": {"label": "team", "header": "x-team"}}`
	for _, c := range []struct {
		name, document string
		module         []byte
		want           string // the file that the one finding is about, "" for none
	}{
		{"good", settings, module, ""},
		{"no JSON", `{"settings": `, module, "m.json"},
		{"an unknown field", `{"sittings": {}}`, module, "m.json"},
		{"wrong settings", `{"settings": {"label": ""}}`, module, "m.json"},
		{"no settings", "", module, "m.wasm"}, // there is no m.json
		{"another digest", `{"sha256": "` + "abababababababababababababababababababababababababababababababab" + `"}`, module, "m.json"},
		{"no module", settings, []byte("no module"), "m.wasm"},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir := t.TempDir()
			files := map[string][]byte{"m.wasm": c.module}
			if c.document != "" {
				files["m.json"] = []byte(c.document)
			}
			for name, text := range files {
				if err := os.WriteFile(filepath.Join(dir, name), text, 0o600); err != nil {
					t.Fatal(err)
				}
			}
			found := fromFolder(t, dir)
			switch {
			case c.want == "" && len(found) > 0:
				t.Error(found)
			case c.want != "" && (len(found) != 1 || found[0] != filepath.Join(dir, c.want)):
				t.Errorf("the findings are about %q, not %s", found, c.want)
			}
		})
	}
	gone := filepath.Join(t.TempDir(), "gone")
	if found := fromFolder(t, gone); len(found) != 1 || found[0] != gone {
		t.Errorf("of a folder that is not there the findings are about %q", found)
	}
}

// fromFolder returns the files that the findings about the modules of a folder name.
func fromFolder(t *testing.T, dir string) []string {
	t.Helper()
	m, err := New(Options{Folder: dir, CacheDir: cacheDir})
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	m.Take(world(t, base))
	if err := m.Settle(t.Context()); err != nil {
		t.Fatal(err)
	}
	var files []string
	for _, d := range m.Findings() {
		t.Log(d)
		files = append(files, d.Position.File)
	}
	return files
}
