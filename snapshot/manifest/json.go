package manifest

import (
	"bytes"
	"fmt"
	"iter"
	"strconv"
	"strings"
	"unicode/utf8"
)

// json reads the JSON values of one document: one, several behind each other, or one a line. It returns false when the
// text is no JSON but may be YAML in flow style.
func (s *stream) json(line int, text []byte) bool {
	before := len(s.docs)
	var c checker
	for at, counted := 0, 0; ; {
		at = skipBlank(text, at)
		if at == len(text) || s.failures > maxFailures {
			return true
		}
		line += bytes.Count(text[counted:at], []byte{'\n'})
		counted = at
		c = checker{data: text, start: at, pos: at, keys: c.keys[:0]}
		if p := c.value(0); p != nil {
			if len(s.docs) == before && !looksLikeJSON(text[at:]) {
				return false
			}
			next := resync(text, at)
			if t := templateLine(text[at:next]); t >= 0 {
				p = template(t)
			}
			s.fail(line, text[at:next:next], *p)
			at = next
			continue
		}
		if end := skipBlank(text, c.pos); len(s.docs) == before && end < len(text) && (text[end] == '#' || text[end] == ':') {
			return false // a comment behind it, or a flow mapping as a key: YAML
		}
		own := text[at:c.pos:c.pos]
		s.object(line, own, own, c.heading())
		at = c.pos
	}
}

// looksLikeJSON tells JSON with a mistake from YAML in flow style.
func looksLikeJSON(text []byte) bool {
	if text[0] != '{' && text[0] != '[' {
		return true
	}
	at := skipBlank(text, 1)
	if at == len(text) {
		return true
	}
	switch text[at] {
	case '"', '}', ']':
		return true
	case '{', '[':
		return text[0] == '[' && looksLikeJSON(text[at:])
	}
	return false
}

// resync returns the offset of the next line that starts with '{', behind the value that starts at the offset.
func resync(text []byte, at int) int {
	if next := bytes.Index(text[at+1:], []byte("\n{")); next >= 0 {
		return at + 1 + next + 1
	}
	return len(text)
}

func skipBlank(text []byte, at int) int {
	for at < len(text) && (text[at] == ' ' || text[at] == '\n' || text[at] == '\t' || text[at] == '\r') {
		at++
	}
	return at
}

// checker checks one JSON value: grammar (RFC 8259), unique keys, depth.
type checker struct {
	data  []byte
	start int // where the value starts; lines of problems count from there
	pos   int
	keys  []span

	kind, items span // the values of the top-level fields of these names
	emissary    bool // there is a top-level object "Kubernetes"
}

func (c *checker) problem(at int, message, help string) *problem {
	return &problem{code: SyntaxJSON, line: bytes.Count(c.data[c.start:min(at, len(c.data))], []byte{'\n'}), message: message, help: help}
}

// value checks the value at the position and moves behind it.
func (c *checker) value(depth int) *problem {
	c.pos = skipBlank(c.data, c.pos)
	if c.pos == len(c.data) {
		return c.truncated()
	}
	switch b := c.data[c.pos]; {
	case (b == '{' || b == '[') && depth == MaxDepth:
		p := c.problem(c.pos, fmt.Sprintf("objects and lists are nested deeper than %d levels", MaxDepth), "flatten the document")
		p.code = TooDeep
		return p
	case b == '{':
		return c.object(depth)
	case b == '[':
		return c.array(depth)
	case b == '"':
		return c.text()
	case b == '-' || b >= '0' && b <= '9':
		return c.number()
	}
	for _, word := range []string{"true", "false", "null"} {
		if bytes.HasPrefix(c.data[c.pos:], []byte(word)) {
			c.pos += len(word)
			return nil
		}
	}
	return c.unexpected("a value")
}

func (c *checker) truncated() *problem {
	return c.problem(len(bytes.TrimRight(c.data, " \t\r\n")), "the text ends before the value does", "a bracket or quote is not closed: the file may be cut off")
}

func (c *checker) unexpected(want string) *problem {
	if c.pos >= len(c.data) {
		return c.truncated()
	}
	r, _ := utf8.DecodeRune(c.data[c.pos:])
	return c.problem(c.pos, fmt.Sprintf("%q stands where %s is expected", r, want), "")
}

