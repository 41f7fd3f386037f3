package simulator

import "strings"

// cutQuery splits a request target into its path and the rest, which starts with "?" or "#" or is empty.
func cutQuery(target string) (path, rest string) {
	if i := strings.IndexAny(target, "?#"); i >= 0 {
		return target[:i], target[i:]
	}
	return target, ""
}

// normalizePath does what Envoy's normalize_path does (the URL canonicalisation of Chromium's url library): dot segments
// are resolved, "\" becomes "/", unreserved characters lose their escape, unsafe ones get one. ok is false for a path
// that Envoy answers with 400.
func normalizePath(path string) (normal string, ok bool) {
	out := make([]byte, 0, len(path))
	ok = true
	for i := 0; i < len(path); {
		c := path[i]
		if n := dotLength(path[i:]); n > 0 {
			if len(out) == 0 || out[len(out)-1] != '/' {
				out = append(out, '.')
				i += n
				continue
			}
			kind, consumed := afterDot(path[i+n:])
			switch kind {
			case dotName:
				out = append(out, '.')
			case dotParent:
				out = backUp(out)
			}
			i += n + consumed
			continue
		}
		switch {
		case c == '\\':
			out = append(out, '/')
		case c == '%':
			v, valid := unhex(path[i:])
			if !valid {
				out = append(out, '%')
				break
			}
			switch {
			case unreserved(v):
				out = append(out, v)
			default:
				out = append(out, path[i:i+3]...)
				ok = ok && v != 0
			}
			i += 2
		case c == 0:
			return "", false
		case mustEscape(c):
			const digits = "0123456789ABCDEF"
			out = append(out, '%', digits[c>>4], digits[c&15])
		default:
			out = append(out, c)
		}
		i++
	}
	return string(out), ok
}

type dotKind uint8

const (
	dotName    dotKind = iota // part of a file name
	dotCurrent                // "."
	dotParent                 // ".."
)

// afterDot classifies what follows a dot that begins a segment, and says how much of it belongs to the dot segment.
func afterDot(s string) (dotKind, int) {
	if s == "" {
		return dotCurrent, 0
	}
	if s[0] == '/' || s[0] == '\\' {
		return dotCurrent, 1
	}
	n := dotLength(s)
	switch {
	case n == 0:
		return dotName, 0
	case n == len(s):
		return dotParent, n
	case s[n] == '/' || s[n] == '\\':
		return dotParent, n + 1
	}
	return dotName, 0
}

// backUp drops the last segment of a path that ends with a slash, and keeps the slash before it.
func backUp(out []byte) []byte {
	i := len(out) - 1
	if i <= 0 {
		return out
	}
	for i--; i > 0 && out[i] != '/'; i-- {
	}
	return out[:i+1]
}

// dotLength is 1 for a leading ".", 3 for "%2e", else 0.
func dotLength(s string) int {
	switch {
	case strings.HasPrefix(s, "."):
		return 1
	case len(s) >= 3 && s[0] == '%' && s[1] == '2' && s[2]|0x20 == 'e':
		return 3
	}
	return 0
}

func unhex(s string) (byte, bool) {
	if len(s) < 3 {
		return 0, false
	}
	var v byte
	for _, c := range []byte(s[1:3]) {
		switch {
		case c >= '0' && c <= '9':
			c -= '0'
		case c|0x20 >= 'a' && c|0x20 <= 'f':
			c = c | 0x20 - 'a' + 10
		default:
			return 0, false
		}
		v = v<<4 | c
	}
	return v, true
}

func unreserved(c byte) bool {
	return c|0x20 >= 'a' && c|0x20 <= 'z' || c >= '0' && c <= '9' || c == '-' || c == '_' || c == '~'
}

func mustEscape(c byte) bool {
	return c <= ' ' || c >= 0x7f || strings.IndexByte("\"#<>?^`{|}", c) >= 0
}

// mergeSlashes does what Envoy's merge_slashes does: runs of slashes become one, outside of the query string. A path of
// nothing but slashes keeps two of them (measured on Envoy 1.40).
func mergeSlashes(path string) string {
	if !strings.Contains(path, "//") {
		return path
	}
	if strings.Trim(path, "/") == "" {
		return "//"
	}
	var b strings.Builder
	for i := range len(path) {
		if path[i] != '/' || i == 0 || path[i-1] != '/' {
			b.WriteByte(path[i])
		}
	}
	return b.String()
}

// hasEscapedSlash reports whether the path holds %2F or %5C.
func hasEscapedSlash(path string) bool {
	lower := strings.ToLower(path)
	return strings.Contains(lower, "%2f") || strings.Contains(lower, "%5c")
}

// splitPort splits "host:port"; port is "" and host everything where there is none. IPv6 literals keep their brackets.
func splitPort(authority string) (host, port string) {
	i := strings.LastIndexByte(authority, ':')
	if i < 0 || strings.HasPrefix(authority, "[") && !strings.HasSuffix(authority[:i], "]") {
		return authority, ""
	}
	return authority[:i], authority[i+1:]
}
