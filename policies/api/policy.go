// Package api holds the objects of the group chancery.dev/v1alpha1 with which platform teams govern the compiler: Policy,
// Tenant and PolicyException, how they are read and what makes one wrong.
package api

import (
	"path"
	"slices"
	"strings"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/chancery-gateway/chancery/snapshot"
)

// Group and Version are those of every kind of this package.
const (
	Group   = "chancery.dev"
	Version = "v1alpha1"
)

// The kinds of this package.
var (
	KindPolicy    = snapshot.GroupKind{Group: Group, Kind: "Policy"}
	KindTenant    = snapshot.GroupKind{Group: Group, Kind: "Tenant"}
	KindException = snapshot.GroupKind{Group: Group, Kind: "PolicyException"}
)

// Enforcement says what a policy's denials do.
type Enforcement string

// The enforcements, strictest first.
const (
	// EnforceDeny keeps a denied object out of the compile.
	EnforceDeny Enforcement = "deny"
	// EnforceWarn reports denials as warnings.
	EnforceWarn Enforcement = "warn"
	// EnforceDryRun reports denials as information: what would happen. Mutations are reported and not applied.
	EnforceDryRun Enforcement = "dryrun"
	// EnforceAudit reports denials as information, like dryrun; for rules that are meant never to block.
	EnforceAudit Enforcement = "audit"
)

// Point is a place where policies are asked.
type Point string

// The points.
const (
	PointCLI     Point = "cli"
	PointWebhook Point = "webhook"
	PointCompile Point = "compile"
	PointAudit   Point = "audit"
)

// Policy is one instance of a rule package: what it applies to, with which parameters, and what its verdicts do.
type Policy struct {
	// Object is the source object; nil for a package that is its own policy.
	Object *snapshot.Object
	Spec   PolicySpec
}

// PolicySpec is the body of a Policy. Exactly one of Rego, Library and Package says where the rules are.
type PolicySpec struct {
	// Rego is the text of one module, in Rego version 1.
	Rego string `json:"rego,omitzero"`
	// Library names a policy of Chancery's own library, for example "no_wildcard_hosts".
	Library string `json:"library,omitzero"`
	// Package names a package that was loaded from --policies, for example "chancery.admission.host_owner".
	Package string `json:"package,omitzero"`
	// Match says which objects are judged; the zero value takes all.
	Match Match `json:"match,omitzero"`
	// Parameters are what the rules see as input.parameters; checked with the policy's own JSON schema.
	Parameters jsontext.Value `json:"parameters,omitzero"`
	// Enforcement is deny when absent.
	// +kubebuilder:validation:Enum={deny,warn,dryrun,audit}
	Enforcement Enforcement `json:"enforcement,omitzero"`
	// Points are where the policy is asked; all when absent.
	Points []Point `json:"points,omitzero"`
	// Priority orders policies, highest first: of two mutations of one path that conflict none is applied unless the priorities differ.
	Priority int `json:"priority,omitzero"`
	// OnDeny is remove (default) or keepLastGood: a denied object then stays in the form that was last admitted.
	// +kubebuilder:validation:Enum={remove,keepLastGood}
	OnDeny string `json:"onDeny,omitzero"`
	// OnFailure is closed (default) or open: what becomes of an object that the policy cannot judge because it is broken.
	// +kubebuilder:validation:Enum={closed,open}
	OnFailure string `json:"onFailure,omitzero"`
	// Writes are the fields that mutate may change, as paths such as "spec.timeout_ms" or "metadata.labels".
	Writes []string `json:"writes,omitzero"`
	// Deadline is the most time for one object; 100 ms when absent.
	Deadline string `json:"deadline,omitzero"`
}

// Match selects objects. Every condition that is given must hold.
type Match struct {
	// Kinds are kinds such as "Mapping", or "HTTPRoute.gateway.networking.k8s.io" to name the group too.
	Kinds []string `json:"kinds,omitzero"`
	// Namespaces and ExcludedNamespaces are names; "*" stands for any text.
	Namespaces         []string `json:"namespaces,omitzero"`
	ExcludedNamespaces []string `json:"excludedNamespaces,omitzero"`
	// Labels must all be on the object.
	Labels map[string]string `json:"labels,omitzero"`
	// Tenants are names of tenants.
	Tenants []string `json:"tenants,omitzero"`
}

