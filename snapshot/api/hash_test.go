package api_test

import (
	"strings"
	"testing"

	"github.com/chancery-gateway/chancery/snapshot"
	"github.com/chancery-gateway/chancery/snapshot/api"
)

func TestHash(t *testing.T) {
	const base = `{"apiVersion":"getambassador.io/v3alpha1","kind":"Mapping","metadata":{"name":"m","namespace":"n","labels":{"a":"1","b":"2"},"annotations":{"c":"d"}},"spec":{"prefix":"/","service":"q","weight":5}}`
	want := decode(t, base).Hash
	same := map[string]string{
		"order and white space": "{\n \"spec\": {\"weight\":5, \"service\":\"q\", \"prefix\":\"\\/\"}, \"metadata\":{\"annotations\":{\"c\":\"d\"},\"labels\":{\"b\":\"2\",\"a\":\"1\"},\"namespace\":\"n\",\"name\":\"m\"},\"kind\":\"Mapping\",\"apiVersion\":\"getambassador.io/v3alpha1\"}",
		"status":                strings.Replace(base, `"spec"`, `"status":{"state":"Running"},"spec"`, 1),
		"managedFields":         strings.Replace(base, `"name":"m"`, `"name":"m","managedFields":[{"manager":"kubectl"}],"resourceVersion":"7","selfLink":"/x"`, 1),
		"last applied":          strings.Replace(base, `"c":"d"`, `"c":"d","kubectl.kubernetes.io/last-applied-configuration":"{}"`, 1),
		"preview group":         strings.Replace(base, "getambassador.io", "x.getambassador.io", 1),
	}
	for name, doc := range same {
		if o := decode(t, doc); o.Hash != want {
			t.Errorf("%s changes the hash: %s", name, o.Raw)
		}
	}
	differ := map[string]string{
		"spec":       strings.Replace(base, `"weight":5`, `"weight":6`, 1),
		"name":       strings.Replace(base, `"name":"m"`, `"name":"o"`, 1),
		"namespace":  strings.Replace(base, `"namespace":"n"`, `"namespace":"o"`, 1),
		"label":      strings.Replace(base, `"a":"1"`, `"a":"2"`, 1),
		"annotation": strings.Replace(base, `"c":"d"`, `"c":"e"`, 1),
		"generation": strings.Replace(base, `"name":"m"`, `"name":"m","generation":2`, 1),
		"uid":        strings.Replace(base, `"name":"m"`, `"name":"m","uid":"u"`, 1),
		"creation":   strings.Replace(base, `"name":"m"`, `"name":"m","creationTimestamp":"2025-01-01T00:00:00Z"`, 1),
		"kind":       strings.Replace(strings.Replace(base, "Mapping", "TCPMapping", 1), `"prefix":"/"`, `"port":1`, 1),
	}
	seen := map[snapshot.Hash]string{want: "base"}
	for name, doc := range differ {
		h := decode(t, doc).Hash
		if other, ok := seen[h]; ok {
			t.Errorf("%s and %s have one hash", name, other)
		}
		seen[h] = name
	}
}

func TestHashOfSecret(t *testing.T) {
	base := decode(t, samples["Secret"])
	same := decode(t, `{"kind":"Secret","apiVersion":"v1","type":"kubernetes.io/tls","stringData":{"tls.crt":"-----BEGIN CERTIFICATE-----\nMIIB"},"metadata":{"namespace":"shop","name":"tls"},"data":{"tls.key":"LS0tLS1CRUdJTiBQUklWQVRFIEtFWS0tLS0tCk1JSUI="}}`)
	if base.Hash != same.Hash {
		t.Error("data and stringData of one value have two hashes")
	}
	for name, doc := range map[string]string{
		"value": strings.Replace(samples["Secret"], "TiBQUklW", "TiBQUklX", 1),
		"key":   strings.Replace(samples["Secret"], "tls.key", "tls.kez", 1),
		"type":  strings.Replace(samples["Secret"], "kubernetes.io/tls", "Opaque", 1),
	} {
		if decode(t, doc).Hash == base.Hash {
			t.Errorf("another %s keeps the hash", name)
		}
	}
	if base.Raw != nil {
		t.Errorf("the secret's text is kept: %s", base.Raw)
	}
}

// FuzzDecode shows that no text makes Decode panic, that findings of severity error and an object exclude each other, and
// that the object's Raw decodes to the same object.
func FuzzDecode(f *testing.F) {
	for _, doc := range samples {
		f.Add([]byte(doc))
	}
	for _, doc := range []string{
		`{"apiVersion":"getambassador.io/v2","kind":"Host","metadata":{"name":"h"},"spec":{"ambassadorId":"x","selector":{"matchLabels":{"a":"b"}},"tls":{"minTlsVersion":"v1.2"}}}`,
		`{"apiVersion":"getambassador.io/v2","kind":"Mapping","metadata":{"name":"h"},"spec":{"prefix":"/","service":"x","labels":{"a":[{"b":["c",{"d":{"header":"e"}}]}]},"cors":{"origins":"a,b"}}}`,
		`{"apiVersion":"getambassador.io/v3alpha1","kind":"Module","metadata":{"name":"ambassador"},"spec":{"config":{"a":[1,{"b":null}]},"ambassadorId":["x"]}}`,
		`{"apiVersion":"v1","kind":"Endpoints","metadata":{"name":"e"},"subsets":[{"addresses":[{"ip":"1.2.3.4"}],"ports":[{"port":1}]},{"addresses":[{"ip":"1.2.3.5"}],"ports":[{"port":2}]}]}`,
		`{"apiVersion":"networking.k8s.io/v1","kind":"IngressClass","metadata":{"name":"i","namespace":"x"},"spec":{"controller":"c"}}`,
		`{"apiVersion":"example.com/v1","kind":"Thing","metadata":{"name":"t","creationTimestamp":"2020-01-01T00:00:00+01:00"},"data":{"a":1.50}}`,
	} {
		f.Add([]byte(doc))
	}
	parent := &snapshot.Object{Ref: snapshot.Ref{Kind: "Service", Namespace: "ns", Name: "s"}, Labels: map[string]string{"a": "b"}}
	f.Fuzz(func(t *testing.T, doc []byte) {
		for _, p := range []*snapshot.Object{nil, parent} {
			o, found := api.Decode(doc, snapshot.Source{}, p)
			failed := false
			for _, d := range found {
				failed = failed || d.Severity == snapshot.Error
			}
			if failed == (o != nil) {
				t.Fatalf("object %v, findings %v", o, found)
			}
			if o == nil || o.Raw == nil {
				continue
			}
			again, found := api.Decode(o.Raw, snapshot.Source{}, nil)
			if again == nil {
				t.Fatalf("%s: %v", o.Raw, found)
			}
			if again.Hash != o.Hash || string(again.Raw) != string(o.Raw) {
				t.Fatalf("Raw decodes to another object:\n%s\n%s", o.Raw, again.Raw)
			}
		}
	})
}
