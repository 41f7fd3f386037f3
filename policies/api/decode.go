package api

import (
	lenient "encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/chancery-gateway/chancery/snapshot"
)

// The bounds of lists and their texts, of which the API server's rules may cost only so much.
const (
	maxWrites, maxPath = 500, 1000
	maxHosts, maxHost  = 5000, 255
)

// World is every object of this package that a snapshot has and that is right.
type World struct {
	Policies   []*Policy
	Tenants    []*Tenant
	Exceptions []*Exception
	// Broken are the Policies that could not be read: their matches are unknown, so nothing of them is enforced.
	Broken   []*snapshot.Object
	Findings []snapshot.Diagnostic
}

// Read decodes and checks the objects of this package. Wrong ones are left out and reported.
func Read(s *snapshot.Snapshot) *World {
	w := &World{}
	for o := range s.List(KindPolicy) {
		p := &Policy{Object: o}
		if w.decode(o, &p.Spec) && w.checkPolicy(p) {
			w.Policies = append(w.Policies, p)
		} else {
			w.Broken = append(w.Broken, o)
		}
	}
	for o := range s.List(KindTenant) {
		t := &Tenant{Object: o}
		w.readTenant(t)
		w.Tenants = append(w.Tenants, t)
	}
	for o := range s.List(KindException) {
		e := &Exception{Object: o}
		if w.decode(o, &e.Spec) && w.checkException(e) {
			w.Exceptions = append(w.Exceptions, e)
		}
	}
	return w
}

// Any reports whether the snapshot has objects of this package.
func Any(s *snapshot.Snapshot) bool {
	return s.Len(KindPolicy)+s.Len(KindTenant)+s.Len(KindException) > 0
}

func (w *World) fail(o *snapshot.Object, c *snapshot.Code, path, message, help string) bool {
	w.Findings = append(w.Findings, o.About(snapshot.Error, c, path, message, help))
	return false
}

// decode reads spec strictly.
func (w *World) decode(o *snapshot.Object, into any) bool {
	var body struct {
		APIVersion string         `json:"apiVersion"`
		Spec       jsontext.Value `json:"spec"`
	}
	if err := json.Unmarshal(o.Raw, &body); err != nil {
		return w.fail(o, codeShape, "", "cannot be read: "+err.Error(), "")
	}
	if body.APIVersion != Group+"/"+Version {
		return w.fail(o, codeShape, "apiVersion", fmt.Sprintf("%s has no version %q", o.Kind, body.APIVersion), "use "+Group+"/"+Version)
	}
	if body.Spec.Kind() != '{' {
		return w.fail(o, codeValue, "spec", "spec is missing", "an object")
	}
	err := json.Unmarshal(body.Spec, into, json.RejectUnknownMembers(true))
	if err == nil {
		return true
	}
	var semantic *json.SemanticError
	if !errors.As(err, &semantic) {
		return w.fail(o, codeShape, "spec", "cannot be read: "+err.Error(), "")
	}
	path := fieldPath(semantic.JSONPointer)
	switch {
	case errors.Is(err, json.ErrUnknownName):
		return w.fail(o, codeShape, path, fmt.Sprintf("%s has no field %s", o.Kind, path), "remove it, or correct its name")
	case semantic.GoType != nil:
		return w.fail(o, codeShape, path, fmt.Sprintf("a %s does not fit", kindName(semantic.JSONKind)), "expected "+typeName(semantic.GoType.Kind().String()))
	}
	return w.fail(o, codeShape, path, "cannot be read: "+semantic.Error(), "")
}

func kindName(k jsontext.Kind) string {
	switch k {
	case '"':
		return "string"
	case '0':
		return "number"
	case 't', 'f':
		return "boolean"
	case '{':
		return "object"
	case '[':
		return "list"
	}
	return "null"
}

func typeName(kind string) string {
	switch kind {
	case "slice":
		return "a list"
	case "map", "struct":
		return "an object"
	case "int":
		return "a whole number"
	}
	return "a " + kind
}

func fieldPath(p jsontext.Pointer) string {
	var b strings.Builder
	b.WriteString("spec")
	for t := range p.Tokens() {
		if strings.Trim(t, "0123456789") == "" {
			b.WriteString("[" + t + "]")
		} else {
			b.WriteString("." + t)
		}
	}
	return b.String()
}

