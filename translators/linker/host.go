package linker

import (
	"strings"

	"github.com/chancery-gateway/chancery/translators/ir"
)

// overlaps reports whether some host name can match both globs: "*" takes all, "*x" by suffix, "x*" by prefix, anything
// else is exact. Both are lower case and without port. It is Emissary's rule for Mappings and Hosts, symmetric.
func overlaps(a, b string) bool {
	if a == b || a == "*" || b == "*" {
		return true
	}
	as, ae := strings.HasPrefix(a, "*"), strings.HasSuffix(a, "*")
	bs, be := strings.HasPrefix(b, "*"), strings.HasSuffix(b, "*")
	switch {
	case !as && !ae && !bs && !be:
		return false
	case as && bs:
		return strings.HasSuffix(a, b[1:]) || strings.HasSuffix(b, a[1:])
	case ae && be:
		return strings.HasPrefix(a, b[:len(b)-1]) || strings.HasPrefix(b, a[:len(a)-1])
	case as && be, ae && bs:
		return true
	case as:
		return globTakes(a, b)
	case ae:
		return globTakes(a, b)
	default:
		return globTakes(b, a)
	}
}

// globTakes reports whether an exact name matches the glob. A wildcard stands for at least one character.
func globTakes(glob, name string) bool {
	switch {
	case glob == "*":
		return true
	case strings.HasPrefix(glob, "*"):
		return len(name) > len(glob)-1 && strings.HasSuffix(name, glob[1:]) && !strings.HasPrefix(name, ".")
	case strings.HasSuffix(glob, "*"):
		return len(name) > len(glob)-1 && strings.HasPrefix(name, glob[:len(glob)-1])
	default:
		return glob == name
	}
}

// covers reports whether every name that the narrower glob can match is matched by the wider one.
func covers(wide, narrow string) bool {
	if wide == "*" || wide == narrow {
		return true
	}
	if strings.HasPrefix(narrow, "*") != strings.HasPrefix(wide, "*") && strings.Contains(narrow, "*") {
		return false
	}
	if strings.HasPrefix(wide, "*") {
		return strings.HasSuffix(narrow, wide[1:]) && len(narrow) > len(wide)-1
	}
	if strings.HasSuffix(wide, "*") {
		return strings.HasPrefix(narrow, wide[:len(wide)-1]) && len(narrow) > len(wide)-1
	}
	return false
}

// withoutPort drops a ":port" from a domain; IPv6 literals keep their brackets.
func withoutPort(domain string) string {
	if i := strings.LastIndexByte(domain, ':'); i > 0 && !strings.HasSuffix(domain, "]") {
		return domain[:i]
	}
	return domain
}

// labelsTaken reports whether all wanted labels are there.
func labelsTaken(want, have map[string]string) bool {
	for k, v := range want {
		if got, is := have[k]; !is || got != v {
			return false
		}
	}
	return true
}

// hostTakes decides whether the fragment's routes belong on the host (Emissary: hostname and mappingSelector are ANDed).
func hostTakes(h *ir.HostFragment, f *ir.RouteFragment) bool {
	byName := func() bool {
		switch f.Hosts.Kind {
		case ir.HostGlob:
			return overlaps(h.SNI, f.Hosts.Value)
		case ir.HostRegex:
			return true
		default:
			return false
		}
	}
	switch {
	case f.Hosts.Kind == ir.HostEvery:
		return true
	case h.Select == nil:
		return byName()
	case h.SelectAny:
		if byName() {
			return true
		}
		for k, v := range h.Select {
			if f.Labels[k] == v {
				return true
			}
		}
		return false
	default:
		return labelsTaken(h.Select, f.Labels) && (f.Hosts.Kind == ir.HostNone || byName())
	}
}
