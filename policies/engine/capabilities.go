// Package engine loads Rego, checks it against the published schemas, and asks it about objects: it turns modules and
// Policy objects into an immutable Set, in which a policy that is broken costs nothing but itself.
package engine

import (
	"crypto/sha256"
	"encoding/hex"
	"slices"
	"strings"
	"sync"

	"github.com/open-policy-agent/opa/v1/ast"
)

// Profile is the name of the builtins that rules may use. It is part of every set's digest.
const Profile = "pure/1"

// allowed are the builtins of the profile: functions of their arguments alone, whose cost is bounded by what they are given.
// Left out on purpose: whatever reaches network, clock, random numbers or environment; bits.* and units.* (a shift or an
// exponent makes numbers that fill the memory, and cannot be interrupted); numbers.range, net.cidr_expand and
// strings.render_template (small input, unbounded output); schema and GraphQL and X.509 parsers; functions that read the
// machine's time zones.
var allowed = strings.Fields(`
	abs array.concat array.flatten array.reverse array.slice assign base64.decode base64.encode base64.is_valid
	base64url.decode base64url.encode base64url.encode_no_pad and ceil concat contains count crypto.md5 crypto.sha1
	crypto.sha256 div endswith eq equal floor format_int glob.match glob.quote_meta graph.reachable graph.reachable_paths gt
	gte hex.decode hex.encode indexof indexof_n internal.member_2 internal.member_3 internal.template_string intersection
	is_array is_boolean is_null is_number is_object is_set is_string json.filter json.is_valid json.marshal json.patch
	json.remove json.unmarshal lower lt lte max min minus mul neq net.cidr_contains net.cidr_contains_matches
	net.cidr_intersects net.cidr_is_valid net.cidr_merge object.filter object.get object.keys object.remove object.subset
	object.union object.union_n or plus product regex.find_all_string_submatch_n regex.find_n regex.globs_match
	regex.is_valid regex.match regex.replace regex.split regex.template_match rego.metadata.chain rego.metadata.rule rem
	replace round semver.compare semver.is_valid sort split sprintf startswith strings.any_prefix_match
	strings.any_suffix_match strings.count strings.replace_n strings.reverse strings.split_n substring sum
	time.parse_duration_ns time.parse_ns time.parse_rfc3339_ns to_number trim trim_left trim_prefix trim_right trim_space
	trim_suffix type_name union upper uri.is_valid uri.parse urlquery.decode urlquery.decode_object urlquery.encode
	urlquery.encode_object uuid.parse walk`)

// inTests are the builtins that `chancery policy test` adds.
var inTests = []string{"print", "internal.print", "internal.test_case"}

// Capabilities returns the profile as OPA's capabilities document. The result is shared and must not be changed.
var Capabilities = sync.OnceValue(func() *ast.Capabilities { return restricted(allowed) })

// TestCapabilities returns the profile with what tests may use beside: print.
var TestCapabilities = sync.OnceValue(func() *ast.Capabilities { return restricted(slices.Concat(allowed, inTests)) })

func restricted(names []string) *ast.Capabilities {
	c := ast.CapabilitiesForThisVersion()
	c.Builtins = slices.DeleteFunc(slices.Clone(c.Builtins), func(b *ast.Builtin) bool { return !slices.Contains(names, b.Name) })
	c.AllowNet = []string{}
	return c
}

// ProfileDigest identifies the profile's content.
var ProfileDigest = sync.OnceValue(func() string {
	h := sha256.New()
	for _, b := range Capabilities().Builtins {
		h.Write([]byte(b.Name + "\n"))
	}
	return Profile + ":" + hex.EncodeToString(h.Sum(nil)[:8])
})
