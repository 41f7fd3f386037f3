// Package abi is the contract between Chancery and its modules: the manifest, and the documents that pass between them.
// ABI.md describes it for authors of any language. The package is shared by host and guests, so it imports nothing but
// encoding/json.
package abi

import "encoding/json"

// Major and Minor are the version of the ABI that this package describes. A host of one major version takes modules of
// this and of the one before; a greater minor version only adds.
const (
	Major = 1
	Minor = 0
)

// ManifestSection is the name of the custom section that holds a module's manifest.
const ManifestSection = "chancery.manifest"

// HostModule is the module whose functions guests may import: log and fail.
const HostModule = "chancery"

// Features that this version of the host knows. A module lists those that it can't do without; the host lists all of
// its own when it configures a module.
var Features = []string{"json", "log", "patch"}

// Phase is a place in the compiler where modules run.
type Phase string

// The phases, in order.
const (
	// Lower turns objects of kinds that the core does not know into core objects or IR fragments.
	Lower Phase = "lower"
	// IR changes the linked program.
	IR Phase = "ir"
	// XDS changes Envoy's resources.
	XDS Phase = "xds"
)

// Manifest says what a module is and what it needs. It is read without running the module.
type Manifest struct {
	// ABI is "major.minor".
	ABI string `json:"abi"`
	// Name is a DNS label; Version a semantic version without "v".
	Name        string `json:"name"`
	Version     string `json:"version"`
	Description string `json:"description,omitempty"`
	// Features lists what the module can't do without.
	Features []string `json:"features,omitempty"`
	Phases   []Phase  `json:"phases"`
	// Reads are the kinds that the module is given: "Kind.group" for objects, "ir/Kind" for nodes of the linked
	// program, "xds/full.message.Name" for Envoy's resources.
	Reads []string `json:"reads"`
	// Writes are the kinds and fields that the module changes.
	Writes []Scope `json:"writes,omitempty"`
	// Settings is the JSON Schema of the module's settings; absent means that it takes none.
	Settings json.RawMessage `json:"settings,omitempty"`
	Limits   Limits          `json:"limits,omitzero"`
	// Provenance is carried, not read: source, revision, builder, address of an SBOM.
	Provenance map[string]string `json:"provenance,omitempty"`
}

// Scope is one kind that may be written, and how far.
type Scope struct {
	Kind string `json:"kind"`
	// Operations are those allowed; none means all.
	Operations []Op `json:"operations,omitempty"`
	// NamePrefix is what names start with; "" takes every name.
	NamePrefix string `json:"namePrefix,omitempty"`
	// Fields are the JSON pointers that may be written, each with everything below it; "*" stands for one segment, as in
	// "/routes/*/requestHeaders". None means every field.
	Fields []string `json:"fields,omitempty"`
}

// Limits bound one instance of a module and one call. 0 means the host's default.
type Limits struct {
	// Pages is the greatest size of memory in pages of 64 KiB.
	Pages uint32 `json:"pages,omitempty"`
	// Fuel is the greatest number of units of work of one call.
	Fuel int64 `json:"fuel,omitempty"`
	// Milliseconds is the greatest duration of one call, as time of its thread.
	Milliseconds int64 `json:"milliseconds,omitempty"`
	InputBytes   int   `json:"inputBytes,omitempty"`
	OutputBytes  int   `json:"outputBytes,omitempty"`
}

// Configuration is what configure is given, once per instance.
type Configuration struct {
	ABI      string   `json:"abi"`
	Features []string `json:"features"`
	// Settings are the operator's, valid by the manifest's schema; absent when there are none.
	Settings json.RawMessage `json:"settings,omitempty"`
}

// Request is what translate and validate are given: one unit of work.
type Request struct {
	Phase Phase `json:"phase"`
	// Unit names the unit: a virtual host, a listener, a set of clusters, or a kind of objects.
	Unit  string `json:"unit"`
	Items []Item `json:"items"`
}

// Item is one object, node or resource.
type Item struct {
	Kind      string `json:"kind"`
	Namespace string `json:"namespace,omitempty"`
	Name      string `json:"name"`
	// ReadOnly items are there to be looked at: an operation on one is refused.
	ReadOnly bool `json:"readOnly,omitempty"`
	// Value is the whole item as JSON.
	Value json.RawMessage `json:"value"`
}

// Op is what an operation does.
type Op string

// The operations.
const (
	// Add makes a new item with Value.
	Add Op = "add"
	// Replace puts Value in place of an item's.
	Replace Op = "replace"
	// Patch applies Patch to an item's value.
	Patch Op = "patch"
	// Remove removes an item.
	Remove Op = "remove"
)

// Operation is one change that a module wants.
type Operation struct {
	Op        Op     `json:"op"`
	Kind      string `json:"kind"`
	Namespace string `json:"namespace,omitempty"`
	Name      string `json:"name"`
	// Value is the new value for add and replace.
	Value json.RawMessage `json:"value,omitempty"`
	// Patch is for patch.
	Patch []Step `json:"patch,omitempty"`
	// Origin is the item of the request that the new item comes from; required for add.
	Origin *Origin `json:"origin,omitempty"`
	// Reason says why, for people; required.
	Reason string `json:"reason"`
}

// Step is one step of a JSON Patch (RFC 6902): "add", "replace" or "remove". Value is absent for remove.
type Step struct {
	Op    Op              `json:"op"`
	Path  string          `json:"path"`
	Value json.RawMessage `json:"value,omitempty"`
}

// Origin names an item.
type Origin struct {
	Kind      string `json:"kind"`
	Namespace string `json:"namespace,omitempty"`
	Name      string `json:"name"`
}

// Response is what a module answers. An answer of no bytes is an empty one: nothing changes.
type Response struct {
	Operations  []Operation  `json:"operations,omitempty"`
	Diagnostics []Diagnostic `json:"diagnostics,omitempty"`
	// Error is set when the module can't do the unit; operations are then ignored.
	Error *Error `json:"error,omitempty"`
}

// Diagnostic is a finding about an item of the request.
type Diagnostic struct {
	// Severity is "error", "warning" or "info".
	Severity string  `json:"severity"`
	Item     *Origin `json:"item,omitempty"`
	// Path is a field of the item, as in "spec.rules[0].path".
	Path    string `json:"path,omitempty"`
	Message string `json:"message"`
	Help    string `json:"help,omitempty"`
}

// Error is a module's own failure.
type Error struct {
	// Code is the module's own short name of the failure.
	Code    string `json:"code,omitempty"`
	Message string `json:"message"`
}

// Log levels of the host function log.
const (
	LogDebug int32 = iota
	LogInfo
	LogWarning
	LogError
)
