// Package manifest splits the text of manifests into documents and turns each into JSON. It reads YAML streams, JSON
// values, List kinds and the snapshot JSON of Emissary-ingress, and the objects that stand in annotations.
package manifest

import (
	"bytes"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/chancery-gateway/chancery/snapshot"
)

// The bounds of what is read. They are far above what an API server would store (etcd's limit is 1.5 MiB an object).
const (
	// MaxFile is the greatest size of one file, in bytes.
	MaxFile = 64 << 20
	// MaxDepth is the greatest nesting depth of one document.
	MaxDepth = 200
	// maxFullParse is the greatest size of a document that needs the full YAML parser, in bytes.
	maxFullParse = 32 << 20
	// maxExpanded is how many nodes the aliases of one document may add to it.
	maxExpanded = 200_000
	// maxJSON is the greatest size of one document's JSON, in bytes: aliases can make it greater than its text.
	maxJSON = 64 << 20
	// maxFailures is how many documents of one file may be broken before the rest is given up.
	maxFailures = 1000
)

// Document is one object as it was written, or the reason why it could not be read.
type Document struct {
	// JSON is the object; nil when Err is set.
	JSON []byte
	// Position is the line of the document's first content.
	Position snapshot.Position
	// Text is the document from the line of Position on, shared with the input; nil where several documents share a line.
	Text []byte
	// Err says why there is no JSON: an error diagnostic with code and position.
	Err *snapshot.Diagnostic
}

// Documents splits a file into its objects, in order. Empty documents are left out. A document that cannot be read
// has Err set and costs only itself.
func Documents(file string, data []byte) []Document {
	if len(data) > MaxFile {
		return []Document{failed(file, 0, data[:0], problem{code: TooBig,
			message: fmt.Sprintf("the file has %d bytes, at most %d are read", len(data), MaxFile), help: "split the file"})}
	}
	data = bytes.TrimPrefix(data, []byte("\xef\xbb\xbf"))
	if bytes.HasPrefix(data, []byte("\xff\xfe")) || bytes.HasPrefix(data, []byte("\xfe\xff")) {
		return []Document{failed(file, 1, nil, problem{code: Encoding, message: "the file is UTF-16", help: "save it as UTF-8"})}
	}
	s := stream{file: file, valid: utf8.Valid(data), left: len(data), size: len(data)}
	split(data, s.document)
	return s.docs
}

// split calls each for every document of a YAML stream: its text, from the first line with content on, and that line's
// number. A line that starts with "---" or "..." always ends a document, whatever it stands in (YAML 1.2 section 9.1.2:
// such lines are forbidden content everywhere), so the cut needs no parser.
func split(data []byte, each func(line int, text []byte)) {
	line, start, startLine := 1, 0, 1
	for at := 0; at < len(data); {
		next := lineEnd(data, at)
		if marker(data[at:next]) {
			trim(data[start:at:at], startLine, each)
			start, startLine = next, line+1
			// A document may start on the line of its marker.
			if rest := bytes.TrimLeft(data[at+3:next], " \t"); data[at] == '-' && len(bytes.TrimSpace(rest)) > 0 && rest[0] != '#' {
				start, startLine = next-len(rest), line
				if marker(rest) {
					start-- // not at the start of a line, and so no marker
				}
			}
		}
		at = next
		line++
		for at < len(data) && data[at] != '-' && data[at] != '.' {
			at = lineEnd(data, at)
			line++
		}
	}
	trim(data[start:], startLine, each)
}

// lineEnd returns the offset behind the line that holds offset at.
func lineEnd(data []byte, at int) int {
	if end := bytes.IndexByte(data[at:], '\n'); end >= 0 {
		return at + end + 1
	}
	return len(data)
}

func marker(line []byte) bool {
	if len(line) < 3 || line[0] != line[1] || line[0] != line[2] || line[0] != '-' && line[0] != '.' {
		return false
	}
	return len(line) == 3 || strings.IndexByte(" \t\r\n", line[3]) >= 0
}

// trim drops the blank lines, comments and directives at the head of a document, and the document if nothing is left.
func trim(text []byte, line int, each func(int, []byte)) {
	for len(text) > 0 {
		end := lineEnd(text, 0)
		content := bytes.Trim(text[:end], " \t\r\n")
		if len(content) > 0 && content[0] != '#' && text[0] != '%' {
			each(line, text)
			return
		}
		text = text[end:]
		line++
	}
}

// stream collects the documents of one file.
type stream struct {
	file  string
	valid bool // the whole file is UTF-8
	docs  []Document

	failures int
	// size is that of the file, taken that of the text of docs.
	size, taken int

	scanner plain
	out     []byte // the JSON of documents before, and room for more
	left    int    // how much text is still to be read, about
}

// document reads one document of the stream.
func (s *stream) document(line int, text []byte) {
	if s.failures > maxFailures {
		return
	}
	if !s.valid && !utf8.Valid(text) {
		s.fail(line, text, encodingProblem(text))
		return
	}
	if c := bytes.TrimLeft(text, " \t"); c[0] == '{' || c[0] == '[' {
		if s.json(line, text) {
			return
		}
	}
	s.yaml(line, text)
}

func encodingProblem(text []byte) problem {
	for at := 0; ; {
		r, n := utf8.DecodeRune(text[at:])
		if r == utf8.RuneError && n <= 1 {
			return problem{code: Encoding, line: bytes.Count(text[:at], []byte{'\n'}),
				message: fmt.Sprintf("byte 0x%02x is not part of UTF-8 text", text[at]), help: "save the file as UTF-8; binary data belongs in base64"}
		}
		at += n
	}
}

