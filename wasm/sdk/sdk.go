// Package sdk makes translators for Chancery in Go, with the standard toolchain:
//
//	package main
//
//	import "github.com/chancery-gateway/chancery/wasm/sdk"
//
//	func main() {} // never runs: the module is a library
//
//	func init() {
//		sdk.Register(sdk.Translator{Translate: translate})
//	}
//
//	func translate(in *sdk.Input, out *sdk.Output) error {
//		for _, host := range in.Of("ir/VirtualHost") {
//			out.Patch(host, "why", sdk.Add("/responseHeaders", …))
//		}
//		return nil
//	}
//
// Build it and put its manifest in:
//
//	GOOS=wasip1 GOARCH=wasm go build -buildmode=c-shared -ldflags "-s -w" -o module.wasm .
//	go run github.com/chancery-gateway/chancery/wasm/sdk/pack -manifest manifest.json module.wasm
//
// The package knows no global state but the translator. Nothing here needs WebAssembly, so that a translator is tested
// like any other Go code: see Run.
package sdk

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"

	"github.com/chancery-gateway/chancery/wasm/abi"
)

// Item is one object, node or resource of the input.
type Item struct{ abi.Item }

// Decode reads the item's value into v, as encoding/json does.
func (i Item) Decode(v any) error {
	if err := json.Unmarshal(i.Value, v); err != nil {
		return fmt.Errorf("%s %s: %w", i.Kind, i.Name, err)
	}
	return nil
}

func (i Item) origin() *abi.Origin {
	return &abi.Origin{Kind: i.Kind, Namespace: i.Namespace, Name: i.Name}
}

// Input is one unit of work.
type Input struct {
	Phase abi.Phase
	// Unit names the unit.
	Unit  string
	Items []Item
}

// Of returns the items of a kind.
func (in *Input) Of(kind string) []Item {
	var out []Item
	for _, i := range in.Items {
		if i.Kind == kind {
			out = append(out, i)
		}
	}
	return out
}

// Find returns one item.
func (in *Input) Find(kind, namespace, name string) (Item, bool) {
	for _, i := range in.Items {
		if i.Kind == kind && i.Namespace == namespace && i.Name == name {
			return i, true
		}
	}
	return Item{}, false
}

// Output collects operations and diagnostics. Reasons are for people: they show in `chancery explain`.
type Output struct {
	response abi.Response
	err      error
}

func (o *Output) encode(v any) json.RawMessage {
	text, err := json.Marshal(v)
	if err != nil && o.err == nil {
		o.err = err
	}
	return text
}

// Add makes a new item that comes from origin.
func (o *Output) Add(kind, namespace, name string, value any, origin Item, reason string) {
	o.response.Operations = append(o.response.Operations, abi.Operation{
		Op: abi.Add, Kind: kind, Namespace: namespace, Name: name, Value: o.encode(value), Origin: origin.origin(), Reason: reason,
	})
}

// Replace puts a value in place of an item's.
func (o *Output) Replace(i Item, value any, reason string) {
	o.response.Operations = append(o.response.Operations, abi.Operation{
		Op: abi.Replace, Kind: i.Kind, Namespace: i.Namespace, Name: i.Name, Value: o.encode(value), Reason: reason,
	})
}

// Patch changes fields of an item. Without steps it does nothing.
func (o *Output) Patch(i Item, reason string, steps ...Step) {
	if len(steps) == 0 {
		return
	}
	op := abi.Operation{Op: abi.Patch, Kind: i.Kind, Namespace: i.Namespace, Name: i.Name, Reason: reason}
	for _, s := range steps {
		step := abi.Step{Op: s.op, Path: s.path}
		if s.op != abi.Remove {
			step.Value = o.encode(s.value)
		}
		op.Patch = append(op.Patch, step)
	}
	o.response.Operations = append(o.response.Operations, op)
}

// Remove removes an item.
func (o *Output) Remove(i Item, reason string) {
	o.response.Operations = append(o.response.Operations, abi.Operation{
		Op: abi.Remove, Kind: i.Kind, Namespace: i.Namespace, Name: i.Name, Reason: reason,
	})
}

// Error, Warn and Inform report a finding about a field of an item. An error means that the item has no effect.
func (o *Output) Error(i Item, path, message, help string) { o.report("error", i, path, message, help) }

// Warn reports a finding that leaves the item its effect.
func (o *Output) Warn(i Item, path, message, help string) {
	o.report("warning", i, path, message, help)
}

// Inform reports something worth knowing.
func (o *Output) Inform(i Item, path, message, help string) { o.report("info", i, path, message, help) }

func (o *Output) report(severity string, i Item, path, message, help string) {
	o.response.Diagnostics = append(o.response.Diagnostics, abi.Diagnostic{
		Severity: severity, Item: i.origin(), Path: path, Message: message, Help: help,
	})
}

// Step is one step of a patch.
type Step struct {
	op    abi.Op
	path  string
	value any
}

// Add puts a member into an object, or an element into an array before the one that the path names ("-" is the end).
func Add(path string, value any) Step { return Step{abi.Add, path, value} }

// Replace puts a value in place of the one that is there.
func Replace(path string, value any) Step { return Step{abi.Replace, path, value} }

// Remove removes what is there.
func Remove(path string) Step { return Step{op: abi.Remove, path: path} }

// Path joins the parts of a JSON pointer: names and indices.
func Path(parts ...any) string {
	var b strings.Builder
	for _, p := range parts {
		b.WriteByte('/')
		switch p := p.(type) {
		case int:
			b.WriteString(strconv.Itoa(p))
		default:
			b.WriteString(strings.NewReplacer("~", "~0", "/", "~1").Replace(fmt.Sprint(p)))
		}
	}
	return b.String()
}

// Translator is what a module does. Only Translate is required.
type Translator struct {
	// Configure takes the operator's settings, which fit the schema of the manifest; nil when there are none. It is called
	// once, before everything else.
	Configure func(settings json.RawMessage) error
	// Translate does one unit of work. Its output must depend on settings and input alone. An error fails the unit.
	Translate func(in *Input, out *Output) error
	// Validate looks at a unit and reports; operations are ignored.
	Validate func(in *Input, out *Output) error
	// SelfTest says whether the module works; it runs before the module goes live.
	SelfTest func() error
}

var registered Translator

// Register names the module's translator. It is called from an init function.
func Register(t Translator) { registered = t }

// Configure hands settings to the registered translator, for tests.
func Configure(settings []byte) error { return answerError(configure(settings)) }

// Run hands a request (JSON of abi.Request) to the registered translator and returns its response, for tests.
func Run(request []byte) []byte { return translate(registered.Translate, request) }
