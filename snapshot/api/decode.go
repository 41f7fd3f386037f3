package api

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/chancery-gateway/chancery/snapshot"
	"github.com/chancery-gateway/chancery/snapshot/api/internal/jsonobject"
)

// Decode reads one object from its JSON text. Src is where the text stands, for the positions of diagnostics.
//
// With a parent, doc is one document of the parent's annotation getambassador.io/config: the fields of metadata and spec
// may stand side by side, and namespace and labels default to the parent's.
//
// The object is nil when any diagnostic is an error. Every diagnostic names the object's Ref as far as it can be read.
// The object's namespace defaults to "default" for kinds that have namespaces. Objects of kinds that Chancery does not know
// come back with a nil Spec and without complaint; see Known. An Endpoints object becomes one whose Spec is a
// *snapshot.EndpointSlice; see DecodeAll for those with several sets of ports.
//
// Raw is the object in canonical form: members in a fixed order, no white space, metadata cut to name, namespace, uid,
// generation, creationTimestamp, labels and annotations, without status and without the fields that the kind does not
// have. Hash is a hash of it, so neither order nor white space counts. Decoding Raw gives the same object.
func Decode(doc []byte, src snapshot.Source, parent *snapshot.Object) (*snapshot.Object, []snapshot.Diagnostic) {
	objects, found := DecodeAll(doc, src, parent)
	switch len(objects) {
	case 0:
		return nil, found
	case 1:
		return objects[0], found
	}
	first := objects[0]
	return first, append(found, first.About(snapshot.Warning, codeSubsets, "subsets[1]",
		"subsets have different ports; only the endpoints of the first count", "use EndpointSlices"))
}

// DecodeAll is Decode for sources that take several objects from one text. Only an Endpoints object whose subsets have
// different ports gives more than one: one per set of ports, all with the Endpoints' name as Service; the first has its
// name too, the others have "/1", "/2" ... behind it, which no object of a cluster can be called.
func DecodeAll(doc []byte, src snapshot.Source, parent *snapshot.Object) ([]*snapshot.Object, []snapshot.Diagnostic) {
	r := readers.Get().(*reader)
	defer readers.Put(r)
	*r = reader{object: &snapshot.Object{Source: src, Parent: parent}, members: r.members, last: r.last}
	buffer := buffers.Get().(*[]byte)
	defer buffers.Put(buffer)
	ordered, ok := jsonobject.AppendCanonical((*buffer)[:0], doc)
	*buffer = ordered[:0]
	if !ok || ordered[0] != '{' {
		r.openBroken(doc)
		return nil, r.findings()
	}
	if !r.open(ordered) {
		return nil, r.findings()
	}
	if r.form.decode != nil {
		r.object.Spec = r.form.decode(r)
	}
	if r.failed {
		return nil, r.findings()
	}
	r.seal()
	return append([]*snapshot.Object{r.object}, r.others...), r.findings()
}

// reader reads one object.
type reader struct {
	object  *snapshot.Object
	form    form
	version string
	// apiVersion is the one after conversion.
	apiVersion string
	// body holds the members beside apiVersion, kind, metadata and status, in canonical form unless edited.
	body     jsonobject.Object
	edited   bool
	metadata metadata
	// members is room for the members of a text.
	members jsonobject.Object
	// last are apiVersion and kind of the text before: most texts have the same, and so share the strings.
	last   [2]string
	found  []snapshot.Diagnostic
	failed bool
	// unreported counts the findings beyond mostFindings.
	unreported int
	// secret keeps values out of diagnostics.
	secret bool
	// others are further objects of the same text.
	others []*snapshot.Object
}

// readers are the work spaces: nothing that is decoded refers to its reader.
var readers = sync.Pool{New: func() any { return new(reader) }}

// mostFindings is how many findings one text gives; what comes after them is counted only.
const mostFindings = 100

func (r *reader) report(severity snapshot.Severity, code *snapshot.Code, path, message, help string) {
	if len(r.found) == mostFindings {
		r.unreported++
		return
	}
	r.found = append(r.found, r.object.About(severity, code, path, message, help))
}

func (r *reader) fail(code *snapshot.Code, path, message, help string) {
	r.failed = true
	r.report(snapshot.Error, code, path, message, help)
}

