package manifest

import "bytes"

// plain reads the YAML that manifests are mostly written in: block mappings and sequences of scalars that stand on one
// line. It gives up at everything else (flow collections with content, block scalars, anchors, tags, scalars of several
// lines, tabs) and at everything that is wrong, for the full parser to judge. What it does read, it reads as the full
// parser does, byte for byte.
type plain struct {
	src    []byte
	out    []byte
	pos    int // offset of the next content
	indent int // column of pos; -1 at the end
	depth  int
	keys   []span // keys of the open mappings, in out
	key    span   // the key of the top-level mapping whose value is read
	head   heading
}

type span struct{ start, end int }

// classes of bytes.
const (
	other = iota // nothing special
	esc          // needs care in a JSON string: " and \
	hash         // #
	colon        // :
	quote        // '
	multi        // first byte of a character that YAML may not allow
	stop         // end of the line, tab, or a byte that YAML does not allow
)

var classes = func() (t [256]byte) {
	for c := range 256 {
		if c < ' ' || c == 0x7f {
			t[c] = stop
		}
	}
	t['"'], t['\\'], t['#'], t[':'], t['\''] = esc, esc, hash, colon, quote
	t[0xc2], t[0xe2], t[0xef] = multi, multi, multi
	return t
}()

// starts tells which bytes can start an unquoted scalar here; '-' needs a look at what follows.
var starts = func() (t [256]bool) {
	for c := '!'; c <= '~'; c++ {
		t[c] = bytes.IndexByte([]byte("-?:,[]{}#&*!|>'\"%@`"), byte(c)) < 0
	}
	for c := 0x80; c <= 0xff; c++ {
		t[c] = true
	}
	return t
}()

// reset makes the scanner ready for a document, whose JSON it will append to out.
func (p *plain) reset(src, out []byte) {
	*p = plain{src: src, out: out, keys: p.keys[:0]}
}

// document reads the whole document. It returns false when the text needs the full parser.
func (p *plain) document() bool {
	if !p.next() || p.indent < 0 || !p.node() {
		return false
	}
	return p.indent < 0
}

// next moves to the next content over blanks and comments. The position is at the start of a line.
func (p *plain) next() bool {
	src := p.src
	for at := p.pos; ; {
		start := at
		for at < len(src) && src[at] == ' ' {
			at++
		}
		if at == len(src) {
			p.pos, p.indent = at, -1
			return true
		}
		switch c := src[at]; {
		case c == '\n':
			at++
		case c == '#':
			end, ok := p.comment(at)
			if !ok {
				return false
			}
			at = end
		case c == '\r':
			if at+1 == len(src) || src[at+1] != '\n' {
				return false
			}
			at += 2
		case c == '\t':
			return false
		default:
			p.pos, p.indent = at, at-start
			return true
		}
	}
}

// comment returns the offset behind the comment that starts at the offset and behind its line.
func (p *plain) comment(at int) (int, bool) {
	for src := p.src; at < len(src); at++ {
		switch classes[src[at]] {
		case stop:
			if src[at] == '\t' {
				continue
			}
			return p.eol(at)
		case multi:
			if !allowed(src[at:]) {
				return 0, false
			}
		}
	}
	return at, true
}

// eol returns the offset behind the end of line at the offset, and whether there is one.
func (p *plain) eol(at int) (int, bool) {
	switch {
	case at == len(p.src):
		return at, true
	case p.src[at] == '\n':
		return at + 1, true
	case p.src[at] == '\r' && at+1 < len(p.src) && p.src[at+1] == '\n':
		return at + 2, true
	}
	return 0, false
}

// allowed reports whether the character that starts with 0xc2, 0xe2 or 0xef may stand in a line of YAML: no control, no
// line break of Unicode's, no byte order mark.
func allowed(b []byte) bool {
	if len(b) < 2 {
		return false
	}
	switch b[0] {
	case 0xc2:
		return b[1] >= 0xa0
	case 0xe2:
		return b[1] != 0x80 || len(b) > 2 && b[2] != 0xa8 && b[2] != 0xa9
	default:
		return len(b) > 2 && (b[1] != 0xbb || b[2] != 0xbf) && (b[1] != 0xbf || b[2] < 0xbe)
	}
}

// endOfLine skips blanks and a comment from the offset to the next content.
func (p *plain) endOfLine(at int) bool {
	start := at
	for at < len(p.src) && p.src[at] == ' ' {
		at++
	}
	var ok bool
	if at < len(p.src) && p.src[at] == '#' && at > start {
		at, ok = p.comment(at)
	} else {
		at, ok = p.eol(at)
	}
	if !ok {
		return false
	}
	p.pos = at
	return p.next()
}

