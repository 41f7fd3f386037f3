package manifest

import (
	"math"
	"regexp"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"
)

// scalarKind is what a plain scalar stands for.
type scalarKind uint8

const (
	kindString scalarKind = iota
	kindNull
	kindBool
	kindInt
	kindFloat
	kindMerge
)

var yamlFloat = regexp.MustCompile(`^[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?$`)

// resolve tells what an unquoted scalar stands for and appends its JSON form to dst. The rules are those of
// go.yaml.in/yaml/v3 (resolve.go): YAML 1.2's core with 1.1's octals and underscores; yes, no, on and off are strings.
// Timestamps stay strings, as sigs.k8s.io/yaml has them. ok is false for a number that JSON cannot say.
func resolve(dst []byte, in string) (out []byte, kind scalarKind, ok bool) {
	if in == "" {
		return append(dst, "null"...), kindNull, true
	}
	switch c := in[0]; {
	case c == '~' || c == 'n' || c == 'N' || c == 't' || c == 'T' || c == 'f' || c == 'F':
		switch in {
		case "~", "null", "Null", "NULL":
			return append(dst, "null"...), kindNull, true
		case "true", "True", "TRUE":
			return append(dst, "true"...), kindBool, true
		case "false", "False", "FALSE":
			return append(dst, "false"...), kindBool, true
		}
	case c == '<':
		if in == "<<" {
			return dst, kindMerge, true
		}
	case c == '.':
		switch in {
		case ".nan", ".NaN", ".NAN", ".inf", ".Inf", ".INF":
			return dst, kindFloat, false
		}
		if f, err := strconv.ParseFloat(in, 64); err == nil {
			return appendFloat(dst, f)
		}
	case c >= '0' && c <= '9' || c == '-' || c == '+':
		return number(dst, in)
	}
	return appendString(dst, in), kindString, true
}

func number(dst []byte, in string) ([]byte, scalarKind, bool) {
	switch in {
	case "+.inf", "+.Inf", "+.INF", "-.inf", "-.Inf", "-.INF":
		return dst, kindFloat, false
	}
	if decimal(in) {
		return append(dst, in...), kindInt, true
	}
	if timestamp(in) {
		return appendString(dst, in), kindString, true
	}
	text := strings.ReplaceAll(in, "_", "")
	if i, err := strconv.ParseInt(text, 0, 64); err == nil {
		return strconv.AppendInt(dst, i, 10), kindInt, true
	}
	if u, err := strconv.ParseUint(text, 0, 64); err == nil {
		return strconv.AppendUint(dst, u, 10), kindInt, true
	}
	if yamlFloat.MatchString(text) {
		if f, err := strconv.ParseFloat(text, 64); err == nil {
			return appendFloat(dst, f)
		}
	}
	for _, base := range []struct {
		prefix string
		base   int
	}{{"0b", 2}, {"0o", 8}} {
		if digits, found := strings.CutPrefix(text, base.prefix); found {
			if i, err := strconv.ParseInt(digits, base.base, 64); err == nil {
				return strconv.AppendInt(dst, i, 10), kindInt, true
			}
			if u, err := strconv.ParseUint(digits, base.base, 64); err == nil {
				return strconv.AppendUint(dst, u, 10), kindInt, true
			}
		} else if digits, found := strings.CutPrefix(text, "-"+base.prefix); found {
			if i, err := strconv.ParseInt("-"+digits, base.base, 64); err == nil {
				return strconv.AppendInt(dst, i, 10), kindInt, true
			}
		}
	}
	return appendString(dst, in), kindString, true
}

// decimal reports whether the text is a JSON integer of at most 18 digits: its form is its value's.
func decimal[T string | []byte](in T) bool {
	at := 0
	if in[0] == '-' {
		at = 1
	}
	if n := len(in) - at; n == 0 || n > 18 || in[at] == '0' && len(in) > 1 {
		return false
	}
	for ; at < len(in); at++ {
		if in[at] < '0' || in[at] > '9' {
			return false
		}
	}
	return true
}

func timestamp(in string) bool {
	if len(in) < 5 || in[4] != '-' {
		return false
	}
	for i := range 4 {
		if in[i] < '0' || in[i] > '9' {
			return false
		}
	}
	for _, layout := range []string{"2006-1-2T15:4:5.999999999Z07:00", "2006-1-2t15:4:5.999999999Z07:00", "2006-1-2 15:4:5.999999999", "2006-1-2"} {
		if _, err := time.Parse(layout, in); err == nil {
			return true
		}
	}
	return false
}

// appendFloat writes a float as encoding/json does.
func appendFloat(dst []byte, f float64) ([]byte, scalarKind, bool) {
	if math.IsInf(f, 0) || math.IsNaN(f) {
		return dst, kindFloat, false
	}
	format := byte('f')
	if abs := math.Abs(f); abs != 0 && (abs < 1e-6 || abs >= 1e21) {
		format = 'e'
	}
	dst = strconv.AppendFloat(dst, f, format, -1, 64)
	if n := len(dst); format == 'e' && n >= 4 && dst[n-4] == 'e' && dst[n-3] == '-' && dst[n-2] == '0' {
		dst[n-2] = dst[n-1]
		dst = dst[:n-1]
	}
	return dst, kindFloat, true
}

const hexDigits = "0123456789abcdef"

// appendString writes a JSON string with no more escapes than JSON needs.
func appendString[T string | []byte](dst []byte, s T) []byte {
	dst = append(dst, '"')
	start := 0
	for i := 0; i < len(s); i++ {
		c := s[i]
		if c >= ' ' && c != '"' && c != '\\' {
			continue
		}
		dst = append(dst, s[start:i]...)
		start = i + 1
		switch c {
		case '"', '\\':
			dst = append(dst, '\\', c)
		case '\b':
			dst = append(dst, `\b`...)
		case '\f':
			dst = append(dst, `\f`...)
		case '\n':
			dst = append(dst, `\n`...)
		case '\r':
			dst = append(dst, `\r`...)
		case '\t':
			dst = append(dst, `\t`...)
		default:
			dst = append(dst, `\u00`...)
			dst = append(dst, hexDigits[c>>4], hexDigits[c&15])
		}
	}
	dst = append(dst, s[start:]...)
	return append(dst, '"')
}

// validString reports whether a scalar of the full parser is UTF-8: escapes such as "\ud800" can make it something else.
func validString(s string) bool { return utf8.ValidString(s) }
