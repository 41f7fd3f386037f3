package emissary

import (
	"errors"
	"fmt"
	"regexp/syntax"
	"strconv"
	"strings"
	"sync"
)

// defaultRegexMaxSize is Module regex_max_size' default.
const defaultRegexMaxSize = 200

// checkRegex checks an expression as Envoy will read it: RE2 syntax, and a program that is not larger than limit. It
// returns the number of groups.
func checkRegex(expr string, limit uint32) (groups int, err error) {
	r := analyses.of(expr)
	if r.err != nil {
		return 0, r.err
	}
	if r.size > limit && !r.exact {
		r = analyses.measure(expr)
	}
	if r.size > limit {
		return 0, fmt.Errorf("the expression is too large for Envoy: its RE2 program has %d steps, %d are allowed", r.size, limit)
	}
	return r.groups, nil
}

// analysis is what is known about one expression. size is the program's, or, where it is not exact, not below it.
type analysis struct {
	groups int
	size   uint32
	exact  bool
	err    error
}

// analyses remembers results by expression: equal expressions come from many objects, and from one over and over.
var analyses cache

type cache struct {
	sync.Mutex
	known map[string]analysis
}

// maxAnalyses bounds the memory of a cache; past it the map starts afresh.
const maxAnalyses = 10000

func (c *cache) of(expr string) analysis {
	c.Lock()
	r, known := c.known[expr]
	c.Unlock()
	if known {
		return r
	}
	re, err := parseRegex(expr)
	if err != nil {
		return c.keep(expr, analysis{err: err})
	}
	return c.keep(expr, analysis{groups: re.MaxCap(), size: newProgram(re).bound()})
}

// measure counts the size of a valid expression exactly.
func (c *cache) measure(expr string) analysis {
	re, err := parseRegex(expr)
	if err != nil {
		return c.keep(expr, analysis{err: err})
	}
	return c.keep(expr, analysis{groups: re.MaxCap(), size: newProgram(re).size(), exact: true})
}

func (c *cache) keep(expr string, r analysis) analysis {
	c.Lock()
	defer c.Unlock()
	if c.known == nil || len(c.known) >= maxAnalyses {
		c.known = map[string]analysis{}
	}
	c.known[expr] = r
	return r
}

// parseRegex parses an expression as Envoy does, who reads it as Latin-1: each byte is one character.
func parseRegex(expr string) (*syntax.Regexp, error) {
	latin := make([]rune, len(expr))
	for i := range len(expr) {
		latin[i] = rune(expr[i])
	}
	re, err := syntax.Parse(string(latin), syntax.Perl)
	if err != nil {
		return nil, errors.New(explainRegex(expr, err))
	}
	if escape := wideEscape(expr); escape != "" {
		return nil, errors.New("invalid escape sequence: " + escape + "; Envoy knows characters up to \\x{ff}")
	}
	return re, nil
}

// wideEscape returns the first \x{...} past Latin-1, or "".
func wideEscape(expr string) string {
	for i := 0; i+1 < len(expr); i++ {
		if expr[i] != '\\' {
			continue
		}
		rest := expr[i:]
		i++
		end := strings.IndexByte(rest, '}')
		if !strings.HasPrefix(rest, `\x{`) || end < 0 {
			continue
		}
		if n, err := strconv.ParseUint(rest[3:end], 16, 32); err == nil && n > maxByte {
			return rest[:end+1]
		}
	}
	return ""
}

// explainRegex says what RE2 says, and what the writer may have meant.
func explainRegex(expr string, err error) string {
	text := err.Error()
	var se *syntax.Error
	if errors.As(err, &se) {
		text = string(se.Code)
		if se.Expr != "" {
			text += ": " + se.Expr
		}
		if se.Code == syntax.ErrMissingRepeatArgument && strings.HasPrefix(expr, "*") {
			text += "; this is a regular expression, where \"*\" of a glob is written \".*\""
		}
	}
	return text
}

// checkSubstitution checks that every \N of a substitution names a group of the pattern, and that no escape is unknown to
// RE2 (\0 to \9 and \\).
func checkSubstitution(text string, groups int) error {
	for i := 0; i < len(text); i++ {
		if text[i] != '\\' {
			continue
		}
		if i++; i == len(text) {
			return errors.New(`a backslash at the end: a plain backslash is written \\`)
		}
		switch c := text[i]; {
		case c == '\\':
		case c < '0' || c > '9':
			return fmt.Errorf(`\%c is no reference: \0 to \9 and \\ are`, c)
		case int(c-'0') > groups:
			return fmt.Errorf(`\%c names group %c, but the pattern has %d`, c, c, groups)
		}
	}
	return nil
}
