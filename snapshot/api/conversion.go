package api

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/chancery-gateway/chancery/snapshot"
	"github.com/chancery-gateway/chancery/snapshot/api/internal/jsonobject"
	v1 "github.com/chancery-gateway/chancery/snapshot/api/v1"
	v2 "github.com/chancery-gateway/chancery/snapshot/api/v2"
)

// The annotations that keep what the version of an object cannot say: on an object of v3alpha1 what v2 and v1 said
// otherwise, on one of v2 or v1 what v3alpha1 said. They are written by Convert and mean nothing else.
const (
	KeptV2       = "chancery.dev/kept-v2"
	KeptV3alpha1 = "chancery.dev/kept-v3alpha1"
)

// kept is the value of such an annotation: the members of the spec in the other version that conversion alone would not
// bring back, and one name of each unit of conversion that the other version lacked altogether.
type kept struct {
	spec   jsonobject.Object
	absent []string
}

// Convert returns one of Emissary's resources, well-formed JSON, in another version of it: "getambassador.io/v2".
// Metadata stays as it is, but for the annotations KeptV2 and KeptV3alpha1: converting there and back gives the same
// object, and a part that somebody changed in between is the only one that changes. Errors say that the object is none of
// Emissary's or that its kind has no such version; an object of a strange shape is converted as far as it is understood.
func Convert(object jsontext.Value, apiVersion string) (jsontext.Value, error) {
	o, ok := jsonobject.Parse(object)
	if !ok {
		return nil, errors.New("the object is " + kindName(object.Kind()) + ", not a JSON object")
	}
	kind, _ := jsonobject.Text(o.Get("kind"))
	written, _ := jsonobject.Text(o.Get("apiVersion"))
	from, err := versionOf(written, kind)
	if err != nil {
		return nil, err
	}
	to, err := versionOf(apiVersion, kind)
	if err != nil {
		return nil, err
	}
	o.Set("apiVersion", jsonobject.Quote(apiVersion))
	spec, isObject := jsonobject.Parse(o.Get("spec"))
	if from == to || from != "v3alpha1" && to != "v3alpha1" || !isObject {
		return o.Encode(), nil // v1 and v2 have the same specs
	}
	up := func(spec jsontext.Value) jsontext.Value {
		return v2.Convert(kind, v1.Convert(kind, spec), func(string, string, string) {})
	}
	down := func(spec jsontext.Value) jsontext.Value { return v2.Revert(kind, spec) }
	forth, back, annotation, restored := up, down, KeptV2, KeptV3alpha1
	if from == "v3alpha1" {
		forth, back, annotation, restored = down, up, KeptV3alpha1, KeptV2
	}
	metadata, _ := jsonobject.Parse(o.Get("metadata"))
	annotations, hasAnnotations := jsonobject.Parse(metadata.Get("annotations"))
	now, _ := jsonobject.Parse(forth(o.Get("spec")))
	now = restore(kind, now, spec, readKept(annotations.Delete(restored)), back)
	o.Set("spec", now.Encode())

	annotations.Delete(annotation)
	if k := lost(kind, spec, now, back); k.spec != nil || k.absent != nil {
		k.write(&annotations, annotation)
	}
	if len(annotations) > 0 {
		metadata.Set("annotations", annotations.Encode())
		o.Set("metadata", metadata.Encode())
	} else if hasAnnotations {
		metadata.Delete("annotations")
		o.Set("metadata", metadata.Encode())
	}
	return o.Encode(), nil
}

// versionOf returns the version that an apiVersion names, if the kind has it.
func versionOf(apiVersion, kind string) (string, error) {
	group, version, _ := strings.Cut(apiVersion, "/")
	if group != snapshot.EmissaryGroup {
		return "", fmt.Errorf("%q is no version of the group %s", apiVersion, snapshot.EmissaryGroup)
	}
	f, known := forms[snapshot.GroupKind{Group: group, Kind: kind}]
	if !known {
		return "", fmt.Errorf("the group %s has no kind %q", group, kind)
	}
	if !slices.Contains(f.versions, version) {
		return "", fmt.Errorf("%s has no version %q, only %s", kind, version, strings.Join(f.versions, ", "))
	}
	return version, nil
}

