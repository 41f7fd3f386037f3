package emissary

import (
	"regexp/syntax"
	"unicode"
)

// maxByte is the last character: Envoy compiles expressions as Latin-1, byte by byte.
const maxByte = 0xff

// program is RE2's program for an expression, built as RE2's compiler does (RE2: compile.cc).
type program struct {
	builder
	first, start int
}

// newProgram compiles the expression.
func newProgram(re *syntax.Regexp) *program {
	// RE2 takes "^" with the literal behind it off the expression and compares that by itself (Regexp::RequiredPrefix).
	p := &program{}
	b := &p.builder
	b.add(step{op: opFail})
	root := requiredPrefix(re)
	root, anchored := stripAnchors(root)
	match := b.add(step{op: opMatch})
	p.start = b.compile(root.Simplify(), match)
	p.first = p.start
	if !anchored {
		loop := b.add(step{op: opAlt})
		all := b.add(step{op: opByte, out: loop})
		b.steps[loop].out, b.steps[loop].out1 = p.start, all
		p.first = loop
	}
	return p
}

// bound returns a number of instructions that size does not exceed, at little cost: flattening leaves each step but Alt
// and Nop once, and makes at most one jump of each way out of those.
func (p *program) bound() uint32 {
	n := 2
	for i := range p.steps {
		if p.steps[i].op == opAlt {
			n++
		}
		n++
	}
	return uint32(n)
}

// size returns the number of instructions that are left after flattening (RE2: prog.cc), which Envoy compares with its
// limit (re2.max_program_size.error_level). Sizes past maxProgram are cut there.
func (p *program) size() uint32 {
	if p.full() {
		return maxProgram
	}
	return uint32(p.flattened(p.first, p.start))
}

// requiredPrefix cuts a leading "^literal" off.
func requiredPrefix(re *syntax.Regexp) *syntax.Regexp {
	if re.Op != syntax.OpConcat {
		return re
	}
	i := 0
	for i < len(re.Sub) && re.Sub[i].Op == syntax.OpBeginText {
		i++
	}
	if i == 0 || i >= len(re.Sub) || re.Sub[i].Op != syntax.OpLiteral {
		return re
	}
	return &syntax.Regexp{Op: syntax.OpConcat, Sub: re.Sub[i+1:]}
}

// stripAnchors cuts one leading "^" and one trailing "$" of a concatenation off: RE2 keeps them as flags.
func stripAnchors(re *syntax.Regexp) (stripped *syntax.Regexp, anchored bool) {
	sub := []*syntax.Regexp{re}
	if re.Op == syntax.OpConcat {
		sub = re.Sub
	}
	if len(sub) > 0 && sub[0].Op == syntax.OpBeginText {
		sub, anchored = sub[1:], true
	}
	if n := len(sub); n > 0 && sub[n-1].Op == syntax.OpEndText {
		sub = sub[:n-1]
	}
	if len(sub) == 0 {
		return &syntax.Regexp{Op: syntax.OpEmptyMatch}, anchored
	}
	return &syntax.Regexp{Op: syntax.OpConcat, Sub: sub}, anchored
}

type opcode uint8

const (
	opFail opcode = iota
	opMatch
	opByte
	opEmpty
	opCapture
	opAlt
	opNop
)

type step struct {
	op        opcode
	out, out1 int
}

type builder struct{ steps []step }

// maxProgram bounds the work on absurd expressions.
const maxProgram = 100000

func (b *builder) full() bool { return len(b.steps) >= maxProgram }

func (b *builder) add(s step) int {
	if b.full() {
		return 0
	}
	b.steps = append(b.steps, s)
	return len(b.steps) - 1
}

// compile returns the first step of re, whose last steps lead to next.
func (b *builder) compile(re *syntax.Regexp, next int) int {
	if b.full() {
		return 0
	}
	switch re.Op {
	case syntax.OpNoMatch:
		return 0
	case syntax.OpEmptyMatch:
		return b.add(step{op: opNop, out: next})
	case syntax.OpLiteral:
		for i := len(re.Rune) - 1; i >= 0; i-- {
			next = b.literal(re.Rune[i], re.Flags&syntax.FoldCase != 0, next)
		}
		return next
	case syntax.OpCharClass:
		return b.class(re.Rune, next)
	case syntax.OpAnyCharNotNL:
		return b.class([]rune{0, '\n' - 1, '\n' + 1, maxByte}, next)
	case syntax.OpAnyChar:
		return b.class([]rune{0, maxByte}, next)
	case syntax.OpBeginLine, syntax.OpEndLine, syntax.OpBeginText, syntax.OpEndText, syntax.OpWordBoundary, syntax.OpNoWordBoundary:
		return b.add(step{op: opEmpty, out: next})
	case syntax.OpCapture:
		end := b.add(step{op: opCapture, out: next})
		return b.add(step{op: opCapture, out: b.compile(re.Sub[0], end)})
	case syntax.OpStar:
		return b.star(re.Sub[0], next)
	case syntax.OpPlus:
		loop := b.add(step{op: opAlt, out1: next})
		start := b.compile(re.Sub[0], loop)
		b.steps[loop].out = start
		return start
	case syntax.OpQuest:
		return b.add(step{op: opAlt, out: b.compile(re.Sub[0], next), out1: next})
	case syntax.OpConcat:
		for i := len(re.Sub) - 1; i >= 0; i-- {
			next = b.compile(re.Sub[i], next)
		}
		return next
	case syntax.OpAlternate:
		start := b.compile(re.Sub[len(re.Sub)-1], next)
		for i := len(re.Sub) - 2; i >= 0; i-- {
			start = b.add(step{op: opAlt, out: b.compile(re.Sub[i], next), out1: start})
		}
		return start
	}
	return next
}