func (r *reader) warn(code *snapshot.Code, path, message, help string) {
	r.report(snapshot.Warning, code, path, message, help)
}

// findings returns what was found. Where not all of it was kept, a last finding says so, as an error if there was one.
func (r *reader) findings() []snapshot.Diagnostic {
	if r.unreported > 0 {
		severity := snapshot.Warning
		if r.failed {
			severity = snapshot.Error
		}
		r.found = append(r.found, r.object.About(severity, codeMany, "", fmt.Sprintf("%d further findings are left out", r.unreported),
			"correct those above first"))
	}
	return r.found
}

// open splits the text and reads what identifies the object. It reports whether to go on.
func (r *reader) open(doc []byte) bool {
	o, _ := jsonobject.ParseInto(r.members, doc)
	r.members = o
	var kind string
	meta := &r.metadata
	for i, f := range [...]struct {
		name string
		into *string
	}{{"apiVersion", &r.object.APIVersion}, {"kind", &kind}} {
		v := o.Delete(f.name)
		if text, ok := jsonobject.TextLike(v, r.last[i]); ok && text != "" {
			*f.into, r.last[i] = text, text
		} else if v == nil || v.Kind() == 'n' || ok {
			r.fail(codeIdentity, f.name, f.name+" in body is required", "")
		} else {
			r.fail(codeIdentity, f.name, "expected a string, found "+kindName(v.Kind()), "")
		}
	}
	group, version := splitVersion(r.object.APIVersion)
	r.object.Group, r.object.Kind, r.version, r.apiVersion = group, kind, version, r.object.APIVersion
	r.form = forms[r.object.GroupKind()]
	r.secret = r.object.GroupKind() == snapshot.KindSecret
	o.Delete("status")
	metaText := o.Delete("metadata")
	if r.object.Parent != nil {
		metaText = unfold(&o, metaText)
		r.edited = true
	}
	r.body = o
	if metaText != nil && (meta.read(metaText) || r.decode(metaText, "metadata", meta)) {
		r.identify(meta)
	}
	r.place(meta)
	if r.failed {
		return false
	}
	if v := r.form.versions; v != nil && !slices.Contains(v, version) {
		r.fail(codeVersion, "apiVersion", fmt.Sprintf("%s has no version %q", kind, version),
			"use "+strings.Join(v, " or "))
		return false
	}
	return true
}

// openBroken reports text that is not one proper JSON object, on the object as far as it can be made out.
func (r *reader) openBroken(doc []byte) {
	var names struct {
		APIVersion jsontext.Value `json:"apiVersion"`
		Kind       jsontext.Value `json:"kind"`
		Metadata   jsontext.Value `json:"metadata"`
	}
	var meta metadata
	_ = json.Unmarshal(doc, &names, lax) // what could be read is enough, here and below
	r.object.APIVersion, _ = jsonobject.Text(names.APIVersion)
	r.object.Kind, _ = jsonobject.Text(names.Kind)
	r.object.Group, _ = splitVersion(r.object.APIVersion)
	r.form = forms[r.object.GroupKind()]
	_ = json.Unmarshal(names.Metadata, &meta, lax)
	r.failed = true // the name is not to be judged
	r.place(&meta)

	value := jsontext.Value(doc)
	err := value.Format() // checks the whole text
	var syntax *jsontext.SyntacticError
	switch {
	case errors.As(err, &syntax) && errors.Is(err, jsontext.ErrDuplicateName):
		r.fail(codeSyntax, pointerPath(syntax.JSONPointer), fmt.Sprintf("the name %q is there twice", syntax.JSONPointer.LastToken()),
			"keep one of the two")
	case errors.As(err, &syntax):
		r.fail(codeSyntax, pointerPath(syntax.JSONPointer),
			fmt.Sprintf("not well-formed JSON at byte %d: %v", syntax.ByteOffset, syntax.Err), "")
	case value.Kind() != '{':
		r.fail(codeSyntax, "", "expected an object, found "+kindName(value.Kind()), "write one JSON object")
	default:
		r.fail(codeSyntax, "", "nested too deeply", "nest at most 1,000 deep")
	}
}

