package wasm

import (
	"cmp"
	"context"
	"encoding/json"
	"slices"
	"strings"

	"github.com/chancery-gateway/chancery/wasm/abi"
	"github.com/chancery-gateway/chancery/wasm/fault"
)

// Write is one field that a module wrote: what `explain` shows.
type Write struct {
	// Module and Digest name the writer.
	Module string
	Digest Digest
	Kind   string
	// Namespace and Name are the item's.
	Namespace, Name string
	// Path is the field as a JSON pointer; "" for a whole item that was added or removed.
	Path   string
	Op     abi.Op
	Reason string
	// Origin is the item that an added one comes from.
	Origin *abi.Origin

	path     pointer
	priority int
}

// maxWrites bounds the fields that one answer writes.
const maxWrites = 100_000

type itemKey struct{ kind, namespace, name string }

func keyOf(i *abi.Item) itemKey { return itemKey{i.Kind, i.Namespace, i.Name} }

func (k itemKey) String() string {
	if k.namespace == "" {
		return escape(k.kind+" "+k.name, maxText)
	}
	return escape(k.kind+" "+k.namespace+"/"+k.name, maxText)
}

// scope says what a module may write: what its manifest and its grant both allow.
type scope struct {
	manifest, grant []mask
	namespaces      []string
}

type mask struct {
	abi.Scope
	fields []pointer
}

func masks(scopes []abi.Scope) []mask {
	out := make([]mask, len(scopes))
	for i, s := range scopes {
		out[i].Scope = s
		for _, f := range s.Fields {
			p, _ := parsePointer(f) // manifest and grant were checked
			out[i].fields = append(out[i].fields, p)
		}
	}
	return out
}

func (m *mask) allows(op abi.Op, k itemKey, field pointer) bool {
	return (m.Kind == k.kind || m.Kind == "*") &&
		(len(m.Operations) == 0 || slices.Contains(m.Operations, op)) &&
		strings.HasPrefix(k.name, m.NamePrefix) &&
		(len(m.fields) == 0 || slices.ContainsFunc(m.fields, func(f pointer) bool { return f.covers(field) }))
}

func namespaceGranted(namespaces []string, namespace string) bool {
	return namespace == "" || slices.Contains(namespaces, "*") || slices.Contains(namespaces, namespace)
}

// check returns nil when the field of the item may be written.
func (s *scope) check(op abi.Op, k itemKey, field pointer) error {
	allows := func(m mask) bool { return m.allows(op, k, field) }
	switch {
	case !namespaceGranted(s.namespaces, k.namespace):
		return fault.New(fault.Scope, "%s %s: the namespace was not granted", op, k)
	case !slices.ContainsFunc(s.manifest, allows):
		return fault.New(fault.Scope, "%s %s%s: the manifest does not name it among its writes", op, k, atField(field))
	case !slices.ContainsFunc(s.grant, allows):
		return fault.New(fault.Scope, "%s %s%s: the operator did not grant it", op, k, atField(field))
	case strings.HasPrefix(k.kind, "ir/") && slices.Contains(field, "origins"):
		return fault.New(fault.Scope, "%s %s%s: origins are the compiler's own", op, k, atField(field))
	}
	return nil
}

func atField(field pointer) string {
	if len(field) == 0 {
		return ""
	}
	return " field " + escape(field.String(), maxText)
}

