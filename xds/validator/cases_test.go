package validator

import (
	"encoding/base64"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/chancery-gateway/chancery/snapshot"
	"github.com/chancery-gateway/chancery/snapshot/api"
	"github.com/chancery-gateway/chancery/snapshot/manifest"
	"github.com/chancery-gateway/chancery/translators"
	"github.com/chancery-gateway/chancery/translators/emissary"
	"github.com/chancery-gateway/chancery/translators/envoy"
	"github.com/chancery-gateway/chancery/translators/ingress"
)

// TestCases: no part of what the golden cases become is refused alone that Envoy takes as a whole; and Envoy takes all of it.
func TestCases(t *testing.T) {
	cases, err := filepath.Glob("../../testdata/cases/*/input.yaml")
	if err != nil || len(cases) < 30 {
		t.Fatalf("%d cases, %v", len(cases), err)
	}
	cert, key := pairOf(t)
	cert2, key2 := pairOf(t)
	b64 := func(s string) string { return base64.StdEncoding.EncodeToString([]byte(s)) }
	fill := strings.NewReplacer("$CERT2", b64(cert2), "$KEY2", b64(key2), "$CERT", b64(cert), "$KEY", b64(key))
	usual := open(t, func(o *Options) { o.Runtime = envoy.Runtime(nil) })
	units := 0
	for _, file := range cases {
		t.Run(filepath.Base(filepath.Dir(file)), func(t *testing.T) {
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			var objects []*snapshot.Object
			for _, d := range manifest.Documents(file, []byte(fill.Replace(string(text)))) {
				if d.Err != nil {
					continue // what is wrong with an input is another test's
				}
				found, _ := api.DecodeAll(d.JSON, snapshot.Source{}, nil)
				for _, o := range found {
					objects = append(objects, o)
					for _, a := range manifest.Annotations(o) {
						inner, _ := api.DecodeAll(a.JSON, snapshot.Source{}, o)
						objects = append(objects, inner...)
					}
				}
			}
			front := emissary.New(emissary.Options{})
			c := translators.New(translators.Options{FrontEnds: []translators.FrontEnd{front, ingress.New(front)}})
			r := c.Compile(snapshot.Empty().Derive(objects, nil, nil))
			v := usual
			if runtime := envoy.Runtime(r.Program.Bootstrap); !reflect.DeepEqual(runtime, usual.options.Runtime) {
				v = open(t, func(o *Options) { o.Runtime = runtime })
			}
			units += len(r.Changed)
			for u, text := range judge(t, v, r.Changed...).Refused {
				t.Errorf("%s %q is refused: %s", u.Kind, u.Name, text)
			}
			for name, text := range whole(t, v, r.Resources) {
				t.Errorf("%s is refused: %s", name, text)
			}
		})
	}
	t.Logf("%d cases, %d units", len(cases), units)
}
