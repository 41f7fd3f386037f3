// Package library holds Chancery's own policies. Nothing of it is in force until a Policy object or a setting names it.
package library

import (
	"embed"
	"io/fs"
	"slices"
	"strings"

	"github.com/chancery-gateway/chancery/policies/engine"
)

//go:embed *.rego
var files embed.FS

// Names returns the names of the policies, sorted.
func Names() []string {
	var out []string
	for _, m := range Modules() {
		if name, ok := strings.CutSuffix(m.File[len(prefix):], ".rego"); ok && !m.IsTest() {
			out = append(out, name)
		}
	}
	return out
}

const prefix = "library/"

// Modules returns every file of the library, tests included, sorted by name.
func Modules() []engine.Module {
	names, _ := fs.Glob(files, "*.rego") // the pattern is right
	slices.Sort(names)
	var out []engine.Module
	for _, n := range names {
		text, err := files.ReadFile(n)
		if err == nil {
			out = append(out, engine.Module{File: prefix + n, Text: text})
		}
	}
	return out
}

// Find returns the modules of one policy.
func Find(name string) ([]engine.Module, bool) {
	text, err := files.ReadFile(name + ".rego")
	if err != nil || strings.HasSuffix(name, "_test") {
		return nil, false
	}
	return []engine.Module{{File: prefix + name + ".rego", Text: text}}, true
}
