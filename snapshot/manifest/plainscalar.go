package manifest

import "bytes"

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