// node reads the mapping or sequence that starts at the position.
func (p *plain) node() bool {
	if p.depth++; p.depth > MaxDepth {
		return false
	}
	var ok bool
	if p.dash() {
		ok = p.sequence()
	} else {
		ok = p.mapping()
	}
	p.depth--
	return ok
}

// dash reports whether an entry of a sequence starts at the position.
func (p *plain) dash() bool {
	if p.src[p.pos] != '-' {
		return false
	}
	if p.pos+1 == len(p.src) {
		return true
	}
	c := p.src[p.pos+1]
	return c == ' ' || c == '\n' || c == '\r'
}

func (p *plain) sequence() bool {
	indent, items := p.indent, p.depth == 2 && p.topLevel(`"items"`)
	if items {
		p.head.items = []item{}
	}
	p.out = append(p.out, '[')
	for n := 0; p.indent == indent && p.dash(); n++ {
		if n > 0 {
			p.out = append(p.out, ',')
		}
		start, text := len(p.out), p.pos-indent
		if !p.entry(indent) {
			return false
		}
		if items {
			p.head.items = append(p.head.items, item{start: start, end: len(p.out), text: text})
		}
	}
	p.out = append(p.out, ']')
	return p.indent <= indent
}

// entry reads "- value".
func (p *plain) entry(indent int) bool {
	at := p.pos + 1
	for at < len(p.src) && p.src[at] == ' ' {
		at++
	}
	if at == len(p.src) || p.src[at] == '\n' || p.src[at] == '\r' || p.src[at] == '#' {
		return p.endOfLine(p.pos+1) && p.nested(indent, indent+1)
	}
	p.indent += at - p.pos
	p.pos = at
	if p.dash() {
		return p.node()
	}
	mark := len(p.out)
	end, ok := p.scalar(at)
	if !ok {
		return false
	}
	if p.colonAt(end) {
		p.out = p.out[:mark]
		return p.node()
	}
	return p.endOfLine(end) && p.indent <= indent
}

// nested reads the value that starts on a line of its own: a collection at column least or more, or nothing.
func (p *plain) nested(indent, least int) bool {
	if p.indent >= least && (p.indent > indent || p.dash()) {
		return p.node()
	}
	p.out = append(p.out, "null"...)
	return p.indent <= indent
}

func (p *plain) mapping() bool {
	indent, first := p.indent, len(p.keys)
	p.out = append(p.out, '{')
	for p.indent == indent {
		if p.dash() {
			return false
		}
		if len(p.keys) > first {
			p.out = append(p.out, ',')
		}
		start := len(p.out)
		end, ok := p.scalar(p.pos)
		if !ok || !p.colonAt(end) || p.out[start] != '"' || end-p.pos > 1000 || !p.unique(first, start) {
			return false
		}
		if p.depth == 1 {
			p.key = span{start, len(p.out)}
		}
		for p.src[end] == ' ' {
			end++
		}
		p.out = append(p.out, ':')
		from := len(p.out)
		if !p.value(end+1, indent) {
			return false
		}
		if p.depth == 1 {
			p.heading(from)
		}
	}
	p.keys = p.keys[:first]
	p.out = append(p.out, '}')
	return p.indent < indent
}

// heading notes what the field of the top-level mapping that was just read says of the whole document.
func (p *plain) heading(value int) {
	switch {
	case p.topLevel(`"kind"`):
		p.head.kind = span{value, len(p.out)}
	case p.topLevel(`"Kubernetes"`):
		p.head.emissary = p.out[value] == '{'
	case p.topLevel(`"items"`) && string(p.out[value:]) == "[]":
		p.head.items = []item{}
	}
}

func (p *plain) topLevel(key string) bool { return string(p.out[p.key.start:p.key.end]) == key }

// unique notes the key that was just written and reports whether the mapping has it already. Wide mappings are left to
// the full parser, which looks keys up in a table.
func (p *plain) unique(first, start int) bool {
	key := p.out[start:]
	open := p.keys[first:]
	if len(open) >= 64 {
		return false
	}
	for _, k := range open {
		if k.end-k.start == len(key) && bytes.Equal(p.out[k.start:k.end], key) {
			return false
		}
	}
	p.keys = append(p.keys, span{start, len(p.out)})
	return true
}

