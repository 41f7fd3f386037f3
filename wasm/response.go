package wasm

import (
	"fmt"
	"unicode/utf8"

	"github.com/go-json-experiment/json"

	"github.com/chancery-gateway/chancery/wasm/abi"
	"github.com/chancery-gateway/chancery/wasm/fault"
)

// Bounds of a response.
const (
	maxOperations  = 100_000
	maxDiagnostics = 1_000
	maxText        = 1_000
	maxName        = 1_000
)

// parseResponse reads and checks what a module answered. Unknown and duplicate members, bytes that are no UTF-8, and
// operations that lack a part are refused. Text for people comes out escaped.
func parseResponse(output []byte) (*abi.Response, error) {
	r := &abi.Response{}
	if len(output) == 0 {
		return r, nil
	}
	if err := json.Unmarshal(output, r, json.RejectUnknownMembers(true)); err != nil {
		return nil, fault.New(fault.Output, "%s", escape(err.Error(), 500))
	}
	if r.Error != nil {
		text := escape(r.Error.Message, maxText)
		if r.Error.Code != "" {
			text = escape(r.Error.Code, 100) + ": " + text
		}
		return nil, fault.New(fault.Guest, "%s", text)
	}
	if len(r.Operations) > maxOperations || len(r.Diagnostics) > maxDiagnostics {
		return nil, fault.New(fault.Output, "%d operations and %d diagnostics; %d and %d are allowed", len(r.Operations), len(r.Diagnostics), maxOperations, maxDiagnostics)
	}
	for n := range r.Operations {
		o := &r.Operations[n]
		if problem := checkOperation(o); problem != "" {
			return nil, fault.New(fault.Output, "operations[%d]: %s", n, problem)
		}
		o.Reason = escape(o.Reason, maxText)
	}
	for n := range r.Diagnostics {
		d := &r.Diagnostics[n]
		if d.Severity != "error" && d.Severity != "warning" && d.Severity != "info" {
			return nil, fault.New(fault.Output, "diagnostics[%d].severity: %q is none of error, warning and info", n, escape(d.Severity, 100))
		}
		d.Message, d.Help, d.Path = escape(d.Message, maxText), escape(d.Help, maxText), escape(d.Path, maxText)
	}
	return r, nil
}

// checkOperation returns what is wrong with the form of an operation, or "".
func checkOperation(o *abi.Operation) string {
	switch {
	case o.Kind == "" || o.Name == "":
		return "kind and name are required"
	case o.Reason == "":
		return "reason is required"
	case len(o.Kind) > maxName || len(o.Name) > maxName || len(o.Namespace) > maxName:
		return fmt.Sprintf("kind, namespace or name is longer than %d bytes", maxName)
	case !printable(o.Kind) || !printable(o.Name) || !printable(o.Namespace):
		return "kind, namespace or name has characters that can't be printed"
	}
	value, steps, origin := o.Value != nil, len(o.Patch) > 0, o.Origin != nil
	var need, have [3]bool
	have = [3]bool{value, steps, origin}
	switch o.Op {
	case abi.Add:
		need = [3]bool{true, false, true}
	case abi.Replace:
		need = [3]bool{true, false, false}
	case abi.Patch:
		need = [3]bool{false, true, false}
	case abi.Remove:
	default:
		return fmt.Sprintf("op: %q is none of add, replace, patch and remove", escape(string(o.Op), 100))
	}
	for i, part := range []string{"value", "patch", "origin"} {
		switch {
		case need[i] && !have[i]:
			return fmt.Sprintf("%s is required for %s", part, o.Op)
		case !need[i] && have[i]:
			return fmt.Sprintf("%s has no place in %s", part, o.Op)
		}
	}
	for i, s := range o.Patch {
		switch s.Op {
		case abi.Add, abi.Replace:
			if s.Value == nil {
				return fmt.Sprintf("patch[%d].value is required for %s", i, s.Op)
			}
		case abi.Remove:
			if s.Value != nil {
				return fmt.Sprintf("patch[%d].value has no place in remove", i)
			}
		default:
			return fmt.Sprintf("patch[%d].op: %q is none of add, replace and remove", i, escape(string(s.Op), 100))
		}
	}
	return ""
}

func printable(s string) bool { return utf8.ValidString(s) && escape(s, 2*maxName) == s }
