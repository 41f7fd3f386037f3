package command

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"go.yaml.in/yaml/v3"

	"github.com/chancery-gateway/chancery/runtime/report"
	"github.com/chancery-gateway/chancery/runtime/settings"
	"github.com/chancery-gateway/chancery/translators"
	"github.com/chancery-gateway/chancery/translators/envoy"
	"github.com/chancery-gateway/chancery/translators/ir"
)

// emitted are the parts of a result, as --emit names them.
var emitted = []string{"static", "bootstrap", "ads", "clustermap", "ir", "diagnostics"}

// output writes the parts of a result.
type output struct {
	result   *translators.Result
	settings *settings.Settings
}

// part writes one part as JSON.
func (o output) part(w io.Writer, name string) error {
	r := o.result
	switch name {
	case "static":
		return envoy.WriteStatic(w, o.settings.Bootstrap(r.Program), r.Resources)
	case "bootstrap":
		b, err := envoy.Bootstrap(o.settings.Bootstrap(r.Program), envoy.BootstrapOptions{ADSAddress: o.settings.ADSAddress})
		if err != nil {
			return err
		}
		return envoy.WriteBootstrap(w, b)
	case "ads":
		return envoy.WriteADS(w, r.Resources, envoy.Version(r.Resources))
	case "clustermap":
		return ir.WriteClusterMap(w, r.Program, r.Resources)
	case "ir":
		return r.Program.WriteJSON(w)
	case "diagnostics":
		return report.Write(w, "json", r.Diagnostics, report.Options{})
	}
	return fmt.Errorf("no part %q", name)
}

// static returns static.json.
func (o output) static() ([]byte, error) {
	var b bytes.Buffer
	err := o.part(&b, "static")
	return b.Bytes(), err
}

// write prints one part.
func (o output) write(w io.Writer, name, format string) error {
	if format == "json" {
		b := bufio.NewWriterSize(w, 256<<10)
		if err := o.part(b, name); err != nil {
			return err
		}
		return b.Flush()
	}
	var b bytes.Buffer
	if err := o.part(&b, name); err != nil {
		return err
	}
	return toYAML(w, b.Bytes())
}

// toYAML writes JSON as YAML in block style, keys in the order they have.
func toYAML(w io.Writer, data []byte) error {
	var doc yaml.Node
	if err := yaml.Unmarshal(data, &doc); err != nil {
		return err
	}
	block(&doc)
	e := yaml.NewEncoder(w)
	e.SetIndent(2)
	if err := e.Encode(&doc); err != nil {
		return err
	}
	return e.Close()
}

func block(n *yaml.Node) {
	n.Style = 0
	for _, c := range n.Content {
		block(c)
	}
}

// writeAll writes every part to the directory. What may hold keys is readable by its owner only.
func (o output) writeAll(dir string) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	for _, name := range emitted {
		mode := os.FileMode(0o644)
		if name == "ads" || name == "static" {
			mode = 0o600
		}
		if err := o.writeFile(filepath.Join(dir, name+".json"), name, mode); err != nil {
			return err
		}
	}
	return nil
}

// writeFile replaces the file in one step, so that a reader sees the old content or the new.
func (o output) writeFile(path, name string, mode os.FileMode) (err error) {
	f, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+".*")
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			f.Close()
			os.Remove(f.Name())
		}
	}()
	w := bufio.NewWriterSize(f, 256<<10)
	if err = o.part(w, name); err != nil {
		return fmt.Errorf("%s: %w", filepath.Base(path), err)
	}
	if err = w.Flush(); err != nil {
		return err
	}
	if err = f.Chmod(mode); err != nil {
		return err
	}
	if err = f.Close(); err != nil {
		return err
	}
	return os.Rename(f.Name(), path)
}

// writeJSON writes a value as indented JSON.
func writeJSON(w io.Writer, v any) error {
	e := json.NewEncoder(w)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	return e.Encode(v)
}
