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
		if items && !p.filled() {
			return false // the full parser tells the line of its first content
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

// filled reports whether something stands behind the "-" at the position.
func (p *plain) filled() bool {
	line := bytes.TrimSpace(p.src[p.pos+1 : lineEnd(p.src, p.pos)])
	return len(line) > 0 && line[0] != '#'
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
	case p.topLevel(`"items"`) && (string(p.out[value:]) == "[]" || string(p.out[value:]) == "null"):
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
