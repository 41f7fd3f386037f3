package wasm

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/go-json-experiment/json"

	"github.com/chancery-gateway/chancery/wasm/abi"
	"github.com/chancery-gateway/chancery/wasm/fault"
	"github.com/chancery-gateway/chancery/wasm/fuel"
)

// Digest is the sha256 of a module's bytes, as they came.
type Digest [sha256.Size]byte

// DigestOf returns the digest of a module.
func DigestOf(module []byte) Digest { return sha256.Sum256(module) }

// String returns the digest as "sha256:" and hexadecimal digits.
func (d Digest) String() string { return "sha256:" + hex.EncodeToString(d[:]) }

// Short returns the first 12 hexadecimal digits, for people.
func (d Digest) Short() string { return hex.EncodeToString(d[:6]) }

// MarshalText writes the digest as String does.
func (d Digest) MarshalText() ([]byte, error) { return []byte(d.String()), nil }

// ParseDigest reads a digest, with or without "sha256:".
func ParseDigest(s string) (Digest, error) {
	var d Digest
	text := strings.TrimPrefix(s, "sha256:")
	if b, err := hex.DecodeString(text); err == nil && len(b) == len(d) {
		copy(d[:], b)
		return d, nil
	}
	return d, fault.New(fault.Spec, "sha256: %q is no digest; 64 hexadecimal digits are wanted", escape(s, 100))
}

// Info is what is known of a module without running it.
type Info struct {
	Digest Digest
	// ManifestDigest is the sha256 of the manifest section.
	ManifestDigest Digest
	Size           int
	Manifest       *abi.Manifest
	Interface      *fuel.Interface
	// Unmetered says why the module can't be metered; nil when it can.
	Unmetered *fault.Error
	// Report says what metering adds.
	Report fuel.Report
	// metered is the module with metering put in.
	metered []byte
}

// Inspect reads a module without running or compiling it: manifest, imports, exports, and whether it can be metered. An
// error is returned for modules that could not be run in any way.
func Inspect(module []byte) (*Info, error) {
	if len(module) > maxModuleBytes {
		return nil, fault.New(fault.Size, "the module has %d bytes; %d are allowed", len(module), maxModuleBytes)
	}
	info := &Info{Digest: DigestOf(module), Size: len(module)}
	sections, err := fuel.CustomSections(module)
	if err != nil {
		return nil, refusal(err)
	}
	if info.Manifest, info.ManifestDigest, err = manifestOf(sections); err != nil {
		return nil, err
	}
	info.metered, info.Report, err = fuel.Instrument(module)
	if err != nil {
		if r, ok := errors.AsType[*fuel.Refusal](err); !ok || r.Kind != fuel.Unmetered {
			return nil, refusal(err)
		}
		info.Unmetered = refusal(err)
	}
	if info.Interface, err = fuel.Describe(module); err != nil {
		return nil, refusal(err)
	}
	if err := checkInterface(info.Interface); err != nil {
		return nil, err
	}
	return info, nil
}

// refusal turns the error of the metering pass into one with a code.
func refusal(err error) *fault.Error {
	r, ok := errors.AsType[*fuel.Refusal](err)
	if !ok {
		return fault.New(fault.Malformed, "%w", err)
	}
	switch r.Kind {
	case fuel.Unsupported, fuel.Unmetered:
		return fault.New(fault.Unsupported, "%w", err)
	case fuel.Reserved:
		return fault.New(fault.Reserved, "%w", err)
	default:
		return fault.New(fault.Malformed, "%w", err)
	}
}

func manifestOf(sections []fuel.Section) (*abi.Manifest, Digest, error) {
	sections = slices.DeleteFunc(slices.Clone(sections), func(s fuel.Section) bool { return s.Name != abi.ManifestSection })
	switch {
	case len(sections) == 0:
		return nil, Digest{}, fault.New(fault.NoManifest, "the module has no custom section %s", abi.ManifestSection)
	case len(sections) > 1:
		return nil, Digest{}, fault.New(fault.NoManifest, "the module has %d custom sections %s; exactly one is wanted", len(sections), abi.ManifestSection)
	}
	text := sections[0].Content
	m, err := ParseManifest(text)
	return m, DigestOf(text), err
}