func (w *World) checkPolicy(p *Policy) bool {
	s, o, ok := &p.Spec, p.Object, true
	given := 0
	for _, v := range []string{s.Rego, s.Library, s.Package} {
		if v != "" {
			given++
		}
	}
	if given != 1 {
		ok = w.fail(o, codeValue, "spec", fmt.Sprintf("%d of rego, library and package are set", given), "set exactly one of them")
	}
	if s.Enforcement == "" {
		s.Enforcement = EnforceDeny
	}
	oneOf := func(path, value string, of ...string) {
		if !slices.Contains(of, value) {
			ok = w.fail(o, codeValue, path, fmt.Sprintf("%q is not known", value), "use one of "+strings.Join(of, ", "))
		}
	}
	oneOf("spec.enforcement", string(s.Enforcement), "deny", "warn", "dryrun", "audit")
	for i, v := range s.Points {
		oneOf(fmt.Sprintf("spec.points[%d]", i), string(v), "cli", "webhook", "compile", "audit")
	}
	if s.OnDeny != "" {
		oneOf("spec.onDeny", s.OnDeny, "remove", "keepLastGood")
	}
	if s.OnFailure != "" {
		oneOf("spec.onFailure", s.OnFailure, "closed", "open")
	}
	if s.Deadline != "" {
		if d, err := time.ParseDuration(s.Deadline); err != nil || d <= 0 || d > 10*time.Second {
			ok = w.fail(o, codeValue, "spec.deadline", fmt.Sprintf("%q is no usable duration", s.Deadline), "a duration such as 50ms, at most 10s")
		}
	}
	if n := len(s.Writes); n > maxWrites {
		ok = w.fail(o, codeValue, "spec.writes", fmt.Sprintf("%d paths", n), fmt.Sprintf("at most %d, each with all below it", maxWrites))
	}
	for i, path := range s.Writes {
		if len(path) > maxPath || !strings.HasPrefix(path+".", "spec.") && path != "metadata.labels" && !strings.HasPrefix(path, "metadata.labels.") &&
			path != "metadata.annotations" && !strings.HasPrefix(path, "metadata.annotations.") {
			ok = w.fail(o, codeValue, fmt.Sprintf("spec.writes[%d]", i), fmt.Sprintf("%q may not be written", path), "a path below spec, metadata.labels or metadata.annotations")
		}
	}
	return ok
}

// readTenant fills the tenant in with whatever can be read, and tells the rest. It stands with any fault: without it its namespaces
// would be nobody's, free of its limits and hosts.
func (w *World) readTenant(t *Tenant) {
	if w.decode(t.Object, &t.Spec) {
		w.checkTenant(t)
		return
	}
	var body struct {
		Spec TenantSpec `json:"spec"`
	}
	// The older package leaves out what does not fit, and goes on.
	_ = lenient.Unmarshal(t.Object.Raw, &body)
	t.Spec = body.Spec
	t.Spec.Namespaces = slices.DeleteFunc(t.Spec.Namespaces, func(n string) bool { return n == "" })
	t.Spec.Hosts = slices.DeleteFunc(t.Spec.Hosts, func(h string) bool { return h == "" })
}

func (w *World) checkTenant(t *Tenant) {
	if strings.Contains(t.Object.Name, ".") {
		w.fail(t.Object, codeValue, "metadata.name", fmt.Sprintf("%q has a dot", t.Object.Name), "a name that can be part of a package: letters, digits and hyphens")
	}
	if t.Spec.Owner == "" {
		w.fail(t.Object, codeValue, "spec.owner", "the owner is missing", "who answers for the tenant")
	}
	if len(t.Spec.Namespaces)+len(t.Spec.NamespaceSelector) == 0 {
		w.fail(t.Object, codeValue, "spec.namespaces", "the tenant has no namespace", "set namespaces or namespaceSelector")
	}
	if n := len(t.Spec.Hosts); n > maxHosts {
		w.fail(t.Object, codeValue, "spec.hosts", fmt.Sprintf("%d host names", n), fmt.Sprintf("at most %d; a wildcard takes every name below it", maxHosts))
	}
	for i, h := range t.Spec.Hosts {
		if h == "" || len(h) > maxHost || h != strings.ToLower(h) || strings.Contains(strings.TrimPrefix(h, "*."), "*") || strings.ContainsAny(h, " /:") {
			w.fail(t.Object, codeValue, fmt.Sprintf("spec.hosts[%d]", i), fmt.Sprintf("%q is no host name", h), `a lower-case name such as shop.example.com or *.shop.example.com`)
		}
	}
	for _, k := range slices.Sorted(maps.Keys(t.Spec.Limits)) {
		if t.Spec.Limits[k] < 0 {
			w.fail(t.Object, codeValue, "spec.limits."+k, "a limit below 0", "a whole number from 0")
		}
	}
}

func (w *World) checkException(e *Exception) bool {
	ok := true
	for _, f := range []struct{ path, value string }{
		{"spec.policy", e.Spec.Policy}, {"spec.target.kind", e.Spec.Target.Kind}, {"spec.target.name", e.Spec.Target.Name},
		{"spec.owner", e.Spec.Owner}, {"spec.reason", e.Spec.Reason},
	} {
		if strings.TrimSpace(f.value) == "" {
			ok = w.fail(e.Object, codeValue, f.path, f.path+" is required", "")
		} else if f.path != "spec.reason" && strings.Contains(f.value, "*") {
			ok = w.fail(e.Object, codeValue, f.path, fmt.Sprintf("%q is a pattern", f.value), "an exception names one policy and one object exactly")
		}
	}
	at, err := time.Parse(time.RFC3339, e.Spec.Expires)
	switch {
	case e.Spec.Expires == "":
		ok = w.fail(e.Object, codeExpiry, "spec.expires", "an exception must expire", "a time such as 2026-12-31T00:00:00Z")
	case err != nil:
		ok = w.fail(e.Object, codeExpiry, "spec.expires", fmt.Sprintf("%q is no time", e.Spec.Expires), "a time such as 2026-12-31T00:00:00Z")
	}
	e.Expiry = at
	return ok
}
