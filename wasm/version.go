package wasm

import (
	"cmp"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/chancery-gateway/chancery/wasm/abi"
	"github.com/chancery-gateway/chancery/wasm/fault"
)

// abiVersion is a version of the ABI.
type abiVersion struct{ major, minor int }

// spoken lists the newest version of each major version of the ABI that this host speaks: the present one and, once
// there are two, the one before.
var spoken = []abiVersion{{abi.Major, abi.Minor}}

// negotiate returns the version in which host and module talk: the module's own, if the host speaks it.
func negotiate(want string) (abiVersion, error) {
	major, minor, ok := strings.Cut(want, ".")
	v := abiVersion{}
	var err1, err2 error
	v.major, err1 = strconv.Atoi(major)
	v.minor, err2 = strconv.Atoi(minor)
	if !ok || err1 != nil || err2 != nil || v.major < 0 || v.minor < 0 {
		return v, fault.New(fault.ABI, "abi: %q is no version of the form 1.0", escape(want, 100))
	}
	i := slices.IndexFunc(spoken, func(s abiVersion) bool { return s.major == v.major && v.minor <= s.minor })
	if i < 0 {
		known := make([]string, len(spoken))
		for i, s := range spoken {
			known[i] = strconv.Itoa(s.major) + "." + strconv.Itoa(s.minor)
		}
		return v, fault.New(fault.ABI, "abi: the module speaks %d.%d, this host up to %s", v.major, v.minor, strings.Join(known, " and "))
	}
	return v, nil
}

var versionPattern = regexp.MustCompile(`^(0|[1-9]\d{0,8})\.(0|[1-9]\d{0,8})\.(0|[1-9]\d{0,8})(?:-([0-9A-Za-z.-]+))?$`)

// version is a module's version, ordered as Semantic Versioning 2.0 orders (without build metadata).
type version struct {
	numbers [3]int
	pre     []string
}

func parseVersion(s string) (version, bool) {
	parts := versionPattern.FindStringSubmatch(s)
	if parts == nil {
		return version{}, false
	}
	var v version
	for i := range v.numbers {
		v.numbers[i], _ = strconv.Atoi(parts[i+1])
	}
	if parts[4] != "" {
		v.pre = strings.Split(parts[4], ".")
	}
	return v, true
}

func (v version) compare(o version) int {
	if c := slices.Compare(v.numbers[:], o.numbers[:]); c != 0 {
		return c
	}
	if len(v.pre) == 0 || len(o.pre) == 0 {
		return cmp.Compare(len(o.pre), len(v.pre)) // none is greater than any
	}
	return slices.CompareFunc(v.pre, o.pre, func(a, b string) int {
		x, errX := strconv.ParseUint(a, 10, 64)
		y, errY := strconv.ParseUint(b, 10, 64)
		switch {
		case errX == nil && errY == nil:
			return cmp.Compare(x, y)
		case errX == nil:
			return -1
		case errY == nil:
			return 1
		}
		return strings.Compare(a, b)
	})
}
