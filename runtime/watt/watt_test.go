package watt_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/chancery-gateway/chancery/runtime/watt"
	"github.com/chancery-gateway/chancery/snapshot"
	"github.com/chancery-gateway/chancery/snapshot/api/v3alpha1"
	"github.com/chancery-gateway/chancery/snapshot/files"
)

const manifests = `
apiVersion: getambassador.io/v2
kind: Mapping
metadata: {name: old, namespace: shop}
spec: {prefix: /old/, service: quote}
---
apiVersion: getambassador.io/v3alpha1
kind: Host
metadata: {name: h, namespace: shop}
spec: {hostname: a.example.com, tlsSecret: {name: tls}}
---
apiVersion: v1
kind: Service
metadata:
  name: quote
  namespace: shop
  annotations:
    getambassador.io/config: |
      {apiVersion: getambassador.io/v3alpha1, kind: Mapping, name: noted, hostname: "*", prefix: /noted/, service: quote}
spec: {ports: [{port: 80}]}
---
apiVersion: v1
kind: Secret
metadata: {name: tls, namespace: shop}
type: kubernetes.io/tls
stringData: {tls.crt: PUBLIC-PART, tls.key: VERY-SECRET}
---
apiVersion: networking.k8s.io/v1
kind: Ingress
metadata: {name: i, namespace: shop}
spec: {rules: [{host: b.example.com}]}
---
apiVersion: getambassador.io/v3alpha1
kind: Mapping
metadata: {name: wrong, namespace: shop}
spec: {prefix: 5, service: quote}
`

func load(t testing.TB) *snapshot.Snapshot {
	t.Helper()
	file := filepath.Join(t.TempDir(), "a.yaml")
	if err := os.WriteFile(file, []byte(manifests), 0o600); err != nil {
		t.Fatal(err)
	}
	s, err := files.Load([]string{file}, nil)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// What is written is read again as the same objects; of Secrets nothing but the keys is written.
func TestSnapshotsAreReadAsTheyWereWritten(t *testing.T) {
	s := load(t)
	var b bytes.Buffer
	if err := watt.Write(&b, s, watt.Meta{AmbassadorID: "default"}); err != nil {
		t.Fatal(err)
	}
	if !json.Valid(b.Bytes()) {
		t.Fatalf("no JSON:\n%s", b.String())
	}
	for _, secret := range []string{"VERY-SECRET", "PUBLIC-PART", "VkVSWS1TRUNSRVQ=", "UFVCTElDLVBBUlQ="} {
		if strings.Contains(b.String(), secret) {
			t.Errorf("it has %q", secret)
		}
	}
	var top struct {
		Kubernetes struct {
			Mapping     []map[string]any
			Secret      []struct{ Data map[string][]byte } `json:"secret"`
			Annotations map[string][]map[string]any        `json:"annotations"`
		}
		Invalid []struct{ Kind, Errors string }
	}
	if err := json.Unmarshal(b.Bytes(), &top); err != nil {
		t.Fatal(err)
	}
	if len(top.Kubernetes.Mapping) != 1 || len(top.Kubernetes.Annotations["Service/quote.shop"]) != 1 || string(top.Kubernetes.Secret[0].Data["tls.key"]) != "<REDACTED>" {
		t.Errorf("%+v", top.Kubernetes)
	}
	if len(top.Invalid) != 1 || top.Invalid[0].Kind != "Mapping" || !strings.Contains(top.Invalid[0].Errors, "spec.prefix") {
		t.Errorf("%+v", top.Invalid)
	}
	objects, findings, err := watt.Read(b.Bytes())
	if err != nil || len(findings) > 0 {
		t.Fatal(err, findings)
	}
	n := 0
	for _, o := range objects {
		was := s.Get(o.GroupKind(), o.Namespace, o.Name)
		if was == nil {
			t.Errorf("%s was not there", o.Ref)
		} else if was.Hash != o.Hash && o.Kind != "Secret" && was.APIVersion == o.APIVersion {
			t.Errorf("%s is another", o.Ref)
		}
		n++
	}
	if n != 6 {
		t.Errorf("%d objects", n)
	}
}

func TestReadRefuses(t *testing.T) {
	for text, want := range map[string]string{
		`{`:                                    "no snapshot of Emissary's",
		`{}`:                                   `it lacks "Kubernetes"`,
		`{"Kubernetes":{"Mapping":3}}`:         "Kubernetes.Mapping: no list of objects",
		`{"Kubernetes":{"annotations":[]}}`:    "Kubernetes.annotations",
		`[]`:                                   "no snapshot of Emissary's",
		`{"Kubernetes":{"Mapping":{"a":"b"}}}`: "Kubernetes.Mapping",
	} {
		if _, _, err := watt.Read([]byte(text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s gives %v, which does not say %q", text, err, want)
		}
	}
	_, findings, err := watt.Read([]byte(`{"Kubernetes":{"Mapping":[{"apiVersion":"getambassador.io/v3alpha1","kind":"Mapping","metadata":{"name":"x"},"spec":{"prefix":1}}],"service":null}}`))
	if err != nil || len(findings) == 0 || findings[0].Object.Name != "x" {
		t.Errorf("%v %v", err, findings)
	}
}

// A posted snapshot replaces the one before; one that cannot be read changes nothing.
func TestPostedSnapshots(t *testing.T) {
	var b bytes.Buffer
	if err := watt.Write(&b, load(t), watt.Meta{}); err != nil {
		t.Fatal(err)
	}
	content := b.String()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/elsewhere" {
			http.Redirect(w, r, "http://192.0.2.1/", http.StatusFound)
			return
		}
		fmt.Fprint(w, content)
	}))
	defer server.Close()
	source := watt.NewSource()
	delivered := make(chan *snapshot.Snapshot, 10)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error)
	go func() { ended <- source.Run(ctx, func(s *snapshot.Snapshot) { delivered <- s }) }()
	next := func() *snapshot.Snapshot {
		select {
		case s := <-delivered:
			return s
		case <-time.After(2 * time.Minute):
			t.Fatal("nothing is delivered")
			return nil
		}
	}
	if s := next(); len(s.Kinds()) > 0 {
		t.Error("not empty at first")
	}
	post := func(address string) (int, string) {
		w := httptest.NewRecorder()
		source.ServeHTTP(w, httptest.NewRequest(http.MethodPost, watt.Path+"?url="+url.QueryEscape(address), nil))
		return w.Code, w.Body.String()
	}
	if code, text := post(server.URL + "/snapshot"); code != 200 || !strings.HasPrefix(text, "6 objects") {
		t.Errorf("%d %s", code, text)
	}
	if s := next(); s.Get(v3alpha1.KindMapping, "shop", "noted") == nil {
		t.Error("an object of an annotation is missing")
	}
	for _, address := range []string{"", "http://192.0.2.1/snapshot", "file:///etc/passwd", "https://localhost/", "http://localhost.example.com/", server.URL + "/elsewhere"} {
		if code, text := post(address); code != 400 || text == "" {
			t.Errorf("%q: %d %s", address, code, text)
		}
	}
	content = `{"Kubernetes":{"service":[{"apiVersion":"v1","kind":"Service","metadata":{"name":"only"}}]}}`
	if code, _ := post(server.URL + "/snapshot"); code != 200 {
		t.Error(code)
	}
	if s := next(); s.Len(v3alpha1.KindMapping) != 0 || s.Len(snapshot.KindService) != 1 {
		t.Error("what is no longer there is still there")
	}
	cancel()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}
