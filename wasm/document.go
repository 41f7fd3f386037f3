package wasm

import (
	"encoding/json"
	"path/filepath"

	jsonv2 "github.com/go-json-experiment/json"

	"github.com/chancery-gateway/chancery/wasm/abi"
	"github.com/chancery-gateway/chancery/wasm/fault"
	"github.com/chancery-gateway/chancery/wasm/source"
)

// Document is the written form of a Spec: the spec of a Translator object, and the content of a NAME.json beside a
// NAME.wasm in a watched folder.
type Document struct {
	Source SourceDocument `json:"source,omitzero"`
	// SHA256 pins the module: 64 hexadecimal digits, with or without "sha256:".
	SHA256        string          `json:"sha256,omitempty"`
	Phases        []abi.Phase     `json:"phases,omitempty"`
	Grant         *Grant          `json:"grant,omitempty"`
	Settings      json.RawMessage `json:"settings,omitempty"`
	FailurePolicy FailurePolicy   `json:"failurePolicy,omitempty"`
	Priority      int             `json:"priority,omitempty"`
	Interpreter   bool            `json:"interpreter,omitempty"`
	Fresh         bool            `json:"fresh,omitempty"`
	Shadow        Shadow          `json:"shadow,omitzero"`
	Force         bool            `json:"force,omitempty"`
}

// SourceDocument is the written form of a source: exactly one member is set.
type SourceDocument struct {
	// File is a path, relative to the folder of the document.
	File string `json:"file,omitempty"`
	// OCI is the folder of an OCI image layout.
	OCI *struct {
		Dir string `json:"dir"`
		Tag string `json:"tag,omitempty"`
	} `json:"oci,omitempty"`
	// HTTP is an address.
	HTTP string `json:"http,omitempty"`
}

// ParseSpec reads a document. dir is the folder that relative paths start from. An error names the field.
func ParseSpec(name string, text []byte, dir string) (Spec, error) {
	var d Document
	if err := jsonv2.Unmarshal(text, &d, jsonv2.RejectUnknownMembers(true)); err != nil {
		return Spec{}, fault.New(fault.Spec, "%s: %s", escape(name, 100), escape(err.Error(), 500))
	}
	return d.Spec(name, dir)
}

// Spec turns the document into a Spec. Without a grant it grants nothing.
func (d *Document) Spec(name, dir string) (Spec, error) {
	s := Spec{
		Name: name, Phases: d.Phases, Settings: d.Settings, Failure: d.FailurePolicy, Priority: d.Priority,
		Interpreter: d.Interpreter, Fresh: d.Fresh, Shadow: d.Shadow, Force: d.Force,
	}
	if d.Grant != nil {
		s.Grant = *d.Grant
	}
	path := func(p string) string {
		if filepath.IsAbs(p) {
			return p
		}
		return filepath.Join(dir, p)
	}
	set := 0
	if f := d.Source.File; f != "" {
		set++
		s.Source = source.File{Path: path(f)}
	}
	if o := d.Source.OCI; o != nil {
		set++
		s.Source = source.Layout{Dir: path(o.Dir), Tag: o.Tag}
	}
	if h := d.Source.HTTP; h != "" {
		set++
		s.Source = source.HTTP{URL: h}
	}
	if set > 1 {
		return s, fault.New(fault.Spec, "source: %d of file, oci and http are set; exactly one is wanted", set)
	}
	if d.SHA256 != "" {
		digest, err := ParseDigest(d.SHA256)
		if err != nil {
			return s, err
		}
		s.Digest = &digest
	}
	return s, nil
}

// String returns the policy, or what it is by default.
func (p FailurePolicy) String() string {
	if p == "" {
		return string(OnFailureKeep)
	}
	return string(p)
}
