package envoy

import (
	"bytes"
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	"google.golang.org/protobuf/proto"

	"github.com/chancery-gateway/chancery/translators/envoy/wirejson"
	"github.com/chancery-gateway/chancery/translators/ir"
)

var update = flag.Bool("update", false, "rewrite the golden files")

// TestGolden compares what each concept becomes with the text in testdata/golden.
func TestGolden(t *testing.T) {
	prog := full()
	prog.Secrets = []*ir.Secret{
		{Name: "default/ca/ca", CA: []byte("PEM of a CA\n"), CRL: []byte("PEM of a CRL\n")},
		{Name: "default/cert", Certificate: []byte("PEM of a certificate\n"), Key: []byte("PEM of a key\n")},
		{Name: "default/files", CertificateFile: "/tls/tls.crt", KeyFile: "/tls/tls.key"},
		{Name: "default/files/ca", CAFile: "/tls/ca.crt"},
	}
	out := clean(t, emit(t, prog))
	kinds := map[string]string{ir.TypeListener: "listener", ir.TypeCluster: "cluster", ir.TypeEndpoint: "endpoints", ir.TypeSecret: "secret"}
	for url, list := range out.Resources {
		for _, r := range list {
			if kinds[url] != "" {
				golden(t, kinds[url]+"-"+r.Name, url, r.Value)
			}
		}
	}
	rc := &routev3.RouteConfiguration{}
	if err := proto.Unmarshal(find(out.Resources[ir.TypeRouteConfig], "clear").Value, rc); err != nil {
		t.Fatal(err)
	}
	for _, r := range rc.VirtualHosts[0].Routes {
		golden(t, "route-"+r.Name, typePrefix+"envoy.config.route.v3.Route", wire(t, r))
	}
	rc.VirtualHosts[0].Routes = nil
	golden(t, "routes", ir.TypeRouteConfig, wire(t, rc))
	b, err := Bootstrap(prog.Bootstrap, BootstrapOptions{})
	if err != nil {
		t.Fatal(err)
	}
	golden(t, "bootstrap", typePrefix+"envoy.config.bootstrap.v3.Bootstrap", wire(t, b))
}

func wire(t *testing.T, m proto.Message) []byte {
	t.Helper()
	b, err := deterministic.Marshal(m)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func golden(t *testing.T, name, url string, value []byte) {
	t.Helper()
	c := wirejson.Encoder{Options: wirejson.Options{Multiline: true}}
	got, err := c.AppendAny(nil, url, value)
	if err != nil {
		t.Fatal(err)
	}
	compareGolden(t, name, append(got, '\n'))
}

func compareGolden(t *testing.T, name string, got []byte) {
	t.Helper()
	file := filepath.Join("testdata", "golden", strings.NewReplacer("/", "_", " ", "-").Replace(name)+".json")
	if *update {
		if err := os.WriteFile(file, got, 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, want) {
		t.Errorf("%s differs (run with -update after a look at it):\n%s", file, got)
	}
}

func TestClusterMapAndADS(t *testing.T) {
	prog := small()
	out := clean(t, emit(t, prog))
	var text bytes.Buffer
	if err := ir.WriteClusterMap(&text, prog, out.Resources); err != nil {
		t.Fatal(err)
	}
	compareGolden(t, "clustermap", text.Bytes())
	text.Reset()
	if err := WriteADS(&text, out.Resources, Version(out.Resources)); err != nil {
		t.Fatal(err)
	}
	compareGolden(t, "ads", text.Bytes())
	text.Reset()
	if err := WriteStatic(&text, prog.Bootstrap, out.Resources); err != nil {
		t.Fatal(err)
	}
	compareGolden(t, "static", text.Bytes())
	for _, empty := range []ir.ResourceSet{nil, {}, {ir.TypeCluster: nil}} {
		text.Reset()
		if err := WriteADS(&text, empty, "v"); err != nil || !json.Valid(text.Bytes()) {
			t.Errorf("%v: %s, %v", empty, text.Bytes(), err)
		}
		text.Reset()
		if err := ir.WriteClusterMap(&text, prog, empty); err != nil || !json.Valid(text.Bytes()) {
			t.Errorf("%v: %s, %v", empty, text.Bytes(), err)
		}
	}
}