var (
	namePattern    = regexp.MustCompile(`^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$`)
	kindPattern    = regexp.MustCompile(`^(ir/[A-Za-z]+|xds/[a-z0-9_.]+\.[A-Za-z0-9]+|[A-Z][A-Za-z0-9]*(\.[a-z0-9.-]+)?)$`)
	pointerPattern = regexp.MustCompile(`^(/([^~/]|~0|~1)*)+$`)
)

// ParseManifest reads and checks a manifest.
func ParseManifest(text []byte) (*abi.Manifest, error) {
	bad := func(path, format string, args ...any) error {
		return fault.New(fault.Manifest, "%s: %s", path, fmt.Sprintf(format, args...))
	}
	if len(text) > maxManifestBytes {
		return nil, bad("manifest", "%d bytes; %d are allowed", len(text), maxManifestBytes)
	}
	m := &abi.Manifest{}
	if err := json.Unmarshal(bytes.TrimSpace(text), m, json.RejectUnknownMembers(true)); err != nil {
		return nil, bad("manifest", "%s", escape(err.Error(), 500))
	}
	if _, err := negotiate(m.ABI); err != nil {
		return nil, err
	}
	for _, f := range m.Features {
		if !slices.Contains(abi.Features, f) {
			return nil, fault.New(fault.Feature, "features: %q is not known; this host has %s", escape(f, 100), strings.Join(abi.Features, ", "))
		}
	}
	if !namePattern.MatchString(m.Name) {
		return nil, bad("name", "%q is no name: up to 63 lower-case letters, digits and dashes are wanted", escape(m.Name, 100))
	}
	if _, ok := parseVersion(m.Version); !ok {
		return nil, bad("version", "%q is no version of the form 1.2.3 or 1.2.3-rc.1", escape(m.Version, 100))
	}
	if len(m.Phases) == 0 {
		return nil, bad("phases", "none is named; lower, ir and xds are possible")
	}
	for i, p := range m.Phases {
		if p != abi.Lower && p != abi.IR && p != abi.XDS {
			return nil, bad(fmt.Sprintf("phases[%d]", i), "%q is none of lower, ir and xds", escape(string(p), 100))
		}
	}
	if len(m.Reads) > maxKinds || len(m.Writes) > maxKinds {
		return nil, bad("reads, writes", "more than %d kinds", maxKinds)
	}
	for i, k := range m.Reads {
		if !kindPattern.MatchString(k) {
			return nil, bad(fmt.Sprintf("reads[%d]", i), "%q is no kind: Kind.group, ir/Kind or xds/message.Name is wanted", escape(k, 100))
		}
	}
	for i, s := range m.Writes {
		if path, err := checkScope(s); err != nil {
			return nil, bad(fmt.Sprintf("writes[%d].%s", i, path), "%s", err)
		}
	}
	if _, err := compileSchema(m.Settings); err != nil {
		return nil, bad("settings", "%s", escape(err.Error(), 500))
	}
	l := m.Limits
	if l.Fuel < 0 || l.Milliseconds < 0 || l.InputBytes < 0 || l.OutputBytes < 0 {
		return nil, bad("limits", "a limit is negative")
	}
	return m, nil
}

func checkScope(s abi.Scope) (path string, err error) {
	if !kindPattern.MatchString(s.Kind) {
		return "kind", fmt.Errorf("%q is no kind: Kind.group, ir/Kind or xds/message.Name is wanted", escape(s.Kind, 100))
	}
	for _, op := range s.Operations {
		if op != abi.Add && op != abi.Replace && op != abi.Patch && op != abi.Remove {
			return "operations", fmt.Errorf("%q is none of add, replace, patch and remove", escape(string(op), 100))
		}
	}
	if len(s.Fields) > maxFields {
		return "fields", fmt.Errorf("more than %d", maxFields)
	}
	for _, f := range s.Fields {
		if !pointerPattern.MatchString(f) {
			return "fields", fmt.Errorf("%q is no JSON pointer like /routes/*/requestHeaders", escape(f, 100))
		}
	}
	return "", nil
}