func (c *checker) object(depth int) *problem {
	first := len(c.keys)
	var wide map[string]bool
	c.pos = skipBlank(c.data, c.pos+1)
	if c.pos < len(c.data) && c.data[c.pos] == '}' {
		c.pos++
		return nil
	}
	for {
		if c.pos == len(c.data) || c.data[c.pos] != '"' {
			return c.unexpected("a key in double quotes")
		}
		start := c.pos
		if p := c.text(); p != nil {
			return p
		}
		key := c.data[start:c.pos]
		if open := c.keys[first:]; wide == nil && (len(open) > 32 || bytes.IndexByte(key, '\\') >= 0) {
			wide = make(map[string]bool, 2*len(open))
			for _, k := range open {
				wide[unescape(c.data[k.start:k.end])] = true
			}
		}
		if wide != nil {
			name := unescape(key)
			if wide[name] {
				return c.twice(start, key)
			}
			wide[name] = true
		} else {
			for _, k := range c.keys[first:] {
				if bytes.Equal(c.data[k.start:k.end], key) {
					return c.twice(start, key)
				}
			}
			c.keys = append(c.keys, span{start, c.pos})
		}
		c.pos = skipBlank(c.data, c.pos)
		if c.pos == len(c.data) || c.data[c.pos] != ':' {
			return c.unexpected("':'")
		}
		c.pos = skipBlank(c.data, c.pos+1)
		from := c.pos
		if p := c.value(depth + 1); p != nil {
			return p
		}
		if depth == 0 {
			c.field(key, span{from, c.pos})
		}
		done, p := c.separator('}', "',' or '}'")
		if p != nil {
			return p
		}
		if done {
			c.keys = c.keys[:first]
			return nil
		}
	}
}

func (c *checker) twice(at int, key []byte) *problem {
	p := c.problem(at, "the key "+string(key)+" stands twice in this object", "remove one of the two")
	p.code = DuplicateKey
	return p
}

func (c *checker) array(depth int) *problem {
	c.pos = skipBlank(c.data, c.pos+1)
	if c.pos < len(c.data) && c.data[c.pos] == ']' {
		c.pos++
		return nil
	}
	for {
		if p := c.value(depth + 1); p != nil {
			return p
		}
		if done, p := c.separator(']', "',' or ']'"); done || p != nil {
			return p
		}
	}
}

// separator moves behind a comma and the blanks that follow, or behind the closing bracket.
func (c *checker) separator(closing byte, want string) (done bool, p *problem) {
	c.pos = skipBlank(c.data, c.pos)
	if c.pos == len(c.data) {
		return false, c.truncated()
	}
	switch c.data[c.pos] {
	case closing:
		c.pos++
		return true, nil
	case ',':
		c.pos = skipBlank(c.data, c.pos+1)
		return false, nil
	}
	return false, c.unexpected(want)
}

func (c *checker) text() *problem {
	start := c.pos
	for at := start + 1; at < len(c.data); at++ {
		switch b := c.data[at]; {
		case b == '"':
			c.pos = at + 1
			return nil
		case b < ' ':
			c.pos = at
			return c.problem(at, "a line break or control character stands inside a string", `a quote is not closed, or it has to be written as an escape (\n)`)
		case b == '\\':
			at++
			if at == len(c.data) {
				return c.truncated()
			}
			if c.data[at] == 'u' {
				if at+4 >= len(c.data) {
					return c.truncated()
				}
				if _, err := strconv.ParseUint(string(c.data[at+1:at+5]), 16, 16); err != nil {
					return c.problem(at, `\u needs four hexadecimal digits`, "")
				}
			} else if strings.IndexByte(`"\/bfnrt`, c.data[at]) < 0 {
				return c.problem(at, fmt.Sprintf(`\%c is no escape`, c.data[at]), `a backslash is written \\`)
			}
		}
	}
	return c.truncated()
}

func (c *checker) number() *problem {
	at := c.pos
	digits := func() bool {
		from := at
		for at < len(c.data) && c.data[at] >= '0' && c.data[at] <= '9' {
			at++
		}
		return at > from
	}
	is := func(set string) bool { return at < len(c.data) && strings.IndexByte(set, c.data[at]) >= 0 }
	if is("-") {
		at++
	}
	ok := true
	if is("0") {
		at++
	} else {
		ok = digits()
	}
	if ok && is(".") {
		at++
		ok = digits()
	}
	if ok && is("eE") {
		if at++; is("+-") {
			at++
		}
		ok = digits()
	}
	c.pos = at
	if !ok || is("0123456789") {
		return c.unexpected("the rest of a number")
	}
	return nil
}

