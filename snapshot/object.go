package snapshot

import (
	"encoding/hex"
	"time"
)

// Hash is a content hash: equal hashes mean equal content as far as any stage reads it. It is no security boundary.
type Hash [16]byte

// String returns the hash in lower-case hexadecimal digits.
func (h Hash) String() string { return hex.EncodeToString(h[:]) }

// Object is one source object, decoded once and never changed afterwards. Stages compare objects by pointer: an object
// whose content did not change keeps its pointer from one snapshot to the next.
type Object struct {
	Ref
	// APIVersion is the version as it was written, before conversion, for example "getambassador.io/v2".
	APIVersion string
	// UID, Generation and Created are the API server's, zero where the source has none (files).
	UID        string
	Generation int64
	Created    time.Time
	// Labels and Annotations are metadata.labels and metadata.annotations; nil when absent.
	Labels      map[string]string
	Annotations map[string]string
	// Spec is the decoded body: a pointer to a struct of snapshot/api/v3alpha1 (for example *v3alpha1.MappingSpec) for
	// Emissary's kinds, a pointer to a struct of this package (*Service, *Secret, *EndpointSlice ...) for Kubernetes'
	// own, nil for kinds that Chancery does not know. It is read-only.
	Spec any
	// Raw is the whole object as JSON in its current (converted) version: what policies and modules are given.
	// It is nil for Secrets, whose content is never copied.
	Raw []byte
	// Hash covers everything that a stage can read: Ref, labels, annotations, generation and spec. It leaves out
	// status, managedFields and the resource version.
	Hash Hash
	// Source tells where the text of the object stands, for positions in diagnostics. The zero value means "not from a file".
	Source Source
	// Parent is the object whose annotation carried this one; nil for an object of its own.
	Parent *Object
}

// Source is the place of an object's text.
type Source struct {
	// Position is the first line of the object's document.
	Position Position
	// Text is the object's own document, YAML or JSON, shared with the buffer that was read; nil when it was not kept.
	Text []byte
}

// NewerThan reports whether the object's claim is younger than o's: by creation time where both have one (an object
// without one counts as the oldest), then by namespace and name. It is Gateway API's rule for conflicts ("oldest wins").
func (o *Object) NewerThan(other *Object) bool {
	if !o.Created.Equal(other.Created) {
		return o.Created.After(other.Created)
	}
	return o.Ref.Compare(other.Ref) > 0
}