// metadata is what is read of metadata.
type metadata struct {
	Name              string            `json:"name"`
	Namespace         string            `json:"namespace"`
	UID               string            `json:"uid"`
	Generation        int64             `json:"generation"`
	CreationTimestamp timestamp         `json:"creationTimestamp"`
	Labels            map[string]string `json:"labels"`
	Annotations       map[string]string `json:"annotations"`
}

// timestamp is a time in UTC that can be written in RFC 3339.
type timestamp time.Time

func (t *timestamp) UnmarshalText(text []byte) error {
	at, err := time.Parse(time.RFC3339, string(text))
	at = at.UTC()
	if err == nil && (at.Year() < 1 || at.Year() > 9999) {
		err = errors.New("year out of range")
	}
	*t = timestamp(at)
	return err
}

// Example implements exemplary.
func (t timestamp) Example() string { return `a time such as "2006-01-02T15:04:05Z"` }

// lastApplied is where kubectl keeps the whole object once more.
const lastApplied = "kubectl.kubernetes.io/last-applied-configuration"

// identify takes over what metadata says beside name and namespace.
func (r *reader) identify(meta *metadata) {
	delete(meta.Annotations, lastApplied)
	o := r.object
	o.UID, o.Generation, o.Created = meta.UID, meta.Generation, time.Time(meta.CreationTimestamp)
	if len(meta.Labels) > 0 {
		o.Labels = meta.Labels
	} else if o.Parent != nil && meta.Labels == nil {
		o.Labels = o.Parent.Labels
	}
	if len(meta.Annotations) > 0 {
		o.Annotations = meta.Annotations
	}
}

// place completes the Ref, and checks the name unless something is wrong already. Diagnostics found before get the Ref.
func (r *reader) place(meta *metadata) {
	o := r.object
	o.Name, o.Namespace = meta.Name, meta.Namespace
	_, listed := forms[o.GroupKind()]
	switch {
	case r.form.cluster:
		o.Namespace = ""
	case o.Namespace == "" && o.Parent != nil:
		o.Namespace = o.Parent.Namespace
	case o.Namespace == "" && listed:
		o.Namespace = "default"
	}
	for i := range r.found {
		r.found[i].Object = o.Ref
	}
	if r.failed {
		return
	}
	r.checkName("metadata.name", o.Name, true)
	r.checkName("metadata.namespace", o.Namespace, false)
}

// checkName refuses names that would blur references: those with a space or a control character, and with a slash but in
// annotations, whose names no API server has ever checked.
func (r *reader) checkName(path, name string, required bool) {
	const longest = 253 // Kubernetes documentation, "Object Names and IDs"
	switch {
	case name == "" && required:
		r.fail(codeIdentity, path, path+" in body is required", "")
	case len(name) > longest:
		r.fail(codeIdentity, path, fmt.Sprintf("%d characters is too long", len(name)), "use at most 253 characters")
	case strings.ContainsFunc(name, func(c rune) bool { return c <= ' ' || c == '/' && r.object.Parent == nil || c == 0x7f || c == '\uFFFD' }):
		r.fail(codeIdentity, path, fmt.Sprintf("%q is not a name", name), "use lower-case letters, digits, '-' and '.'")
	}
}

// unfold turns the flat form of an annotation into metadata and spec: Emissary's rules. What stands flat wins.
func unfold(o *jsonobject.Object, metaText jsontext.Value) jsontext.Value {
	nested, isObject := jsonobject.Parse(o.Get("spec"))
	if v := o.Get("spec"); v != nil && v.Kind() != 'n' && !isObject {
		return metaText
	}
	meta, _ := jsonobject.Parse(metaText)
	var spec jsonobject.Object
	flat := make(map[string]bool, len(*o))
	for _, m := range *o {
		switch m.Name {
		case "spec":
		case "name", "namespace", "generation":
			meta.Set(m.Name, m.Value)
		case "metadata_labels":
			meta.Set("labels", m.Value)
		default:
			spec = append(spec, m)
			flat[m.Name] = true
		}
	}
	for _, m := range nested {
		if !flat[m.Name] {
			spec = append(spec, m)
		}
	}
	*o = jsonobject.Object{{Name: "spec", Value: spec.Encode()}}
	return meta.Encode()
}
