package wasm

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// escape makes text from a guest fit for a log or a terminal: control characters, invisible ones and bytes that are no
// UTF-8 become backslash escapes, line ends too, and what is longer than limit bytes is cut.
func escape(s string, limit int) string {
	const digits = "0123456789abcdef"
	var b strings.Builder
	for i := 0; i < len(s); {
		if b.Len() >= limit {
			b.WriteString("…")
			break
		}
		r, n := utf8.DecodeRuneInString(s[i:])
		switch {
		case r == '\n':
			b.WriteString(`\n`)
		case r == '\t':
			b.WriteString(`\t`)
		case r == utf8.RuneError && n == 1 || r < ' ' || r == 0x7f:
			b.WriteString(`\x`)
			b.WriteByte(digits[s[i]>>4])
			b.WriteByte(digits[s[i]&0xf])
		case !unicode.IsPrint(r):
			b.WriteString(`\u{`)
			for shift := 20; shift >= 0; shift -= 4 {
				b.WriteByte(digits[r>>shift&0xf])
			}
			b.WriteByte('}')
		default:
			b.WriteString(s[i : i+n])
		}
		i += n
	}
	return b.String()
}

// tail keeps the last bytes of what a guest wrote.
type tail struct {
	data  []byte
	limit int
	lost  int
}

func (t *tail) write(p []byte) {
	if len(p) > t.limit {
		t.lost += len(p) - t.limit
		p = p[len(p)-t.limit:]
	}
	if over := len(t.data) + len(p) - t.limit; over > 0 {
		t.lost += over
		t.data = append(t.data[:0], t.data[over:]...)
	}
	t.data = append(t.data, p...)
}

func (t *tail) reset() { t.data, t.lost = t.data[:0], 0 }

func (t *tail) String() string { return escape(strings.TrimSpace(string(t.data)), 2*t.limit) }
