package manifest

import (
	"bytes"
	"regexp"
	"sort"
	"strconv"
	"strings"
)

var yamlError = regexp.MustCompile(`^yaml: (?:unmarshal errors:\s*)?(?:line (\d+): )?`)

// syntax turns an error of the parser into a problem that says where and what would be right.
func (f *full) syntax(err error) *problem {
	if at := templateLine(f.text); at >= 0 {
		return template(at)
	}
	text := err.Error()
	p := &problem{code: SyntaxYAML}
	if m := yamlError.FindStringSubmatch(text); m != nil {
		text = text[len(m[0]):]
		if n, err := strconv.Atoi(m[1]); err == nil && n > 0 {
			p.line = min(n-1, bytes.Count(f.text, []byte{'\n'}))
		}
	}
	p.message = text
	switch {
	case strings.HasPrefix(text, "did not find expected key"), strings.HasPrefix(text, "did not find expected '-' indicator"):
		p.line = f.breaks(p.line, text)
	case strings.HasPrefix(text, "did not find expected"):
		p.line = min(p.line+1, bytes.Count(f.text, []byte{'\n'})) // these count lines from 0
	case strings.HasPrefix(text, "control characters"):
		p.line = f.find(unprintable)
	case strings.HasPrefix(text, "unknown anchor '"):
		name, _, _ := strings.Cut(strings.TrimPrefix(text, "unknown anchor '"), "'")
		p.line = f.find(func(l []byte) bool { return bytes.Contains(l, []byte("*"+name)) })
	}
	for _, e := range explanations {
		if strings.Contains(text, e.contains) {
			p.help = e.help
			break
		}
	}
	if f.text[0] == '\t' || strings.Contains(text, "cannot start any token") || strings.Contains(text, "found a tab character") {
		if at := f.find(tabbed); tabbed(f.line(at)) {
			p.line, p.message, p.help = at, "the line is indented with a tab", "YAML is indented with spaces"
		}
	}
	if at := f.find(conflict); conflict(f.line(at)) {
		p.line, p.message, p.help = at, "the file holds an unresolved merge conflict", "decide for one side, and remove the lines of <, = and >"
	}
	return p
}

// breaks returns the line that brings the error about. The parser names the line where the mapping or list starts, which
// may be far above; the text up to the line before the guilty one parses, so that a search by halves finds it.
func (f *full) breaks(from int, message string) int {
	var ends []int
	for at := 0; at < len(f.text); ends = append(ends, at) {
		at = lineEnd(f.text, at)
	}
	if f.hasty || len(f.text) > 1<<18 || from >= len(ends) {
		return from
	}
	return from + sort.Search(len(ends)-1-from, func(n int) bool {
		_, err := parse(f.text[:ends[from+n]])
		return err != nil && strings.Contains(err.Error(), message)
	})
}

// explanations say what would be right, by the parser's message.
var explanations = []struct{ contains, help string }{
	{"mapping values are not allowed", "a value with ': ' in it needs quotes; else the indentation is wrong"},
	{"did not find expected key", "check the indentation and the quotes of this line and the one before"},
	{"did not find expected '-' indicator", "entries of a list stand in one column"},
	{"could not find expected ':'", "a key needs ': ' and a value"},
	{"unexpected end of stream", "a quote or bracket is not closed"},
	{"did not find expected ',' or", "a bracket is not closed, or a comma is missing"},
	{"did not find expected node content", "a value is missing, or a bracket is not closed"},
	{"cannot start any token", "text that starts with this character needs quotes"},
	{"unknown anchor", "define the anchor (&name) in the same document, before it is used"},
	{"unknown escape character", `in "double quotes" a backslash is written \\; 'single quotes' take it as it is`},
	{"control characters are not allowed", "remove the character; binary data belongs in base64"},
}

// find returns the first line that fits, counted from 0, or 0.
func (f *full) find(fits func(line []byte) bool) int {
	n := 0
	for l := range bytes.Lines(f.text) {
		if fits(l) {
			return n
		}
		n++
	}
	return 0
}

// line returns the line of that number, counted from 0.
func (f *full) line(n int) []byte {
	at := 0
	for ; n > 0; n-- {
		at = lineEnd(f.text, at)
	}
	return f.text[at:lineEnd(f.text, at)]
}

func tabbed(line []byte) bool {
	content := bytes.TrimLeft(line, " ")
	return len(content) > 0 && content[0] == '\t' && len(bytes.TrimSpace(content)) > 0
}

func conflict(line []byte) bool { return bytes.HasPrefix(line, []byte("<<<<<<< ")) }

func unprintable(line []byte) bool {
	for _, c := range line {
		if c < ' ' && c != '\t' && c != '\r' && c != '\n' || c == 0x7f {
			return true
		}
	}
	return false
}

// templateLine returns the first line with an expression "{{ }}" outside of quotes and comments, counted from 0, or -1.
func templateLine(text []byte) int {
	n := 0
	for l := range bytes.Lines(text) {
		if at := bytes.Index(l, []byte("{{")); at >= 0 && bytes.Contains(l, []byte("}}")) && !bytes.ContainsAny(l[:at], `#"'`) {
			return n
		}
		n++
	}
	return -1
}

func template(line int) *problem {
	return &problem{code: Template, line: line, message: "the text holds a template expression, {{ }}, that was not rendered",
		help: "render it first, as in: helm template NAME CHART | chancery check -"}
}
