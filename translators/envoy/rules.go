package envoy

import (
	"regexp/syntax"
	"strings"

	"github.com/chancery-gateway/chancery/translators/ir"
)

// The rules here are what Envoy accepts silently and then does not do, or refuses with all that stands around it.

// token reports whether s is an RFC 9110 token.
func token(s string) bool {
	for i := 0; i < len(s); i++ {
		c := s[i]
		switch {
		case c >= 'a' && c <= 'z', c >= 'A' && c <= 'Z', c >= '0' && c <= '9':
		case strings.IndexByte("!#$%&'*+-.^_`|~", c) >= 0:
		default:
			return false
		}
	}
	return s != ""
}

// changeable refuses header names that are malformed or that Envoy does not let configuration change.
func changeable(path, name string, f *faults) {
	switch {
	case strings.HasPrefix(name, ":"), strings.EqualFold(name, "host"):
		f.add(codeHeaderName, path, "Envoy does not let configuration change the header %q", name)
	case !token(name):
		f.add(codeHeaderName, path, "%q is no header name", name)
	}
}

// domain refuses a * that Envoy would take for a letter.
func domain(path, d string, f *faults) {
	if inner := strings.TrimSuffix(strings.TrimPrefix(d, "*"), "*"); strings.Contains(inner, "*") || len(d) > len(inner)+1 && d != "*" {
		f.add(codeValue, path, "in %q the * stands neither first nor last; Envoy would take it for a letter", d)
	}
}

// maxHeader is the longest header name or value that Envoy's protobuf rules allow, in bytes.
const maxHeader = 16384

// printable refuses header values that would end the header, and what is too long.
func printable(path string, h *ir.HeaderValue, f *faults) {
	if len(h.Name) > maxHeader || len(h.Value) > maxHeader {
		f.add(codeRule, path, "header %.40q is longer than %d bytes", h.Name, maxHeader)
	}
	if strings.ContainsAny(h.Value, "\x00\r\n") {
		f.add(codeRule, path, "the value of header %q has a zero byte or a line break", h.Name)
	}
}

// parseRegex returns the number of groups; -1 with a fault when RE2 cannot parse the pattern.
func parseRegex(path, pattern string, f *faults) int {
	re, err := syntax.Parse(pattern, syntax.Perl)
	if err != nil {
		f.add(codeRegex, path, "%s", strings.TrimPrefix(err.Error(), "error parsing regexp: "))
		return -1
	}
	return re.MaxCap()
}

// substitution checks that each \N of the text names a group of the pattern.
func substitution(path string, r *ir.RegexRewrite, f *faults) {
	groups := parseRegex(path+".pattern", r.Pattern, f)
	if groups < 0 {
		return
	}
	s := r.Substitution
	for i := 0; i < len(s); i++ {
		if s[i] != '\\' {
			continue
		}
		i++
		switch {
		case i == len(s):
			f.add(codeSubstitution, path+".substitution", "the text ends in a single backslash")
		case s[i] == '\\':
		case s[i] < '0' || s[i] > '9':
			f.add(codeSubstitution, path+".substitution", "\\%c is no reference to a group", s[i])
		case int(s[i]-'0') > groups:
			f.add(codeSubstitution, path+".substitution", "\\%c is named, but the pattern has %d groups", s[i], groups)
		}
	}
}

// format checks that each % of a header value is %% or opens a command that is closed.
func format(path, value string, f *faults) {
	for rest := value; ; {
		i := strings.IndexByte(rest, '%')
		if i < 0 {
			return
		}
		n := command(rest[i:])
		if n == 0 {
			f.add(codeFormat, path, "%q has no valid command at position %d", value, len(value)-len(rest)+i)
			return
		}
		rest = rest[i+n:]
	}
}

// command returns the length of the %COMMAND(arguments):length% or %% that s begins with; 0 when there is none.
func command(s string) int {
	if strings.HasPrefix(s, "%%") {
		return 2
	}
	i := 1
	for i < len(s) && (s[i] >= 'A' && s[i] <= 'Z' || s[i] >= '0' && s[i] <= '9' || s[i] == '_') {
		i++
	}
	if i == 1 || i == len(s) {
		return 0
	}
	if s[i] == '(' {
		for {
			end := strings.IndexByte(s[i:], ')')
			if end < 0 {
				return 0
			}
			i += end + 1
			if i == len(s) {
				return 0
			}
			if s[i] == '%' || s[i] == ':' {
				break
			}
		}
	}
	if s[i] == ':' {
		for i++; i < len(s) && s[i] >= '0' && s[i] <= '9'; i++ {
		}
	}
	if i < len(s) && s[i] == '%' {
		return i + 1
	}
	return 0
}

// retryConditions are the words of retry_on (Envoy docs: HTTP filters, Router, x-envoy-retry-on and x-envoy-retry-grpc-on).
var retryConditions = map[string]bool{
	"5xx": true, "gateway-error": true, "reset": true, "reset-before-request": true, "connect-failure": true,
	"envoy-ratelimited": true, "retriable-4xx": true, "refused-stream": true, "retriable-status-codes": true,
	"retriable-headers": true, "http3-post-connect-failure": true, "cancelled": true, "deadline-exceeded": true, "internal": true,
	"resource-exhausted": true, "unavailable": true,
}

func retryOn(path, words string, f *faults) {
	for word := range strings.SplitSeq(words, ",") {
		if w := strings.TrimSpace(word); !retryConditions[w] {
			f.add(codeRetryOn, path, "%q is no retry condition of Envoy", w)
		}
	}
}

// weights checks that a split of more than one target has a usable sum.
func weights(path string, targets []ir.WeightedCluster, f *faults) {
	var sum uint64
	for i := range targets {
		sum += uint64(targets[i].Weight)
	}
	switch {
	case len(targets) == 0:
		f.add(codeWeights, path, "there is no target")
	case len(targets) > 1 && sum == 0:
		f.add(codeWeights, path, "all weights are zero")
	case sum > 1<<32-1:
		f.add(codeWeights, path, "the sum of the weights is above 4294967295")
	}
}
