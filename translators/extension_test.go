package translators

import (
	"maps"
	"testing"

	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	"google.golang.org/protobuf/encoding/protojson"

	"github.com/chancery-gateway/chancery/snapshot"
	"github.com/chancery-gateway/chancery/translators/envoy"
	"github.com/chancery-gateway/chancery/translators/ir"
)

// adder adds resources to what is made.
type adder struct {
	add     []*ir.Resource
	refused []string
}

// Begin, Fresh, Lower, Link, Emit, Refused and End implement Extender and Extension.
func (a *adder) Begin() Extension { return a }

func (a *adder) Fresh() bool { return true }

func (a *adder) Lower(*snapshot.Snapshot, func(snapshot.GroupKind) bool) Lowered { return Lowered{} }

func (a *adder) Link(_ *snapshot.Snapshot, p *ir.Program) (*ir.Program, []snapshot.Diagnostic) {
	return p, nil
}

func (a *adder) Emit(_ *snapshot.Snapshot, set ir.ResourceSet) (ir.ResourceSet, []snapshot.Diagnostic) {
	out := maps.Clone(set)
	out[ir.TypeCluster] = append(out[ir.TypeCluster][:len(out[ir.TypeCluster]):len(out[ir.TypeCluster])], a.add...)
	return out, nil
}

func (a *adder) Refused(r *ir.Resource, text string) []snapshot.Diagnostic {
	a.refused = append(a.refused, r.Name+": "+text)
	return nil
}

func (a *adder) End() [][]Written { return nil }

func written1(t *testing.T, name, member string) *ir.Resource {
	t.Helper()
	c := &clusterv3.Cluster{Name: name, ClusterDiscoveryType: &clusterv3.Cluster_Type{Type: clusterv3.Cluster_STATIC}}
	text, err := protojson.Marshal(c)
	if err != nil {
		t.Fatal(err)
	}
	if member != "" {
		text = []byte(`{"name":"` + name + `","lbPolicy":"CLUSTER_PROVIDED","clusterType":{"name":"envoy.clusters.aggregate","typedConfig":{"@type":"type.googleapis.com/envoy.extensions.clusters.aggregate.v3.ClusterConfig","clusters":["` + member + `"]}}}`)
	}
	r, err := envoy.Parse(ir.TypeCluster, text, nil)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// TestWrittenOnce: what an extension wrote is read and shown once, for as long as it stays; what is refused takes along what names
// it, whatever the order; and what was refused for want of another is shown when that is there.
func TestWrittenOnce(t *testing.T) {
	a := &adder{add: []*ir.Resource{written1(t, "a", "b"), written1(t, "b", ""), written1(t, "c", "d"), written1(t, "d", "nope")}}
	c := New(Options{Extender: a})
	r := c.Compile(snapshot.Empty())
	if len(r.Resources[ir.TypeCluster]) != 2 || len(a.refused) != 2 || len(r.Changed) != 2 {
		t.Fatalf("%d clusters, %d units, refused %v", len(r.Resources[ir.TypeCluster]), len(r.Changed), a.refused)
	}
	read := maps.Clone(c.extended.needs)
	a.refused = nil
	r = c.Compile(snapshot.Empty())
	if len(r.Changed) != 0 || len(a.refused) != 2 {
		t.Errorf("again %d units are shown, refused %v", len(r.Changed), a.refused)
	}
	if !maps.Equal(read, c.extended.needs) {
		t.Error("what has been read was read again")
	}
	a.add = append(a.add, written1(t, "nope", ""))
	a.refused = nil
	r = c.Compile(snapshot.Empty())
	if len(r.Resources[ir.TypeCluster]) != 5 || len(a.refused) != 0 || len(r.Changed) != 3 {
		t.Errorf("with what was missing: %d clusters, %d units, refused %v", len(r.Resources[ir.TypeCluster]), len(r.Changed), a.refused)
	}
	a.add = nil
	if c.Compile(snapshot.Empty()); len(c.extended.needs) != 0 || len(c.extended.rewritten) != 0 {
		t.Error("what is gone is remembered")
	}
}
