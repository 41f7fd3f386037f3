package manifest

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"
)

// full reads any YAML document through the full parser.
type full struct {
	text     []byte
	hasty    bool // many documents are broken: do not search long for the right line
	out      []byte
	list     []item
	kind     span // the value of the top-level "kind", in out
	emissary bool // there is a top-level mapping "Kubernetes"
	empty    bool // nothing but null
	depth    int
	expanded int // nodes that aliases added
	inAlias  int
	items    bool // the next sequence is the top-level "items"
}

// document converts the text. The result is in out and list.
func (f *full) document() *problem {
	if len(f.text) > maxFullParse {
		return &problem{code: TooBig, message: fmt.Sprintf("the document has %d bytes, at most %d are read of one that is not plain block style", len(f.text), maxFullParse),
			help: "split the document"}
	}
	root, err := parse(f.text)
	if err != nil {
		return f.syntax(err)
	}
	if root == nil || root.Kind == yaml.ScalarNode && root.ShortTag() == "!!null" {
		f.empty = true
		return nil
	}
	f.out = make([]byte, 0, len(f.text))
	if p := f.node(root); p != nil {
		if at := templateLine(f.text); p.code == KeyNotString && at >= 0 {
			return template(at)
		}
		return p
	}
	return nil
}

// parse returns the root node of a document, nil for an empty one. The parser's panics become errors.
func parse(text []byte) (root *yaml.Node, err error) {
	defer func() {
		if r := recover(); r != nil {
			root, err = nil, fmt.Errorf("yaml: the parser failed: %v", r)
		}
	}()
	d := yaml.NewDecoder(bytes.NewReader(text))
	var doc, more yaml.Node
	switch err := d.Decode(&doc); {
	case errors.Is(err, io.EOF):
		return nil, nil
	case err != nil:
		return nil, err
	}
	if err := d.Decode(&more); err == nil {
		return nil, fmt.Errorf("yaml: line %d: text behind the end of the document", more.Line)
	} else if !errors.Is(err, io.EOF) {
		return nil, err
	}
	return doc.Content[0], nil
}

func (f *full) node(n *yaml.Node) *problem {
	if n.Kind == yaml.MappingNode || n.Kind == yaml.SequenceNode {
		if f.depth++; f.depth > MaxDepth {
			return &problem{code: TooDeep, line: n.Line - 1, message: fmt.Sprintf("mappings and lists are nested deeper than %d levels", MaxDepth),
				help: "flatten the document; an alias must not refer to what holds it"}
		}
		defer func() { f.depth-- }()
	}
	if f.inAlias > 0 {
		f.expanded++
	}
	if f.expanded > maxExpanded || len(f.out) > maxJSON {
		return &problem{code: TooBig, line: n.Line - 1, message: fmt.Sprintf("aliases make the document too big: more than %d added values", maxExpanded),
			help: "write out what the aliases stand for"}
	}
	switch n.Kind {
	case yaml.MappingNode:
		return f.mapping(n)
	case yaml.SequenceNode:
		return f.sequence(n)
	case yaml.AliasNode:
		f.inAlias++
		defer func() { f.inAlias-- }()
		return f.node(n.Alias)
	default:
		return f.scalar(n)
	}
}

func (f *full) sequence(n *yaml.Node) *problem {
	items := f.items
	f.items = false
	if p := collectionTag(n, "!!seq"); p != nil {
		return p
	}
	f.out = append(f.out, '[')
	shared := n.Style&yaml.FlowStyle != 0
	for i, c := range n.Content {
		if i > 0 {
			f.out = append(f.out, ',')
		}
		start := len(f.out)
		if p := f.node(c); p != nil {
			return p
		}
		if items {
			f.list = append(f.list, item{start: start, end: len(f.out), text: c.Line - 1})
			shared = shared || c.Kind == yaml.AliasNode
		}
	}
	f.out = append(f.out, ']')
	if items {
		f.place(shared)
	}
	return nil
}

// place turns the lines of the items into offsets, which only tell the item apart in block style.
func (f *full) place(shared bool) {
	at, line := 0, 0
	for i := range f.list {
		for line < f.list[i].text && at < len(f.text) {
			at = lineEnd(f.text, at)
			line++
		}
		f.list[i].text = at
		f.list[i].shared = shared
	}
}

// pair is one entry of a mapping after merging.
type pair struct{ key, value *yaml.Node }

func (f *full) mapping(n *yaml.Node) *problem {
	if p := collectionTag(n, "!!map"); p != nil {
		return p
	}
	pairs, p := f.pairs(n, nil, map[string]int{}, 0)
	if p != nil {
		return p
	}
	f.out = append(f.out, '{')
	for i, e := range pairs {
		if i > 0 {
			f.out = append(f.out, ',')
		}
		f.out = appendString(f.out, keyNode(e.key).Value)
		f.out = append(f.out, ':')
		top, value, start := f.depth == 1, keyNode(e.value), len(f.out)
		items := top && keyNode(e.key).Value == "items"
		f.items = items && value.Kind == yaml.SequenceNode
		if f.items || items && value.ShortTag() == "!!null" {
			f.list = []item{}
		}
		if p := f.node(e.value); p != nil {
			return p
		}
		switch {
		case top && keyNode(e.key).Value == "kind":
			f.kind = span{start, len(f.out)}
		case top && keyNode(e.key).Value == "Kubernetes":
			f.emissary = value.Kind == yaml.MappingNode
		}
	}
	f.out = append(f.out, '}')
	return nil
}

