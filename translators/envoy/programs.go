package envoy

import (
	"regexp/syntax"
	"strings"

	"github.com/chancery-gateway/chancery/translators/ir"
)

// programSizes refuses expressions of a route that RE2 certainly compiles to more than limit instructions.
func programSizes(r *ir.Route, limit uint32, f *faults) {
	matchProgramSizes(&r.Match, limit, f)
	if r.Forward != nil && r.Forward.RegexRewrite != nil {
		programSize("route.regex_rewrite.pattern", r.Forward.RegexRewrite.Pattern, limit, f)
	}
	if r.Redirect != nil && r.Redirect.RegexRewrite != nil {
		programSize("redirect.regex_rewrite.pattern", r.Redirect.RegexRewrite.Pattern, limit, f)
	}
	if r.CORS != nil {
		for _, o := range r.CORS.OriginRegex {
			programSize("cors.allow_origin_string_match", o, limit, f)
		}
	}
}

func matchProgramSizes(m *ir.Match, limit uint32, f *faults) {
	if m.PathKind == ir.PathRegex {
		programSize("match.safe_regex", m.Path, limit, f)
	}
	for i := range m.Headers {
		if m.Headers[i].Kind == ir.ValueRegex {
			programSize("match.headers.safe_regex", m.Headers[i].Value, limit, f)
		}
	}
	for i := range m.Query {
		if m.Query[i].Kind == ir.ValueRegex {
			programSize("match.query_parameters.safe_regex", m.Query[i].Value, limit, f)
		}
	}
}

// programSize compares a lower bound of RE2's program size with the limit: RE2 has at least one instruction for each rune
// or class that Go's compiler has one for, and for each end of a group. RE2 needs more for classes beyond ASCII, so that an
// expression that passes here may still be too large.
func programSize(path, pattern string, limit uint32, f *faults) {
	if uint32(len(pattern)) <= limit && !strings.Contains(pattern, "{") {
		return // No part of a pattern makes more instructions than it has bytes but a counted repetition.
	}
	re, err := syntax.Parse(pattern, syntax.Perl)
	if err != nil {
		return // That has been said.
	}
	if size := 1 + leastProgram(re); size > int(limit) {
		f.add(codeProgram, path, "it needs at least %d instructions, and the limit is %d", size, limit)
	}
}

// leastProgram counts the runes, classes and ends of groups of an expression, those of repetitions as often as they are copied.
func leastProgram(re *syntax.Regexp) int {
	n := 0
	switch re.Op {
	case syntax.OpLiteral:
		return len(re.Rune)
	case syntax.OpCharClass, syntax.OpAnyChar, syntax.OpAnyCharNotNL:
		return 1
	case syntax.OpCapture:
		n = 2
	}
	for _, sub := range re.Sub {
		n += leastProgram(sub)
	}
	if re.Op == syntax.OpRepeat && !(re.Min == 0 && re.Max < 0) { // x{0,} is x*.
		n *= max(re.Min, re.Max)
	}
	return n
}
