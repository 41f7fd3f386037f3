package api

import (
	"encoding/binary"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/cespare/xxhash/v2"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/chancery-gateway/chancery/snapshot"
	"github.com/chancery-gateway/chancery/snapshot/api/internal/jsonobject"
)

var buffers = sync.Pool{New: func() any { return new([]byte) }}

// seal gives the object its Raw and its Hash. The hash is taken of the canonical text, which holds all that a stage can
// read; for a Secret, of its decoded values instead, and no text is kept. Objects that came out of the same text differ
// from it by name only.
func (r *reader) seal() {
	buffer := buffers.Get().(*[]byte)
	defer buffers.Put(buffer)
	b := r.appendHead((*buffer)[:0])
	if s, ok := r.object.Spec.(*snapshot.Secret); ok {
		b = appendSecret(b, s)
		r.object.Hash = hash(b)
	} else {
		b = r.appendBody(b)
		r.object.Raw = slices.Clone(b)
		r.object.Hash = hash(b)
		for _, o := range r.others {
			o.Raw = r.object.Raw
			o.Hash = hash(append(b, o.Name...))
		}
	}
	*buffer = b[:0]
}

// appendHead writes everything up to the members of the body.
func (r *reader) appendHead(b []byte) []byte {
	o := r.object
	b = append(b, `{"apiVersion":`...)
	b = appendString(b, r.apiVersion)
	b = append(b, `,"kind":`...)
	b = appendString(b, o.Kind)
	b = append(b, `,"metadata":{`...)
	b = appendStrings(b, "annotations", o.Annotations)
	if !o.Created.IsZero() {
		b = append(b, `"creationTimestamp":"`...)
		b = o.Created.AppendFormat(b, time.RFC3339Nano)
		b = append(b, `",`...)
	}
	if o.Generation != 0 {
		b = append(b, `"generation":`...)
		b = strconv.AppendInt(b, o.Generation, 10)
		b = append(b, ',')
	}
	b = appendStrings(b, "labels", o.Labels)
	b = append(b, `"name":`...)
	b = appendString(b, o.Name)
	if o.Namespace != "" {
		b = append(b, `,"namespace":`...)
		b = appendString(b, o.Namespace)
	}
	if o.UID != "" {
		b = append(b, `,"uid":`...)
		b = appendString(b, o.UID)
	}
	return append(b, '}')
}

// appendBody writes the members of the body in order of name.
func (r *reader) appendBody(b []byte) []byte {
	slices.SortFunc(r.body, func(a, b jsonobject.Member) int { return strings.Compare(a.Name, b.Name) })
	for _, m := range r.body {
		b = append(b, ',')
		b = appendString(b, m.Name)
		b = append(b, ':')
		if r.edited {
			b, _ = jsonobject.AppendCanonical(b, m.Value) // edited text is well formed
		} else {
			b = append(b, m.Value...)
		}
	}
	return append(b, '}')
}

func appendStrings(b []byte, name string, values map[string]string) []byte {
	if len(values) == 0 {
		return b
	}
	b = append(b, '"')
	b = append(b, name...)
	b = append(b, `":{`...)
	for i, key := range sortedKeys(values) {
		if i > 0 {
			b = append(b, ',')
		}
		b = appendString(b, key)
		b = append(b, ':')
		b = appendString(b, values[key])
	}
	return append(b, `},`...)
}

func appendString(b []byte, s string) []byte {
	b, _ = jsontext.AppendQuote(b, s) // invalid UTF-8 becomes U+FFFD
	return b
}

func appendSecret(b []byte, s *snapshot.Secret) []byte {
	b = appendString(b, s.Type)
	for _, key := range slices.Sorted(maps.Keys(s.Data)) {
		b = appendString(b, key)
		b = binary.BigEndian.AppendUint64(b, uint64(len(s.Data[key])))
		b = append(b, s.Data[key]...)
	}
	return b
}

// sortedKeys returns the keys in order.
func sortedKeys(m map[string]string) []string {
	keys := make([]string, 0, len(m))
	for key := range m {
		keys = append(keys, key)
	}
	slices.Sort(keys)
	return keys
}

// hash returns xxHash of the text under two seeds.
func hash(b []byte) (h snapshot.Hash) {
	const seed = 0x6368616e63657279
	var second xxhash.Digest
	second.ResetWithSeed(seed)
	_, _ = second.Write(b) // never fails
	binary.BigEndian.PutUint64(h[:8], xxhash.Sum64(b))
	binary.BigEndian.PutUint64(h[8:], second.Sum64())
	return h
}