// pairs adds the entries of a mapping: its own first, then those of "<<" that it does not have.
func (f *full) pairs(n *yaml.Node, to []pair, seen map[string]int, depth int) ([]pair, *problem) {
	if depth > MaxDepth {
		return nil, &problem{code: TooDeep, line: n.Line - 1, message: "merge keys (<<) are nested too deep", help: "write out what they stand for"}
	}
	own := seen
	if depth > 0 {
		own = map[string]int{}
	}
	var merges []*yaml.Node
	for i := 0; i+1 < len(n.Content); i += 2 {
		key, value := keyNode(n.Content[i]), n.Content[i+1]
		line := n.Content[i].Line
		if key.Kind != yaml.ScalarNode || key.ShortTag() != "!!str" && key.ShortTag() != "!!merge" && key.ShortTag() != "!!timestamp" {
			return nil, &problem{code: KeyNotString, line: line - 1, message: "the key " + shown(key) + " is not a string", help: "put it in quotes"}
		}
		if key.ShortTag() == "!!merge" {
			merges = append(merges, value)
			continue
		}
		if !validString(key.Value) {
			return nil, &problem{code: Encoding, line: line - 1, message: "an escape in the key makes no valid text", help: "write the character itself"}
		}
		if before, twice := own[key.Value]; twice {
			return nil, &problem{code: DuplicateKey, line: line - 1, message: fmt.Sprintf("the key %q stands in this mapping already, %s", shown(key), above(line-before)),
				help: "remove one of the two"}
		}
		own[key.Value] = line
		if depth > 0 {
			if f.expanded++; f.expanded > maxExpanded {
				return nil, &problem{code: TooBig, line: line - 1, message: "merge keys (<<) make the document too big", help: "write out what they stand for"}
			}
			if _, has := seen[key.Value]; has {
				continue
			}
			seen[key.Value] = line
		}
		to = append(to, pair{n.Content[i], value})
	}
	for _, m := range merges {
		var p *problem
		if to, p = f.merge(m, to, seen, depth); p != nil {
			return nil, p
		}
	}
	return to, nil
}

func (f *full) merge(m *yaml.Node, to []pair, seen map[string]int, depth int) ([]pair, *problem) {
	from := []*yaml.Node{keyNode(m)}
	if from[0].Kind == yaml.SequenceNode {
		from = from[0].Content
	}
	for _, c := range from {
		c = keyNode(c)
		if c.Kind != yaml.MappingNode {
			return nil, &problem{code: SyntaxYAML, line: m.Line - 1, message: "the merge key (<<) has a value that is no mapping", help: "refer to a mapping, as in <<: *base"}
		}
		var p *problem
		if to, p = f.pairs(c, to, seen, depth+1); p != nil {
			return nil, p
		}
	}
	return to, nil
}

// keyNode follows an alias.
func keyNode(n *yaml.Node) *yaml.Node {
	for n.Kind == yaml.AliasNode {
		n = n.Alias
	}
	return n
}

func collectionTag(n *yaml.Node, tag string) *problem {
	if n.Tag == "" || n.Tag == "!" || n.ShortTag() == tag {
		return nil
	}
	return &problem{code: NoJSONForm, line: n.Line - 1, message: "the tag " + n.Tag + " has no form in JSON", help: "remove the tag"}
}

func (f *full) scalar(n *yaml.Node) *problem {
	value, tag := n.Value, n.ShortTag()
	if n.Style&yaml.TaggedStyle != 0 && tag != "!!str" && tag != "!!timestamp" {
		switch tag {
		case "!!null", "!!bool", "!!int", "!!float", "!!binary":
		default:
			return &problem{code: NoJSONForm, line: n.Line - 1, message: "the tag " + n.Tag + " has no form in JSON", help: "remove the tag"}
		}
		var v any
		if err := n.Decode(&v); err != nil {
			p := f.syntax(err)
			p.line = n.Line - 1
			return p
		}
		switch v := v.(type) {
		case string:
			value, tag = v, "!!str"
		case float64:
			out, _, ok := appendFloat(f.out, v)
			if !ok {
				return infinite(n)
			}
			f.out = out
			return nil
		default:
			f.out = fmt.Appendf(f.out, "%v", nullable(v))
			return nil
		}
	}
	switch tag {
	case "!!null", "!!bool", "!!int", "!!float":
		out, _, ok := resolve(f.out, value)
		if !ok {
			return infinite(n)
		}
		f.out = out
	default:
		if !validString(value) {
			return &problem{code: Encoding, line: n.Line - 1, message: "an escape in the text makes no valid character", help: "write the character itself"}
		}
		f.out = appendString(f.out, value)
	}
	return nil
}

func nullable(v any) any {
	if v == nil {
		return "null"
	}
	return v
}

func infinite(n *yaml.Node) *problem {
	return &problem{code: NoJSONForm, line: n.Line - 1, message: n.Value + " is a number that JSON cannot say", help: "put it in quotes if it is meant as text"}
}

func shown(n *yaml.Node) string {
	switch n.Kind {
	case yaml.MappingNode:
		return "{...}"
	case yaml.SequenceNode:
		return "[...]"
	}
	if len(n.Value) > 40 {
		return strings.ToValidUTF8(n.Value[:40], "") + "..."
	}
	return n.Value
}

func above(lines int) string {
	switch lines {
	case 0:
		return "on the same line"
	case 1:
		return "one line further up"
	}
	return strconv.Itoa(lines) + " lines further up"
}
