package kube

import (
	"encoding/json"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/chancery-gateway/chancery/snapshot"
	"github.com/chancery-gateway/chancery/snapshot/api"
	v2 "github.com/chancery-gateway/chancery/snapshot/api/v2"
	"github.com/chancery-gateway/chancery/snapshot/api/v3alpha1"
	"github.com/chancery-gateway/chancery/snapshot/manifest"
)

// unit is one object of the API server as far as it is kept: what it became, with the objects of its annotation.
type unit struct {
	// version is the resourceVersion.
	version  string
	objects  []*snapshot.Object
	findings []snapshot.Diagnostic
	// lost is set when the object itself could not be read.
	lost bool
	// content is set for Secrets, of which at first only the name is known.
	content *content
}

// decode reads an object and drops what nobody reads. With asWritten, conversion between versions is ours: the API
// server only writes another apiVersion over the object.
func decode(u *unstructured.Unstructured, asWritten bool) *unit {
	var written string
	if asWritten {
		if written = writtenIn(u); written != "" {
			u.SetAPIVersion(written)
		}
	}
	trim(u)
	out := read(u)
	if asWritten && written == "" && out.lost && u.GetAPIVersion() == v3alpha1.APIVersion {
		// Nobody recorded the version; what is no v3alpha1 and a good v2 is a v2.
		u.SetAPIVersion(snapshot.EmissaryGroup + "/v2")
		if older := read(u); !older.lost {
			out = older
		}
	}
	return out
}

// read makes the unit of an object.
func read(u *unstructured.Unstructured) *unit {
	out := &unit{version: u.GetResourceVersion()}
	text, err := u.MarshalJSON()
	if err != nil { // the API server's own answer, decoded a moment ago
		text = nil
	}
	objects, findings := api.DecodeAll(text, snapshot.Source{}, nil)
	out.objects, out.findings, out.lost = objects, findings, len(objects) == 0
	for _, parent := range objects {
		for _, d := range manifest.Annotations(parent) {
			if d.Err != nil {
				out.findings = append(out.findings, *d.Err)
				continue
			}
			children, findings := api.DecodeAll(d.JSON, snapshot.Source{}, parent)
			out.objects = append(out.objects, children...)
			out.findings = append(out.findings, findings...)
		}
	}
	return out
}

// lastApplied is where kubectl keeps the object as it was applied.
const lastApplied = "kubectl.kubernetes.io/last-applied-configuration"

// writtenIn returns the apiVersion in which the object's spec was last written, "" where nobody recorded it: that of the
// newest manager of its fields, else that of the text that kubectl keeps. (The API server drops the managers of an object
// that somebody touches in a version in which it would not be valid.) Source: Kubernetes documentation, "Server-Side
// Apply", Field management.
//
// Objects that a conversion webhook converted while there was one are stored in the form that it gave them, whoever wrote
// them: its annotations say which, and so does the mark that it puts before each ambassador_id of an older version.
func writtenIn(u *unstructured.Unstructured) string {
	annotations := u.GetAnnotations()
	if _, converted := annotations[api.KeptV2]; converted {
		return v3alpha1.APIVersion
	}
	ids, _, _ := unstructured.NestedFieldNoCopy(u.Object, "spec", "ambassador_id")
	list, _ := ids.([]any)
	_, converted := annotations[api.KeptV3alpha1]
	if converted || slices.ContainsFunc(list, func(id any) bool { text, _ := id.(string); return strings.HasPrefix(text, v2.Marker) }) {
		return snapshot.EmissaryGroup + "/v2"
	}
	newest, when := "", ""
	entries, _, _ := unstructured.NestedFieldNoCopy(u.Object, "metadata", "managedFields")
	managers, _ := entries.([]any)
	for _, entry := range managers {
		m, _ := entry.(map[string]any)
		fields, _ := m["fieldsV1"].(map[string]any)
		version, _ := m["apiVersion"].(string)
		at, _ := m["time"].(string) // RFC 3339 in UTC, so that texts compare as times do
		if _, spec := fields["f:spec"]; spec && ours(version) && (newest == "" || at >= when) {
			newest, when = version, at
		}
	}
	if newest != "" {
		return newest
	}
	var applied struct {
		APIVersion string `json:"apiVersion"`
	}
	if json.Unmarshal([]byte(u.GetAnnotations()[lastApplied]), &applied) == nil && ours(applied.APIVersion) {
		return applied.APIVersion
	}
	return ""
}

func ours(apiVersion string) bool { return strings.HasPrefix(apiVersion, snapshot.EmissaryGroup+"/") }

// secretKeys are the entries of Secrets that some stage reads; values under other names are not kept.
var secretKeys = map[string]bool{
	"tls.crt": true, "tls.key": true, "ca.crt": true, "user.key": true, "crl.pem": true,
	"cert-chain.pem": true, "key.pem": true, "root-cert.pem": true, "cert_required": true,
}

// trim takes out what is large and never read.
func trim(u *unstructured.Unstructured) {
	u.SetManagedFields(nil)
	delete(u.Object, "status")
	switch u.GetKind() {
	case snapshot.KindSecret.Kind:
		if data, ok := u.Object["data"].(map[string]any); ok {
			for key := range data {
				if !secretKeys[key] {
					delete(data, key)
				}
			}
		}
	case snapshot.KindConfigMap.Kind:
		delete(u.Object, "binaryData")
		if data, ok := u.Object["data"].(map[string]any); ok {
			for key := range data {
				if key != "ca.crt" { // Gateway API: the only key that is read of a ConfigMap
					delete(data, key)
				}
			}
		}
	case snapshot.KindEndpointSlice.Kind:
		endpoints, _ := u.Object["endpoints"].([]any)
		for _, e := range endpoints {
			if endpoint, ok := e.(map[string]any); ok {
				for _, field := range []string{"targetRef", "nodeName", "hints", "deprecatedTopology", "hostname"} {
					delete(endpoint, field)
				}
			}
		}
	case snapshot.KindNamespace.Kind:
		delete(u.Object, "spec")
	}
}