// colonAt reports whether ':' and a blank or the end of the line stand at the offset; blanks may stand before it.
func (p *plain) colonAt(at int) bool {
	for at < len(p.src) && p.src[at] == ' ' {
		at++
	}
	if at == len(p.src) || p.src[at] != ':' {
		return false
	}
	at++
	return at == len(p.src) || p.src[at] == ' ' || p.src[at] == '\n' || p.src[at] == '\r'
}

// value reads the value of a key from the offset behind its colon.
func (p *plain) value(at, indent int) bool {
	start := at
	for at < len(p.src) && p.src[at] == ' ' {
		at++
	}
	if at == len(p.src) || p.src[at] == '\n' || p.src[at] == '\r' || p.src[at] == '#' {
		return p.endOfLine(start) && p.nested(indent, indent)
	}
	if p.src[at] == '-' && (at+1 == len(p.src) || p.src[at+1] == ' ' || p.src[at+1] == '\n' || p.src[at+1] == '\r') {
		return false
	}
	end, ok := p.scalar(at)
	return ok && !p.colonAt(end) && p.endOfLine(end) && p.indent <= indent
}

// scalar reads the scalar at the offset and appends its JSON. It returns the offset behind it.
func (p *plain) scalar(at int) (int, bool) {
	src := p.src
	switch c := src[at]; {
	case c == '"':
		return p.double(at)
	case c == '\'':
		return p.single(at)
	case c == '[' || c == '{':
		if at+1 < len(src) && src[at+1] == c+2 {
			p.out = append(p.out, c, c+2)
			return at + 2, true
		}
		return 0, false
	case c == '-':
		if at+1 == len(src) || src[at+1] <= ' ' {
			return 0, false
		}
	case !starts[c]:
		return 0, false
	}
	return p.unquoted(at)
}

func (p *plain) unquoted(at int) (int, bool) {
	src, start, escapes := p.src, at, false
scan:
	for ; at < len(src); at++ {
		switch classes[src[at]] {
		case colon:
			if at+1 == len(src) || src[at+1] <= ' ' {
				break scan
			}
		case hash:
			if src[at-1] == ' ' {
				break scan
			}
		case esc:
			escapes = true
		case multi:
			if !allowed(src[at:]) {
				return 0, false
			}
		case stop:
			if src[at] == '\n' {
				break scan
			}
			if _, ok := p.eol(at); !ok {
				return 0, false
			}
			break scan
		}
	}
	end := at
	for src[end-1] == ' ' {
		end--
	}
	text := src[start:end]
	if decimal(text) {
		p.out = append(p.out, text...)
		return end, true
	}
	// Text that starts with one of these cannot stand for anything but itself; no word that does is longer than "false".
	if c := text[0] | 0x20; !escapes && (text[0] == '/' || c >= 'a' && c <= 'z' && (len(text) > 5 || c != 'n' && c != 't' && c != 'f')) {
		p.out = append(p.out, '"')
		p.out = append(p.out, text...)
		p.out = append(p.out, '"')
		return end, true
	}
	out, kind, ok := resolve(p.out, string(text))
	if !ok || kind == kindMerge {
		return 0, false
	}
	p.out = out
	return end, true
}

func (p *plain) double(at int) (int, bool) {
	src, start := p.src, at
	for at++; at < len(src); at++ {
		switch classes[src[at]] {
		case esc:
			if src[at] == '"' {
				at++
				p.out = append(p.out, src[start:at]...)
				return at, true
			}
			// The escapes that YAML and JSON share.
			at++
			if at == len(src) || bytes.IndexByte([]byte(`"\nrtbf`), src[at]) < 0 {
				return 0, false
			}
		case multi:
			if !allowed(src[at:]) {
				return 0, false
			}
		case stop:
			return 0, false
		}
	}
	return 0, false
}

func (p *plain) single(at int) (int, bool) {
	src := p.src
	p.out = append(p.out, '"')
	at++
	for start := at; at < len(src); at++ {
		switch classes[src[at]] {
		case quote:
			p.out = append(p.out, src[start:at]...)
			if at++; at == len(src) || src[at] != '\'' {
				p.out = append(p.out, '"')
				return at, true
			}
			start = at
		case esc:
			p.out = append(p.out, src[start:at]...)
			p.out = append(p.out, '\\')
			start = at
		case multi:
			if !allowed(src[at:]) {
				return 0, false
			}
		case stop:
			return 0, false
		}
	}
	return 0, false
}
