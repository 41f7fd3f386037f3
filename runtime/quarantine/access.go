package quarantine

import (
	"bytes"
	"encoding/json"
	"slices"
	"strings"

	"github.com/chancery-gateway/chancery/snapshot"
)

// accessRule tells of one field by which an object's form can withdraw access that the form before gave.
type accessRule struct {
	kind, path string
	withdraws  func(was, now any) bool
}

var accessRules = []accessRule{
	{"Mapping", "spec.bypass_auth", off},
	{"Mapping", "spec.allow_upgrade", fewer},
	{"Mapping", "spec.cors.origins", fewer},
	{"Host", "spec.requestPolicy.insecure.action", func(was, now any) bool { return was == "Route" && now != "Route" }},
	{"Host", "spec.tlsContext.name", other},
	{"Host", "spec.tls.ca_secret", other},
	{"Host", "spec.tls.cacert_chain_file", other},
	{"Host", "spec.tls.crl_secret", other},
	{"Host", "spec.tls.cert_required", on},
	{"Host", "spec.tls.min_tls_version", higher},
	{"TLSContext", "spec.ca_secret", other},
	{"TLSContext", "spec.cacert_chain_file", other},
	{"TLSContext", "spec.crl_secret", other},
	{"TLSContext", "spec.cert_required", on},
	{"TLSContext", "spec.min_tls_version", higher},
	{"Module", "spec.config.ip_allow", func(was, now any) bool { return now != nil && (was == nil || fewer(was, now)) }},
	{"Module", "spec.config.ip_deny", func(was, now any) bool { return fewer(now, was) }},
	{"Module", "spec.config.use_remote_address", different},
	{"Module", "spec.config.xff_num_trusted_hops", different},
	{"AuthService", "spec.auth_service", different},
	{"AuthService", "spec.proto", different},
	{"AuthService", "spec.path_prefix", different},
	{"AuthService", "spec.failure_mode_allow", off},
	{"RateLimitService", "spec.failure_mode_deny", on},
}

// off: what was switched on is so no more; on: it is now and was not.
func off(was, now any) bool { return was == true && now != true }
func on(was, now any) bool  { return now == true && was != true }

// other: there is a value now, and it was not there before.
func other(was, now any) bool { return now != nil && now != "" && now != was }

func different(was, now any) bool { return canonical(was) != canonical(now) }

// higher compares TLS versions ("v1.2").
func higher(was, now any) bool {
	a, _ := was.(string)
	b, _ := now.(string)
	return strings.Compare(b, a) > 0
}

// fewer: a member of the list that was is not in the one that is. A value alone is a list of one.
func fewer(was, now any) bool {
	members := func(v any) []string {
		list, ok := v.([]any)
		if !ok && v != nil {
			list = []any{v}
		}
		out := make([]string, len(list))
		for i, x := range list {
			out[i] = canonical(x)
		}
		return out
	}
	present := members(now)
	return slices.ContainsFunc(members(was), func(x string) bool { return !slices.Contains(present, x) })
}

func canonical(v any) string {
	b, err := json.Marshal(v) // members are sorted
	if err != nil {
		return ""
	}
	return string(b)
}

// withdraws returns the field by which the new form of an object withdraws access that its good form gives; "" for none. Such an
// object is not served in its good form: who may not come in any more must not, whatever else is wrong with the new form.
func withdraws(good, now *snapshot.Object) string {
	if good.Group != snapshot.EmissaryGroup {
		return ""
	}
	var before, after any
	for _, r := range accessRules {
		if r.kind != good.Kind {
			continue
		}
		if before == nil {
			before, after = body(good), body(now)
		}
		if r.withdraws(at(before, r.path), at(after, r.path)) {
			return r.path
		}
	}
	return ""
}

func body(o *snapshot.Object) any {
	var v any
	d := json.NewDecoder(bytes.NewReader(o.Raw))
	d.UseNumber()
	if d.Decode(&v) != nil {
		return nil // Raw is what we wrote ourselves
	}
	return v
}

// at returns the value of a field as in "spec.tls.ca_secret"; nil where there is none.
func at(v any, path string) any {
	for name := range strings.SplitSeq(path, ".") {
		m, ok := v.(map[string]any)
		if !ok {
			return nil
		}
		v = m[name]
	}
	return v
}
