package manifest

import (
	"maps"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/chancery-gateway/chancery/snapshot"
)

// Annotation is the key of the annotation that holds further objects, on Services and Ingresses (Emissary's
// pkg/snapshot/v1/annotations.go).
const Annotation = "getambassador.io/config"

// Annotations returns the objects in the parent's annotation, in the order written and in the form that objects of their
// own have: the flat fields moved under metadata and spec, the parent's namespace and labels where they give none.
// Only Services and Ingresses carry objects; others give nil.
func Annotations(parent *snapshot.Object) []Document {
	text, has := parent.Annotations[Annotation]
	if !has || parent.Kind != "Service" && parent.Kind != "Ingress" {
		return nil
	}
	start, exact := annotationStart(parent.Source)
	docs := Documents(start.File, []byte(text))
	for i := range docs {
		d := &docs[i]
		if exact {
			d.Position.Line += start.Line - 1
		} else {
			d.Position, d.Text = start, nil
		}
		if d.Err != nil {
			d.Err.Object, d.Err.APIVersion = parent.Ref, parent.APIVersion
			d.Err.Path = "metadata.annotations." + Annotation
			if exact {
				d.Err.Position.Line += start.Line - 1
			} else {
				d.Err.Position = start
			}
			continue
		}
		d.JSON = unflatten(d.JSON, parent)
	}
	return docs
}

// annotationStart returns the line where the annotation's own text starts, and whether its lines are those of the file
// (a literal block scalar).
func annotationStart(source snapshot.Source) (at snapshot.Position, exact bool) {
	at = source.Position
	root, err := parse(source.Text)
	if err != nil || root == nil {
		return at, false
	}
	if root.Kind == yaml.SequenceNode && len(root.Content) > 0 {
		root = root.Content[0]
	}
	for _, name := range []string{"metadata", "annotations", Annotation} {
		key := child(keyNode(root), name)
		if key == nil {
			return at, false
		}
		at.Line = source.Position.Line + key.Line - 1
		root = keyNode(follow(keyNode(root), key))
	}
	if root.Style&yaml.LiteralStyle != 0 {
		at.Line++
		return at, true
	}
	return at, false
}

// metadataFields are the flat fields that belong to metadata, and their names there.
var metadataFields = map[string]string{
	`"name"`: `"name"`, `"namespace"`: `"namespace"`, `"generation"`: `"generation"`, `"metadata_labels"`: `"labels"`,
}

// unflatten turns a flat object into one with metadata and spec. An object that has metadata already keeps its form.
func unflatten(flat []byte, parent *snapshot.Object) []byte {
	meta, spec := make([]byte, 0, 256), make([]byte, 0, len(flat))
	head := []byte("{")
	namespace, labels, nested := false, false, false
	field := func(to, key, value []byte) []byte {
		if len(to) > 0 && to[len(to)-1] != '{' {
			to = append(to, ',')
		}
		return append(append(append(to, key...), ':'), value...)
	}
	metadata := func(key, value []byte) {
		namespace = namespace || string(key) == `"namespace"` && string(value) != `""`
		labels = labels || string(key) == `"labels"`
		if string(key) != `"namespace"` || string(value) != `""` {
			meta = field(meta, key, value)
		}
	}
	for key := range fields(flat) {
		nested = nested || string(key) == `"metadata"`
	}
	for key, at := range fields(flat) {
		value := flat[at.start:at.end]
		switch k := string(key); {
		case k == `"apiVersion"`:
			if v, found := strings.CutPrefix(string(value), `"ambassador/`); found {
				value = []byte(`"getambassador.io/` + v)
			}
			head = field(head, key, value)
		case k == `"kind"` || nested && k != `"metadata"`:
			head = field(head, key, value)
		case nested:
			if value[0] != '{' {
				head = field(head, key, value)
				continue
			}
			for key, at := range fields(value) {
				metadata(key, value[at.start:at.end])
			}
		case metadataFields[k] != "":
			metadata([]byte(metadataFields[k]), value)
		default:
			spec = field(spec, key, value)
		}
	}
	if !namespace && parent.Namespace != "" {
		meta = field(meta, []byte(`"namespace"`), appendString(nil, parent.Namespace))
	}
	if !labels && len(parent.Labels) > 0 {
		meta = field(meta, []byte(`"labels"`), labelsJSON(parent.Labels))
	}
	head = field(head, []byte(`"metadata"`), append(append([]byte("{"), meta...), '}'))
	if !nested {
		head = field(head, []byte(`"spec"`), append(append([]byte("{"), spec...), '}'))
	}
	return append(head, '}')
}

func labelsJSON(labels map[string]string) []byte {
	out := []byte("{")
	for i, key := range slices.Sorted(maps.Keys(labels)) {
		if i > 0 {
			out = append(out, ',')
		}
		out = append(appendString(out, key), ':')
		out = appendString(out, labels[key])
	}
	return append(out, '}')
}
