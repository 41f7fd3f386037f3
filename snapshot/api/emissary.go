package api

import (
	"bytes"
	"fmt"
	"reflect"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/chancery-gateway/chancery/snapshot/api/internal/jsonobject"
	v1 "github.com/chancery-gateway/chancery/snapshot/api/v1"
	v2 "github.com/chancery-gateway/chancery/snapshot/api/v2"
	"github.com/chancery-gateway/chancery/snapshot/api/v3alpha1"
)

// decodeEmissary converts the spec of an Emissary resource to v3alpha1, decodes and checks it.
func decodeEmissary(r *reader) any {
	text := r.body.Delete("spec")
	spec := v3alpha1.New(r.object.GroupKind())
	if len(r.body) > 0 {
		r.misplaced(fieldsOf(reflect.TypeOf(spec).Elem()))
	}
	r.body = nil
	r.apiVersion = v3alpha1.APIVersion
	if text != nil && text.Kind() != 'n' {
		text, ok := r.decodeStrictly(r.convert(text), "spec", spec)
		if !ok {
			return nil
		}
		r.body = jsonobject.Object{{Name: "spec", Value: text}}
	}
	spec.Check(func(path, message, help string) { r.fail(codeSchema, path, message, help) })
	return spec
}

// misplaced warns of the names that stand beside spec.
func (r *reader) misplaced(specFields map[string]reflect.Type) {
	for _, m := range r.body {
		if _, ok := specFields[m.Name]; ok {
			r.warn(codeUnknownField, m.Name, fmt.Sprintf("unknown field %q; it has no effect", m.Name), fmt.Sprintf("did you mean %q?", "spec."+m.Name))
		} else {
			r.unknownField(m.Name, m.Name, documentFields)
		}
	}
}

// documentFields are the fields of a document.
var documentFields = map[string]reflect.Type{"apiVersion": nil, "kind": nil, "metadata": nil, "spec": nil, "status": nil}

// convert returns the spec as v3alpha1 has it, aliases resolved.
func (r *reader) convert(spec jsontext.Value) jsontext.Value {
	warn := func(path, message, help string) { r.warn(codeConversion, path, message, help) }
	kind := r.object.Kind
	switch r.version {
	case "v1":
		r.edited = true
		return r.aliases(v2.Convert(kind, v1.Convert(kind, spec), warn))
	case "v2":
		r.edited = true
		return r.aliases(v2.Convert(kind, spec, warn))
	}
	if bytes.Contains(spec, []byte("ambassadorId")) || bytes.Contains(spec, []byte(v2.Marker)) {
		if o, ok := jsonobject.Parse(spec); ok {
			if v := o.Get("ambassador_id"); v == nil || v.Kind() == '[' || v.Kind() == 'n' {
				v2.AmbassadorID(&o)
				spec, r.edited = o.Encode(), true
			}
		}
	}
	return r.aliases(spec)
}

// camelCase lists the names of a Host's TLS settings that Emissary takes for others: "Host", spec.tls.
var camelCase = [][2]string{
	{"alpnProtocols", "alpn_protocols"},
	{"cipherSuites", "cipher_suites"},
	{"ecdhCurves", "ecdh_curves"},
	{"redirectCleartextFrom", "redirect_cleartext_from"},
	{"certRequired", "cert_required"},
	{"minTlsVersion", "min_tls_version"},
	{"maxTlsVersion", "max_tls_version"},
	{"certChainFile", "cert_chain_file"},
	{"privateKeyFile", "private_key_file"},
	{"cacertChainFile", "cacert_chain_file"},
	{"crlSecret", "crl_secret"},
	{"caSecret", "ca_secret"},
}

// aliases gives a Host's TLS settings their proper names.
func (r *reader) aliases(spec jsontext.Value) jsontext.Value {
	if r.object.GroupKind() != v3alpha1.KindHost || !bytes.Contains(spec, []byte(`"tls"`)) {
		return spec
	}
	host, ok := jsonobject.Parse(spec)
	if !ok {
		return spec
	}
	tls, ok := jsonobject.Parse(host.Get("tls"))
	if !ok {
		return spec
	}
	r.edited = true
	for _, name := range camelCase {
		tls.Rename(name[0], name[1])
	}
	host.Set("tls", tls.Encode())
	return host.Encode()
}
