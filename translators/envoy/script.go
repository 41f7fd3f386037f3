package envoy

import (
	"path"
	"slices"
	"strings"
)

// script refuses Lua that loops or ends the process while it is loaded: Envoy runs a script's top level in its main thread, and a
// loop there would stop every later change for ever. What hides better is found by the validating Envoy.
func script(at, code string, f *faults) {
	var blocks []string // the openers of the blocks that are open
	last := ""
	for rest := code; ; {
		word, after := luaToken(rest)
		if word == "" {
			return
		}
		rest = after
		top := !slices.Contains(blocks, "function")
		switch word {
		case "function", "if", "do":
			blocks = append(blocks, word)
		case "repeat":
			if top {
				f.add(codeScript, at, "a loop (%s) stands outside of functions", word)
				return
			}
			blocks = append(blocks, word)
		case "while", "goto":
			if top {
				f.add(codeScript, at, "a loop (%s) stands outside of functions", word)
				return
			}
		case "end", "until":
			if len(blocks) > 0 {
				blocks = blocks[:len(blocks)-1]
			}
		case "exit":
			if top && last == "os." {
				f.add(codeScript, at, "os.exit stands outside of functions")
				return
			}
		}
		switch {
		case word == "os":
			last = "os"
		case word == "." && last == "os":
			last = "os."
		default:
			last = ""
		}
	}
}

// luaToken returns the next name, keyword or sign of Lua source, and what is behind it; "" at the end. Strings, numbers and
// comments are passed over.
func luaToken(s string) (word, rest string) {
	for s != "" {
		c := s[0]
		switch {
		case strings.HasPrefix(s, "--"):
			if body := s[2:]; longBracket(body) >= 0 {
				s = afterLong(body)
			} else if i := strings.IndexByte(s, '\n'); i >= 0 {
				s = s[i:]
			} else {
				s = ""
			}
		case c == '[' && longBracket(s) >= 0:
			s = afterLong(s)
		case c == '"' || c == '\'':
			i := 1
			for i < len(s) && s[i] != c && s[i] != '\n' {
				if s[i] == '\\' {
					i++
				}
				i++
			}
			s = s[min(i+1, len(s)):]
		case letter(c):
			i := 1
			for i < len(s) && (letter(s[i]) || digit(s[i])) {
				i++
			}
			return s[:i], s[i:]
		case digit(c):
			i := 1
			for i < len(s) && (letter(s[i]) || digit(s[i]) || s[i] == '.') {
				i++
			}
			s = s[i:]
		case c == ' ' || c == '\t' || c == '\r' || c == '\n':
			s = s[1:]
		default:
			return s[:1], s[1:]
		}
	}
	return "", ""
}

func letter(c byte) bool {
	return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c == '_' || c >= 0x80
}
func digit(c byte) bool { return c >= '0' && c <= '9' }

// longBracket returns the number of signs in the [==[ that s begins with, -1 when it does not.
func longBracket(s string) int {
	if !strings.HasPrefix(s, "[") {
		return -1
	}
	n := len(s[1:]) - len(strings.TrimLeft(s[1:], "="))
	if len(s) <= n+1 || s[n+1] != '[' {
		return -1
	}
	return n
}

// afterLong returns what is behind the long string that s begins with.
func afterLong(s string) string {
	_, rest, _ := strings.Cut(s[1:], "]"+strings.Repeat("=", longBracket(s))+"]")
	return rest
}

// streams are the files below /dev and /proc that every process has.
var streams = map[string]bool{
	"/dev/null": true, "/dev/stdout": true, "/dev/stderr": true, "/dev/fd/1": true, "/dev/fd/2": true, "/proc/self/fd/1": true, "/proc/self/fd/2": true,
}

// forbidden are folders without ordinary files, and those of the credentials that the platform hands to a process.
var forbidden = []string{"/dev", "/proc", "/sys", "/run/secrets", "/var/run/secrets"}

// file refuses names of files that Envoy must not open: some would block it for ever. Whether there is an ordinary file only
// Envoy's own machine can tell.
func file(at, name string, f *faults) {
	clean := path.Clean(name)
	switch {
	case streams[clean]:
	case strings.ContainsRune(name, 0):
		f.add(codeFile, at, "%q has a zero byte", name)
	case slices.ContainsFunc(forbidden, func(dir string) bool { return clean == dir || strings.HasPrefix(clean, dir+"/") }):
		f.add(codeFile, at, "%s is not in a folder whose files configuration may name", name)
	}
}