// apply returns the items after the operations, sorted by kind, namespace and name, with every write. The input stays as
// it is; items that were not touched are shared. All operations are applied or none.
//
// Items for which hidden says so exist, but not for the module.
//
// A module can ask for much work with few bytes; what is not done when ctx ends is refused.
func apply(ctx context.Context, items []abi.Item, operations []abi.Operation, s *scope, hidden func(*abi.Item) bool) ([]abi.Item, []Write, error) {
	if len(operations) == 0 {
		return items, nil, nil
	}
	now := make(map[itemKey]abi.Item, len(items)+len(operations))
	for _, i := range items {
		now[keyOf(&i)] = i
	}
	documents := map[itemKey]any{} // of patched items
	var writes []Write
	for n := range operations {
		o := &operations[n]
		k := itemKey{o.Kind, o.Namespace, o.Name}
		item, there := now[k]
		fail := func(format string, args ...any) error {
			e := fault.New(fault.Operation, format, args...)
			e.Message = "operation " + string(o.Op) + " on " + k.String() + ": " + e.Message
			return e
		}
		switch {
		case o.Op == abi.Add && there:
			return nil, nil, fail("it exists already")
		case o.Op != abi.Add && !there:
			return nil, nil, fail("it does not exist")
		case there && hidden(&item):
			return nil, nil, fault.New(fault.Scope, "%s %s: the module may not see it", o.Op, k)
		case there && item.ReadOnly:
			return nil, nil, fault.New(fault.Scope, "%s %s: it was given to be read only", o.Op, k)
		}
		var fields []pointer
		switch o.Op {
		case abi.Remove:
			fields = []pointer{nil}
			delete(now, k)
			delete(documents, k)
		case abi.Add, abi.Replace:
			doc, err := decodeDocument(o.Value)
			if err != nil {
				return nil, nil, fail("value: %s", escape(err.Error(), maxText))
			}
			if err := identity(k, doc); err != "" {
				return nil, nil, fail("value: %s", err)
			}
			if o.Op == abi.Add {
				if _, known := now[itemKey{o.Origin.Kind, o.Origin.Namespace, o.Origin.Name}]; !known {
					return nil, nil, fail("origin: the unit has no %s", itemKey{o.Origin.Kind, o.Origin.Namespace, o.Origin.Name})
				}
				fields = leaves(doc, nil)
			} else {
				before, err := decodeDocument(item.Value)
				if err != nil {
					return nil, nil, fail("the old value: %s", escape(err.Error(), maxText))
				}
				if d, ok := documents[k]; ok {
					before = d
				}
				fields = differences(before, doc, nil)
			}
			documents[k] = doc
			now[k] = abi.Item{Kind: o.Kind, Namespace: o.Namespace, Name: o.Name}
		case abi.Patch:
			doc, decoded := documents[k]
			if !decoded {
				var err error
				if doc, err = decodeDocument(item.Value); err != nil {
					return nil, nil, fail("the old value: %s", escape(err.Error(), maxText))
				}
			}
			for i, step := range o.Patch {
				if ctx.Err() != nil {
					return nil, nil, tooMuch()
				}
				at, err := parsePointer(step.Path)
				var value any
				if err == nil && step.Value != nil {
					value, err = decodeDocument(step.Value)
				}
				var written pointer
				if err == nil {
					doc, written, err = change(doc, string(step.Op), at, value)
				}
				if err != nil {
					return nil, nil, fail("patch[%d] %s: %s", i, escape(step.Path, maxText), err)
				}
				fields = append(fields, written)
			}
			if err := identity(k, doc); err != "" {
				return nil, nil, fail("patch: %s", err)
			}
			documents[k] = doc
		}
		for _, f := range fields {
			if ctx.Err() != nil {
				return nil, nil, tooMuch()
			}
			if err := s.check(o.Op, k, f); err != nil {
				return nil, nil, err
			}
		}
		if o.Op == abi.Add {
			fields = []pointer{nil} // the item as a whole
		}
		if len(writes)+len(fields) > maxWrites {
			return nil, nil, fail("more than %d fields are written", maxWrites)
		}
		for _, f := range fields {
			w := Write{Kind: o.Kind, Namespace: o.Namespace, Name: o.Name, Path: f.String(), Op: o.Op, Reason: o.Reason, Origin: o.Origin, path: f}
			writes = append(writes, w)
		}
	}
	out := make([]abi.Item, 0, len(now))
	for k, i := range now {
		if doc, changed := documents[k]; changed {
			text, err := encodeDocument(doc)
			if err != nil {
				return nil, nil, fault.New(fault.Operation, "%s: %s", k, escape(err.Error(), maxText))
			}
			i.Value = json.RawMessage(text)
		}
		out = append(out, i)
	}
	sortItems(out)
	return out, writes, nil
}

func tooMuch() error {
	return fault.New(fault.Deadline, "the operations took too long to apply")
}

func sortItems(items []abi.Item) {
	slices.SortFunc(items, func(a, b abi.Item) int {
		return cmp.Or(strings.Compare(a.Kind, b.Kind), strings.Compare(a.Namespace, b.Namespace), strings.Compare(a.Name, b.Name))
	})
}

// identity returns what is wrong with the name that a document gives itself: an operation must not be judged by one name
// and take effect under another.
func identity(k itemKey, doc any) string {
	m, ok := doc.(map[string]any)
	if !ok {
		return "it is no JSON object"
	}
	differs := func(field, want string, got any, present bool) string {
		if s, isText := got.(string); present && (!isText || s != want) {
			return field + " is not " + escape(want, maxText) + ", the name of the item"
		}
		return ""
	}
	if strings.HasPrefix(k.kind, "ir/") || strings.HasPrefix(k.kind, "xds/") {
		field := "name"
		if k.kind == "xds/envoy.config.endpoint.v3.ClusterLoadAssignment" {
			field = "clusterName"
		}
		name, present := m[field]
		return differs(field, k.name, name, present)
	}
	kind, group, _ := strings.Cut(k.kind, ".")
	if problem := differs("kind", kind, m["kind"], true); problem != "" {
		return problem
	}
	if version, _ := m["apiVersion"].(string); groupOf(version) != group {
		return "apiVersion is not of group " + escape(group, maxText)
	}
	meta, _ := m["metadata"].(map[string]any)
	if problem := differs("metadata.name", k.name, meta["name"], true); problem != "" {
		return problem
	}
	namespace, present := meta["namespace"]
	return differs("metadata.namespace", k.namespace, namespace, present || k.namespace != "")
}

func groupOf(apiVersion string) string {
	group, _, found := strings.Cut(apiVersion, "/")
	if !found {
		return ""
	}
	return group
}