// unescape returns the text of a checked JSON string, quotes included.
func unescape(raw []byte) string {
	if bytes.IndexByte(raw, '\\') < 0 {
		return string(raw[1 : len(raw)-1])
	}
	var b strings.Builder
	for at := 1; at < len(raw)-1; at++ {
		if raw[at] != '\\' {
			b.WriteByte(raw[at])
			continue
		}
		at++
		switch raw[at] {
		case 'n':
			b.WriteByte('\n')
		case 't':
			b.WriteByte('\t')
		case 'r':
			b.WriteByte('\r')
		case 'b':
			b.WriteByte('\b')
		case 'f':
			b.WriteByte('\f')
		case 'u':
			r, _ := strconv.ParseUint(string(raw[at+1:at+5]), 16, 16)
			at += 4
			if r >= 0xd800 && r < 0xdc00 && at+6 < len(raw) && raw[at+1] == '\\' && raw[at+2] == 'u' {
				if low, err := strconv.ParseUint(string(raw[at+3:at+7]), 16, 16); err == nil && low >= 0xdc00 && low < 0xe000 {
					r = 0x10000 + (r-0xd800)<<10 + (low - 0xdc00)
					at += 6
				}
			}
			b.WriteRune(rune(r))
		default:
			b.WriteByte(raw[at])
		}
	}
	return b.String()
}

// skip returns the offset behind the value at the offset. The JSON has been checked.
func skip(data []byte, at int) int {
	depth := 0
	for ; at < len(data); at++ {
		switch data[at] {
		case '"':
			for at++; data[at] != '"'; at++ {
				if data[at] == '\\' {
					at++
				}
			}
			if depth == 0 {
				return at + 1
			}
		case '{', '[':
			depth++
		case '}', ']':
			if depth == 0 {
				return at
			}
			if depth--; depth == 0 {
				return at + 1
			}
		case ',', ' ', '\n', '\t', '\r':
			if depth == 0 {
				return at
			}
		}
	}
	return at
}

// fields yields the keys of a checked object, as raw JSON strings, and where their values stand.
func fields(object []byte) iter.Seq2[[]byte, span] {
	return func(yield func([]byte, span) bool) {
		for at := skipBlank(object, 1); object[at] != '}'; {
			end := skip(object, at)
			start := skipBlank(object, skipBlank(object, end)+1)
			behind := skip(object, start)
			if !yield(object[at:end], span{start, behind}) {
				return
			}
			if at = skipBlank(object, behind); object[at] == ',' {
				at = skipBlank(object, at+1)
			}
		}
	}
}

// elements yields where the elements of a checked array stand.
func elements(array []byte) iter.Seq[span] {
	return func(yield func(span) bool) {
		for at := skipBlank(array, 1); array[at] != ']'; {
			end := skip(array, at)
			if !yield(span{at, end}) {
				return
			}
			if at = skipBlank(array, end); array[at] == ',' {
				at = skipBlank(array, at+1)
			}
		}
	}
}

// heading returns what the top-level fields of the checked value say of it.
func (c *checker) heading() (head heading) {
	if c.items != (span{}) {
		head.items = []item{}
		list := c.data[c.items.start:c.items.end]
		if list[0] == 'n' {
			list = []byte("[]") // null
		}
		for e := range elements(list) {
			at := c.items.start + e.start - c.start
			head.items = append(head.items, item{start: at, end: at + e.end - e.start, text: at})
		}
	}
	if c.kind != (span{}) {
		head.kind = span{c.kind.start - c.start, c.kind.end - c.start}
	}
	head.emissary = c.emissary
	return head
}

// field notes what a field of the top-level object says of the whole.
func (c *checker) field(key []byte, value span) {
	switch string(key) {
	case `"kind"`:
		c.kind = value
	case `"items"`:
		if c.data[value.start] == '[' || c.data[value.start] == 'n' {
			c.items = value
		}
	case `"Kubernetes"`:
		c.emissary = c.data[value.start] == '{'
	}
}