// restore puts back the members of the converted spec that were kept when it was converted the other way, as far as they
// still say what the spec says.
func restore(kind string, now, spec jsonobject.Object, k kept, back func(jsontext.Value) jsontext.Value) jsonobject.Object {
	if k.spec == nil && k.absent == nil {
		return now
	}
	converted, _ := jsonobject.Parse(back(k.spec.Encode()))
	said, says := byUnit(kind, converted), byUnit(kind, spec)
	restored := map[string]bool{}
	for unit := range byUnit(kind, k.spec) {
		restored[unit] = same(said[unit], says[unit])
	}
	for _, name := range k.absent {
		unit := v2.Unit(kind, name)
		restored[unit] = same(said[unit], says[unit])
	}
	now = slices.DeleteFunc(now, func(m jsonobject.Member) bool { return restored[v2.Unit(kind, m.Name)] })
	for _, m := range k.spec {
		if restored[v2.Unit(kind, m.Name)] {
			now = append(now, m)
		}
	}
	return now
}

// lost returns what of the spec would not come back from its converted form.
func lost(kind string, spec, converted jsonobject.Object, back func(jsontext.Value) jsontext.Value) (k kept) {
	again, _ := jsonobject.Parse(back(converted.Encode()))
	was, is := byUnit(kind, spec), byUnit(kind, again)
	differs := map[string]bool{}
	for unit, members := range was {
		differs[unit] = !same(members, is[unit])
	}
	for _, m := range spec {
		if differs[v2.Unit(kind, m.Name)] {
			k.spec = append(k.spec, m)
		}
	}
	for _, m := range again {
		if unit := v2.Unit(kind, m.Name); was[unit] == nil && !differs[unit] {
			differs[unit] = true
			k.absent = append(k.absent, m.Name)
		}
	}
	return k
}

// byUnit returns the members of a spec by unit of conversion.
func byUnit(kind string, spec jsonobject.Object) map[string]jsonobject.Object {
	units := make(map[string]jsonobject.Object, len(spec))
	for i, m := range spec {
		unit := v2.Unit(kind, m.Name)
		if units[unit] == nil {
			units[unit] = spec[i : i+1 : i+1]
		} else {
			units[unit] = append(units[unit], m)
		}
	}
	return units
}

// same reports whether the members of one unit say the same in two specs.
func same(a, b jsonobject.Object) bool {
	if len(a) != len(b) {
		return false
	}
	for _, m := range a {
		if other := b.Get(m.Name); other == nil || !equal(m.Value, other) {
			return false
		}
	}
	return true
}

// equal reports whether two values are the same JSON.
func equal(a, b jsontext.Value) bool {
	if bytes.Equal(a, b) {
		return true
	}
	x, good := jsonobject.AppendCanonical(nil, a)
	y, alsoGood := jsonobject.AppendCanonical(nil, b)
	return good && alsoGood && bytes.Equal(x, y)
}

// readKept reads an annotation; one that somebody else wrote keeps nothing.
func readKept(annotation jsontext.Value) (k kept) {
	text, ok := jsonobject.Text(annotation)
	if !ok || !jsontext.Value(text).IsValid() {
		return kept{}
	}
	o, _ := jsonobject.Parse(jsontext.Value(text))
	k.spec, _ = jsonobject.Parse(o.Get("spec"))
	absent, _ := jsonobject.ParseList(o.Get("absent"))
	for _, v := range absent {
		if name, ok := jsonobject.Text(v); ok {
			k.absent = append(k.absent, name)
		}
	}
	return k
}

// largestAnnotations is what the annotations of an object may have together. Source: Kubernetes documentation,
// "Annotations", and the API server's validation of metadata.
const largestAnnotations = 256 << 10

// write adds the annotation, unless the API server would refuse the object for it: an object that cannot be read at all
// in the other version would be worse than one whose spelling is not kept.
func (k kept) write(annotations *jsonobject.Object, name string) {
	var o jsonobject.Object
	if k.spec != nil {
		o.Set("spec", k.spec.Encode())
	}
	if k.absent != nil {
		names := make([]jsontext.Value, len(k.absent))
		for i, n := range k.absent {
			names[i] = jsonobject.Quote(n)
		}
		o.Set("absent", jsonobject.EncodeList(names))
	}
	text := string(o.Encode())
	total := len(name) + len(text)
	for _, m := range *annotations {
		value, _ := jsonobject.Text(m.Value)
		total += len(m.Name) + len(value)
	}
	if total <= largestAnnotations {
		annotations.Set(name, jsonobject.Quote(text))
	}
}
