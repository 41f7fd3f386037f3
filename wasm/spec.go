package wasm

import (
	"encoding/json"
	"fmt"
	"slices"

	"github.com/chancery-gateway/chancery/wasm/abi"
	"github.com/chancery-gateway/chancery/wasm/fault"
	"github.com/chancery-gateway/chancery/wasm/source"
)

// FailurePolicy says what becomes of a unit when a module fails on it.
type FailurePolicy string

// The failure policies.
const (
	// OnFailureKeep: the unit keeps the form that the module's last good answer gave it. A unit that never had one is blocked.
	OnFailureKeep FailurePolicy = "keep_last_output"
	// OnFailureSkip: the unit goes on as if the module were not there. It fails open; for modules that are an ornament.
	OnFailureSkip FailurePolicy = "skip"
	// OnFailureBlock: the unit does not go on at all; what is served stays.
	OnFailureBlock FailurePolicy = "block"
)

// Grant is what the operator allows a module. What a module may do is what its manifest and its grant both say.
type Grant struct {
	Phases []abi.Phase `json:"phases"`
	// Reads and Writes are kinds as in the manifest; "*" stands for every kind.
	Reads  []string    `json:"reads"`
	Writes []abi.Scope `json:"writes,omitempty"`
	// Namespaces are those whose units and items the module is given; "*" stands for all.
	Namespaces []string   `json:"namespaces"`
	Limits     abi.Limits `json:"limits,omitzero"`
}

// Shadow bounds the run of a candidate over recorded inputs. The zero value means no bound.
type Shadow struct {
	// MaxChanged is the greatest number of recorded units whose result may differ from the live module's.
	MaxChanged int `json:"maxChanged,omitempty"`
	// MaxSlowdown is the greatest factor by which time or fuel may exceed the live module's.
	MaxSlowdown float64 `json:"maxSlowdown,omitempty"`
}

// Spec is one configured module: what an operator writes.
type Spec struct {
	// Name names the configuration; it need not be the module's own name.
	Name   string
	Source source.Source
	// Digest pins the module. Remote sources need it.
	Digest *Digest
	// Phases limits the phases in which the module runs; none means all of its manifest.
	Phases   []abi.Phase
	Grant    Grant
	Settings json.RawMessage
	Failure  FailurePolicy
	// Priority orders the modules of a phase: lower ones run first, and of two that write one field the greater wins.
	Priority int
	// Interpreter runs the module in the interpreter, under a deadline alone: see GuardInterpreter.
	Interpreter bool
	// Fresh gives every call an instance of its own.
	Fresh  bool
	Shadow Shadow
	// Force promotes a lower version, and past the bounds of Shadow.
	Force bool
}

// check returns what is wrong with the spec.
func (s *Spec) check() error {
	bad := func(field, format string, args ...any) error {
		return fault.New(fault.Spec, "%s: %s", field, fmt.Sprintf(format, args...))
	}
	switch {
	case s.Name == "":
		return bad("name", "it is required")
	case s.Source == nil:
		return bad("source", "it is required")
	case s.Failure != "" && s.Failure != OnFailureKeep && s.Failure != OnFailureSkip && s.Failure != OnFailureBlock:
		return bad("failurePolicy", "%q is none of keep_last_output, skip and block", escape(string(s.Failure), 100))
	case s.Source.Remote() && s.Digest == nil:
		return fault.New(fault.NoDigest, "sha256: it is required for the remote source %s", s.Source)
	}
	for i, w := range s.Grant.Writes {
		if w.Kind == "*" {
			w.Kind = "Any"
		}
		if path, err := checkScope(w); err != nil {
			return bad(fmt.Sprintf("grant.writes[%d].%s", i, path), "%s", err)
		}
	}
	for i, p := range slices.Concat(s.Phases, s.Grant.Phases) {
		if p != abi.Lower && p != abi.IR && p != abi.XDS {
			return bad(fmt.Sprintf("phases[%d]", i), "%q is none of lower, ir and xds", escape(string(p), 100))
		}
	}
	return nil
}

// admit judges a manifest by the spec: everything that the module asks for must be granted.
func (s *Spec) admit(m *abi.Manifest) error {
	for _, p := range m.Phases {
		if !slices.Contains(s.Grant.Phases, p) && (len(s.Phases) == 0 || slices.Contains(s.Phases, p)) {
			return fault.New(fault.Grant, "the module runs in phase %s; grant.phases does not hold it", p)
		}
	}
	for _, p := range s.Phases {
		if !slices.Contains(m.Phases, p) {
			return fault.New(fault.Grant, "phases: the module has no phase %s", p)
		}
	}
	for _, k := range m.Reads {
		if !slices.Contains(s.Grant.Reads, k) && !slices.Contains(s.Grant.Reads, "*") {
			return fault.New(fault.Grant, "the module reads %s; grant.reads does not hold it", k)
		}
	}
	for _, w := range m.Writes {
		covers := func(g abi.Scope) bool { return g.Kind == w.Kind || g.Kind == "*" }
		if !slices.ContainsFunc(s.Grant.Writes, covers) {
			return fault.New(fault.Grant, "the module writes %s; grant.writes does not hold it", w.Kind)
		}
	}
	return nil
}

// guard returns what is to end the module's calls, or why nothing can.
func (s *Spec) guard(i *Info) (Guard, error) {
	switch {
	case s.Interpreter:
		return GuardInterpreter, nil
	case i.Unmetered != nil:
		return "", i.Unmetered
	default:
		return GuardFuel, nil
	}
}