// yaml reads a document with the fast scanner, and with the full parser where that gives up.
func (s *stream) yaml(line int, text []byte) {
	// The JSON of all documents stands in one buffer, which is a little greater than their text.
	if free := cap(s.out) - len(s.out); free < len(text)+len(text)/4+64 {
		s.out = make([]byte, 0, max(min(s.left+s.left/8, 1<<20), 2*len(text)+64))
	}
	s.left -= len(text)
	p := &s.scanner
	p.reset(text, s.out[len(s.out):])
	if p.document() {
		if free := cap(s.out) - len(s.out); len(p.out) <= free {
			s.out = s.out[:len(s.out)+len(p.out)]
		}
		s.object(line, text, p.out[:len(p.out):len(p.out)], p.head)
		return
	}
	f := full{text: text, hasty: s.failures > 20}
	if err := f.document(); err != nil {
		s.fail(line, text, *err)
	} else if !f.empty {
		s.object(line, text, f.out, heading{kind: f.kind, items: f.list, emissary: f.emissary})
	}
}

// heading is what tells how a document is to be taken.
type heading struct {
	kind     span   // the value of "kind" in the JSON, quotes included
	emissary bool   // there is an object "Kubernetes"
	items    []item // the elements of "items"; nil when that is no list
}

// object adds one object, or the items of a List or of a snapshot of Emissary's.
func (s *stream) object(line int, text, out []byte, head heading) {
	switch {
	case out[0] != '{':
		s.fail(line, text, problem{code: NotObject, message: "the document is " + describe(out) + ", not an object",
			help: "an object starts with apiVersion and kind"})
	case head.emissary && head.kind == span{}:
		s.emissary(line, text, out)
	case head.items != nil && bytes.HasSuffix(out[head.kind.start:head.kind.end], []byte(`List"`)):
		s.list(line, text, out, head.items)
	default:
		s.add(text, Document{JSON: out, Position: snapshot.Position{File: s.file, Line: line}, Text: text})
	}
}

// add adds a document made of text. Where there is no room, it makes as much as the rest of the file will need if that is like
// what has been read.
func (s *stream) add(text []byte, d Document) {
	s.taken += len(text)
	if len(s.docs) == cap(s.docs) {
		s.docs = slices.Grow(s.docs, min(3*len(s.docs), len(s.docs)*max(0, s.size-s.taken)/s.taken)+8)
	}
	s.docs = append(s.docs, d)
}

// item is one element of the top-level list "items".
type item struct {
	start, end int  // where it stands in the JSON
	text       int  // where its text starts
	shared     bool // its text shares a line with others
}

// list adds the items of a List, each with its own line.
func (s *stream) list(line int, text, out []byte, list []item) {
	at, seen := line, 0
	for i, it := range list {
		at += bytes.Count(text[seen:it.text], []byte{'\n'})
		seen = it.text
		own := Document{JSON: out[it.start:it.end:it.end], Position: snapshot.Position{File: s.file, Line: at}}
		if !it.shared {
			end := len(text)
			if i+1 < len(list) {
				end = list[i+1].text
			}
			own.Text = text[it.text:end:end]
		}
		if own.JSON[0] != '{' {
			s.fail(at, own.Text, problem{code: NotObject, message: fmt.Sprintf("items[%d] is %s, not an object", i, describe(own.JSON)),
				help: "each item of a List is a whole object"})
			continue
		}
		s.docs = append(s.docs, own)
	}
}

func (s *stream) fail(line int, text []byte, p problem) {
	if s.failures++; s.failures > maxFailures {
		p = problem{code: TooBig, line: p.line, message: fmt.Sprintf("more than %d documents of the file are broken; the rest is not read", maxFailures),
			help: "see the first of them"}
	}
	// The YAML parser takes more characters for line breaks than editors do.
	p.line = min(p.line, bytes.Count(text, []byte{'\n'}))
	s.docs = append(s.docs, failed(s.file, line, text, p))
}

// problem is why a document cannot be read; line counts from 0 at the document's first line.
type problem struct {
	code          *snapshot.Code
	line          int
	message, help string
}

func failed(file string, line int, text []byte, p problem) Document {
	at := snapshot.Position{File: file, Line: line + p.line}
	return Document{Position: snapshot.Position{File: file, Line: line}, Text: text,
		Err: &snapshot.Diagnostic{Severity: snapshot.Error, Code: p.code, Object: supposed(text), Position: at, Message: p.message, Help: p.help}}
}

var (
	kindField    = regexp.MustCompile(`\bkind["']?[ \t]*:[ \t]*["']?([A-Za-z]+)`)
	versionField = regexp.MustCompile(`\bapiVersion["']?[ \t]*:[ \t]*["']?([a-z0-9.-]+)/v[0-9]`)
)

// supposed returns the group and kind that a broken document seems to be meant for, without a name: who would open up where
// there is no object of the kind has to know that there was to be one.
func supposed(text []byte) snapshot.Ref {
	text = text[:min(len(text), 1<<16)]
	kind := kindField.FindSubmatch(text)
	if kind == nil {
		return snapshot.Ref{}
	}
	r := snapshot.Ref{Kind: string(kind[1])}
	if version := versionField.FindSubmatch(text); version != nil {
		r.Group = string(version[1])
	}
	return r
}

// describe names the type of a JSON value.
func describe(value []byte) string {
	switch value[0] {
	case '{':
		return "an object"
	case '[':
		return "a list"
	case '"':
		if len(value) > 40 {
			return "the text " + string(bytes.ToValidUTF8(value[:36], nil)) + `..."`
		}
		return "the text " + string(value)
	default:
		return string(value)
	}
}