// star compiles "x*"; where x can be empty RE2 makes "(x+)?" of it, to keep the order of preference.
func (b *builder) star(sub *syntax.Regexp, next int) int {
	if nullable(sub) {
		plus := &syntax.Regexp{Op: syntax.OpPlus, Sub: []*syntax.Regexp{sub}}
		return b.add(step{op: opAlt, out: b.compile(plus, next), out1: next})
	}
	loop := b.add(step{op: opAlt, out1: next})
	b.steps[loop].out = b.compile(sub, loop)
	return loop
}

// nullable reports whether re can match the empty text.
func nullable(re *syntax.Regexp) bool {
	switch re.Op {
	case syntax.OpLiteral, syntax.OpCharClass, syntax.OpAnyChar, syntax.OpAnyCharNotNL, syntax.OpNoMatch:
		return false
	case syntax.OpCapture, syntax.OpPlus:
		return nullable(re.Sub[0])
	case syntax.OpConcat:
		for _, sub := range re.Sub {
			if !nullable(sub) {
				return false
			}
		}
		return true
	case syntax.OpAlternate:
		for _, sub := range re.Sub {
			if nullable(sub) {
				return true
			}
		}
		return false
	}
	return true
}

func (b *builder) literal(r rune, fold bool, next int) int {
	if fold {
		rs := []rune{r, r}
		for f := unicode.SimpleFold(r); f != r; f = unicode.SimpleFold(f) {
			rs = append(rs, f, f)
		}
		return b.class(rs, next)
	}
	return b.add(step{op: opByte, out: next})
}

// class compiles a character class (pairs of first and last rune) to an alternation of byte ranges.
func (b *builder) class(ranges []rune, next int) int {
	folds := foldsASCII(ranges)
	start := 0
	for i := 0; i+1 < len(ranges); i += 2 {
		lo, hi := ranges[i], ranges[i+1]
		if lo > maxByte || folds && 'A' <= lo && hi <= 'Z' {
			continue
		}
		one := b.add(step{op: opByte, out: next})
		if start == 0 {
			start = one
		} else {
			start = b.add(step{op: opAlt, out: start, out1: one})
		}
	}
	return start
}

// foldsASCII reports whether the class has the same letters in both cases; RE2 then compiles only the lower ones.
func foldsASCII(ranges []rune) bool {
	has := func(r rune) bool {
		for i := 0; i+1 < len(ranges); i += 2 {
			if ranges[i] <= r && r <= ranges[i+1] {
				return true
			}
		}
		return false
	}
	for r := 'a'; r <= 'z'; r++ {
		if has(r) != has(r-'a'+'A') {
			return false
		}
	}
	return true
}

// flattened counts the instructions of the flat program: each target of an instruction that consumes or checks starts a
// list, Alt and Nop dissolve in lists, and a list that reaches another's start ends there with one jump.
func (b *builder) flattened(first, start int) int {
	roots := map[int]bool{0: true, first: true, start: true}
	reached := []int{0, first, start}
	seen := map[int]bool{}
	for len(reached) > 0 {
		at := reached[len(reached)-1]
		reached = reached[:len(reached)-1]
		if seen[at] {
			continue
		}
		seen[at] = true
		switch s := b.steps[at]; s.op {
		case opAlt:
			reached = append(reached, s.out, s.out1)
		case opNop:
			reached = append(reached, s.out)
		case opByte, opEmpty, opCapture:
			roots[s.out] = true
			reached = append(reached, s.out)
		}
	}
	b.dominate(roots, seen)
	size := 0
	for at := range roots {
		if seen[at] {
			size += b.list(at, roots)
		}
	}
	return size
}

// dominate makes roots of the steps that several lists share.
func (b *builder) dominate(roots, seen map[int]bool) {
	for changed := true; changed; {
		changed = false
		owner := map[int]int{}
		for root := range roots {
			if !seen[root] {
				continue
			}
			stack, visited := []int{root}, map[int]bool{}
			for len(stack) > 0 {
				at := stack[len(stack)-1]
				stack = stack[:len(stack)-1]
				if visited[at] || at != root && roots[at] {
					continue
				}
				visited[at] = true
				if of, taken := owner[at]; at != root && taken && of != root {
					roots[at], changed = true, true
					continue
				}
				owner[at] = root
				switch s := b.steps[at]; s.op {
				case opAlt:
					stack = append(stack, s.out, s.out1)
				case opNop:
					stack = append(stack, s.out)
				}
			}
		}
	}
}

func (b *builder) list(root int, roots map[int]bool) int {
	size := 0
	stack, visited := []int{root}, map[int]bool{}
	for len(stack) > 0 {
		at := stack[len(stack)-1]
		stack = stack[:len(stack)-1]
		if visited[at] {
			continue
		}
		visited[at] = true
		if at != root && roots[at] {
			size++ // a jump to the other list
			continue
		}
		switch s := b.steps[at]; s.op {
		case opAlt:
			stack = append(stack, s.out, s.out1)
		case opNop:
			stack = append(stack, s.out)
		default:
			size++
		}
	}
	return size
}
