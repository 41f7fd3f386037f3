package policies

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/chancery-gateway/chancery/snapshot"
	"github.com/chancery-gateway/chancery/snapshot/api/v3alpha1"
)

// claimed is what several objects compete for. The zero value is nothing.
type claimed struct {
	kind, what string
}

// kindDefaults is the kind of the claims of a tenant's Mapping and of the platform's Module to one setting.
const kindDefaults = "Defaults"

// claimKinds are the kinds of claims, the order in which they are settled: a Module before those that its defaults bind.
var claimKinds = []string{"Module", kindDefaults, "AuthService", "RateLimitService", "LogService", "TracingService", "Host", "Listener", "Mapping"}

// single are the kinds of which the gateway follows one object for all that it serves. The platform's comes before those of
// tenants, whatever their age: no tenant takes over what holds for all.
func single(kind string) bool {
	switch kind {
	case "Module", "AuthService", "RateLimitService", "LogService", "TracingService":
		return true
	}
	return false
}

// shared reports whether objects of one owner stand side by side under one claim: branches of a canary, services that share
// their load. The first of them speaks for all.
func shared(kind string) bool { return kind == "Mapping" || single(kind) }

// claimOf returns what an object claims; the zero value for objects that compete for nothing, or are for another installation.
func claimOf(o *snapshot.Object, id string) claimed {
	if o == nil || o.Group != snapshot.EmissaryGroup {
		return claimed{}
	}
	ids, what := v3alpha1.AmbassadorID(nil), "the gateway's own"
	switch s := o.Spec.(type) {
	case *v3alpha1.HostSpec:
		ids, what = s.AmbassadorID, cmp.Or(strings.TrimSuffix(strings.ToLower(s.Hostname), "."), "*")
	case *v3alpha1.ListenerSpec:
		ids, what = s.AmbassadorID, fmt.Sprintf("port %d", s.Port)
		if s.Protocol == "UDP" || len(s.ProtocolStack) > 0 && s.ProtocolStack[len(s.ProtocolStack)-1] == "UDP" {
			what += " (UDP)"
		}
	case *v3alpha1.MappingSpec:
		ids, what = s.AmbassadorID, match(s)
	case *v3alpha1.ModuleSpec:
		if o.Name != "ambassador" {
			return claimed{}
		}
		ids = s.AmbassadorID
	case *v3alpha1.AuthServiceSpec:
		ids = s.AmbassadorID
	case *v3alpha1.RateLimitServiceSpec:
		ids = s.AmbassadorID
	case *v3alpha1.LogServiceSpec:
		ids = s.AmbassadorID
	case *v3alpha1.TracingServiceSpec:
		ids = s.AmbassadorID
	default:
		return claimed{}
	}
	if !ids.Matches(cmp.Or(id, "default")) {
		return claimed{}
	}
	return claimed{o.Kind, what}
}

// match writes the requests that a Mapping claims: equal texts are the same requests.
func match(s *v3alpha1.MappingSpec) string {
	var b strings.Builder
	host, kind := strings.ToLower(s.Hostname), "host"
	if host == "" {
		if host = s.DeprecatedHost; s.DeprecatedHostRegex {
			kind = "host-regex"
		} else {
			host = strings.ToLower(host)
		}
	}
	headers := map[string]string{}
	for name, value := range s.Headers {
		if name = strings.ToLower(name); name == ":authority" {
			host = cmp.Or(host, strings.ToLower(value))
		} else {
			headers[name] = value
		}
	}
	path := "prefix"
	switch {
	case s.PrefixRegex:
		path = "regex"
	case s.PrefixExact:
		path = "path"
	}
	if host != "" {
		fmt.Fprintf(&b, "%s %q ", kind, host)
	}
	fmt.Fprintf(&b, "%s %q", path, s.Prefix)
	if s.Method != "" {
		fmt.Fprintf(&b, " method %q", s.Method)
		if s.MethodRegex {
			b.WriteString(" (regex)")
		}
	}
	for _, group := range []struct {
		what   string
		values map[string]string
	}{{"header", headers}, {"header-regex", s.RegexHeaders}, {"query", s.QueryParameters}, {"query-regex", s.RegexQueryParameters}} {
		for _, name := range slices.Sorted(maps.Keys(group.values)) {
			fmt.Fprintf(&b, " %s %q=%q", group.what, name, group.values[name])
		}
	}
	if s.Precedence != nil && *s.Precedence != 0 {
		fmt.Fprintf(&b, " precedence %d", *s.Precedence)
	}
	return b.String()
}