// Takes reports whether the match selects the object, which belongs to the tenant ("" for none).
func (m *Match) Takes(o *snapshot.Object, tenant string) bool {
	if len(m.Kinds) > 0 && !m.TakesKind(o.GroupKind()) {
		return false
	}
	if len(m.Namespaces) > 0 && !anyGlob(m.Namespaces, o.Namespace) || anyGlob(m.ExcludedNamespaces, o.Namespace) {
		return false
	}
	for k, v := range m.Labels {
		if have, ok := o.Labels[k]; !ok || have != v {
			return false
		}
	}
	return len(m.Tenants) == 0 || tenant != "" && slices.Contains(m.Tenants, tenant)
}

// TakesKind reports whether the match selects objects of the kind.
func (m *Match) TakesKind(k snapshot.GroupKind) bool {
	return len(m.Kinds) == 0 || slices.ContainsFunc(m.Kinds, func(want string) bool {
		kind, group, qualified := strings.Cut(want, ".")
		return kind == k.Kind && (!qualified || group == k.Group)
	})
}

func anyGlob(patterns []string, s string) bool {
	return slices.ContainsFunc(patterns, func(p string) bool { return Glob(p, s) })
}

// Glob reports whether the pattern, in which "*" stands for any text, covers the whole of s.
func Glob(pattern, s string) bool {
	if !strings.Contains(pattern, "*") {
		return pattern == s
	}
	ok, err := path.Match(strings.ReplaceAll(pattern, "/", "\x00"), strings.ReplaceAll(s, "/", "\x00"))
	return err == nil && ok
}

// At returns what the policy's denials do at the point, "" when it is not asked there. The running control plane (the
// compile point) is where policies for the audit point are asked, and there they only inform.
func (s *PolicySpec) At(p Point) Enforcement {
	switch {
	case len(s.Points) == 0 || slices.Contains(s.Points, p):
		return s.Enforcement
	case p == PointCompile && slices.Contains(s.Points, PointAudit):
		return EnforceAudit
	}
	return ""
}

// KeepsLastGood and FailsOpen read OnDeny and OnFailure.
func (s *PolicySpec) KeepsLastGood() bool { return s.OnDeny == "keepLastGood" }

// FailsOpen reports whether objects that the policy cannot judge are let through.
func (s *PolicySpec) FailsOpen() bool { return s.OnFailure == "open" }

// DefaultDeadline is how long one policy may take for one object.
const DefaultDeadline = 100 * time.Millisecond

// TimeLimit returns the deadline as a duration.
func (s *PolicySpec) TimeLimit() time.Duration {
	if d, err := time.ParseDuration(s.Deadline); err == nil && d > 0 {
		return d
	}
	return DefaultDeadline
}

// Tenant is one team: its namespaces, the host names that it may claim, and its limits.
type Tenant struct {
	Object *snapshot.Object
	Spec   TenantSpec
}

// TenantSpec is the body of a Tenant. The object's name is the tenant's name.
type TenantSpec struct {
	// Owner is who answers for the tenant, for people.
	Owner string `json:"owner"`
	// Namespaces belong to the tenant, by name or by the labels of the Namespace object.
	Namespaces        []string          `json:"namespaces,omitzero"`
	NamespaceSelector map[string]string `json:"namespaceSelector,omitzero"`
	// Hosts are the host names that the tenant may claim: exact, or "*.example.com" for every name below.
	Hosts []string `json:"hosts,omitzero"`
	// Limits are most numbers of objects by kind, for example {"Mapping": 100, "Host": 5}.
	Limits map[string]int `json:"limits,omitzero"`
	// MaxPolicies is how many policies of its own the tenant may have; 20 when absent.
	MaxPolicies *int `json:"maxPolicies,omitzero"`
}

// Exception waives one policy for one object until it expires.
type Exception struct {
	Object *snapshot.Object
	Spec   ExceptionSpec
	// Expiry is Spec.Expires, read.
	Expiry time.Time
}

// ExceptionSpec is the body of a PolicyException. All fields are required.
type ExceptionSpec struct {
	// Policy is the policy's id.
	Policy string `json:"policy"`
	// Target is the exact object.
	Target Target `json:"target"`
	Owner  string `json:"owner"`
	Reason string `json:"reason"`
	// Expires is a time in RFC 3339.
	Expires string `json:"expires"`
}

// Target names one object. Group may be left out for Emissary's kinds.
type Target struct {
	Group     string `json:"group,omitzero"`
	Kind      string `json:"kind"`
	Namespace string `json:"namespace,omitzero"`
	Name      string `json:"name"`
}

// Is reports whether the target names the object.
func (t Target) Is(r snapshot.Ref) bool {
	return t.Kind == r.Kind && t.Namespace == r.Namespace && t.Name == r.Name && (t.Group == r.Group || t.Group == "" && r.Group == snapshot.EmissaryGroup)
}
