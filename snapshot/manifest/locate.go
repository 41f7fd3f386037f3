package manifest

import (
	"bytes"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/chancery-gateway/chancery/snapshot"
)

// Locate returns the line of a field within a document's text, counted from 0 at the text's first line. The path is as
// in diagnostics: "spec.cors.origins[1]", "spec.headers.x-foo"; keys may hold dots. Where the field does not exist it is
// the line of the nearest parent that does; text that does not parse gives 0.
func Locate(text []byte, path string) int {
	if bytes.IndexByte(bytes.TrimRight(text, "\n"), '\n') < 0 {
		return 0
	}
	if line, found := locatePlain(text, path); found {
		return line
	}
	root, err := parse(text)
	if err != nil || root == nil {
		return 0
	}
	if root.Kind == yaml.SequenceNode && len(root.Content) > 0 {
		root = root.Content[0] // the item of a List, "- " before it
	}
	line := root.Line
	// Objects in annotations are flat: their fields stand where others have metadata and spec.
	for _, head := range []string{"spec.", "metadata."} {
		if rest, found := strings.CutPrefix(path, head); found && child(root, strings.TrimSuffix(head, ".")) == nil {
			path = rest
		}
	}
	for at := keyNode(root); path != ""; at = keyNode(at) {
		var key, value *yaml.Node
		key, value, path = step(at, path)
		if key == nil {
			break
		}
		line, at = key.Line, value
	}
	return max(line-1, 0)
}

// locatePlain finds a path of plain keys in block mappings by indentation alone, without parsing. It gives up on
// everything else: lists, keys with dots, flow style, tabs, fields that are not there.
func locatePlain(text []byte, path string) (line int, found bool) {
	if strings.ContainsAny(path, "[\"") || bytes.ContainsAny(text, "{|>\t&") || bytes.HasPrefix(text, []byte("-")) {
		return 0, false
	}
	keys := strings.Split(path, ".")
	level, indent := 0, 0 // how many keys were found, and where the next one's mapping is indented (-1: not yet seen)
	n := -1
	for row := range bytes.Lines(text) {
		n++
		body := bytes.TrimLeft(row, " ")
		if len(body) == 0 || body[0] == '\n' || body[0] == '#' || body[0] == '\r' {
			continue
		}
		at := len(row) - len(body)
		if indent < 0 {
			indent = at
		}
		if at < indent {
			return 0, false // the mapping has ended
		}
		if at > indent {
			continue
		}
		if rest, is := bytes.CutPrefix(body, []byte(keys[level])); is && len(rest) > 0 && rest[0] == ':' && (len(rest) == 1 || rest[1] <= ' ') {
			if level++; level == len(keys) {
				return n, true
			}
			if len(bytes.TrimSpace(rest[1:])) > 0 {
				return 0, false // a scalar, or something on the same line
			}
			indent = -1
		}
	}
	return 0, false
}

// step follows the first part of a path. The longest key that fits wins, so that keys may hold dots.
func step(at *yaml.Node, path string) (key, value *yaml.Node, rest string) {
	if index, rest, found := strings.Cut(strings.TrimPrefix(path, "["), "]"); found && path[0] == '[' {
		n, err := strconv.Atoi(index)
		if err == nil && at.Kind == yaml.SequenceNode && n >= 0 && n < len(at.Content) {
			return at.Content[n], at.Content[n], strings.TrimPrefix(rest, ".")
		}
		at = keyNode(at) // ["key"]: a key in brackets
		if name, err := strconv.Unquote(index); err == nil {
			if k := child(at, name); k != nil {
				return k, follow(at, k), strings.TrimPrefix(rest, ".")
			}
		}
		return nil, nil, ""
	}
	for end := len(path); end > 0; end = strings.LastIndexAny(path[:end], ".[") {
		if k := child(at, path[:end]); k != nil {
			return k, follow(at, k), strings.TrimPrefix(path[end:], ".")
		}
	}
	return nil, nil, ""
}

func child(at *yaml.Node, name string) *yaml.Node {
	if at.Kind != yaml.MappingNode {
		return nil
	}
	for i := 0; i+1 < len(at.Content); i += 2 {
		if at.Content[i].Value == name {
			return at.Content[i]
		}
	}
	return nil
}

func follow(at, key *yaml.Node) *yaml.Node {
	for i := 0; i+1 < len(at.Content); i += 2 {
		if at.Content[i] == key {
			return at.Content[i+1]
		}
	}
	return nil
}

// Resolve sets the diagnostic's line to its field's own, when it names a field and the text of its object was kept.
func Resolve(source snapshot.Source, d *snapshot.Diagnostic) {
	if source.Position == (snapshot.Position{}) {
		return
	}
	d.Position = source.Position
	if d.Path != "" && source.Text != nil && source.Position.Line > 0 {
		d.Position.Line += Locate(source.Text, d.Path)
	}
}
