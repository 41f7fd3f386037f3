package envoy

import (
	"regexp/syntax"
	"testing"
)

// TestLeastProgram compares the count with that of the instructions that Go's compiler makes.
func TestLeastProgram(t *testing.T) {
	for _, pattern := range []string{
		"", "a", "/api/v[0-9]+/.*", "(a|b)*c", "(?i)hello", "x{3}", "x{2,5}", "x{2,}", "x{0,}", "x{0}", "(?:ab{2}){3,4}", "(a{2}|b)?", "[^a]{1,8}", "(?:a*)*", "(?:a+)+",
		"^a$", `\bx\B`, "(?s).{10}", "(?:)", "(?:a|)", "((x))", "(?P<n>[a-z0-9-]+){0,7}", "(?:(?:a{2}){3}){4}", `\pL{9}`, "[[:^alpha:]]?",
	} {
		re, err := syntax.Parse(pattern, syntax.Perl)
		if err != nil {
			t.Fatalf("%s: %v", pattern, err)
		}
		program, err := syntax.Compile(re.Simplify())
		if err != nil {
			t.Fatalf("%s: %v", pattern, err)
		}
		want := 0
		for i := range program.Inst {
			switch program.Inst[i].Op {
			case syntax.InstRune, syntax.InstRune1, syntax.InstRuneAny, syntax.InstRuneAnyNotNL, syntax.InstCapture:
				want++
			}
		}
		if got := leastProgram(re); got != want {
			t.Errorf("%s: %d, the compiler makes %d", pattern, got, want)
		}
	}
}
