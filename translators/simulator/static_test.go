package simulator

import (
	"bytes"
	"testing"

	bootstrapv3 "github.com/envoyproxy/go-control-plane/envoy/config/bootstrap/v3"
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"

	"github.com/chancery-gateway/chancery/translators/envoy"
	"github.com/chancery-gateway/chancery/translators/ir"
)

// staticConfig emits the program as one configuration, with an admin interface on a port that the OS picks.
func staticConfig(t *testing.T, p *ir.Program) []byte {
	t.Helper()
	out := envoy.NewEmitter(envoy.Options{}).Emit(p)
	for _, d := range out.Diagnostics {
		t.Fatalf("the back end leaves something out: %s", d)
	}
	var static bytes.Buffer
	if err := envoy.WriteStatic(&static, &ir.Bootstrap{}, out.Resources); err != nil {
		t.Fatal(err)
	}
	b := &bootstrapv3.Bootstrap{}
	if err := protojson.Unmarshal(static.Bytes(), b); err != nil {
		t.Fatal(err)
	}
	b.Admin = &bootstrapv3.Admin{Address: &corev3.Address{Address: &corev3.Address_SocketAddress{
		SocketAddress: &corev3.SocketAddress{Address: "127.0.0.1", PortSpecifier: &corev3.SocketAddress_PortValue{}}}}}
	wire, err := proto.Marshal(b)
	if err != nil {
		t.Fatal(err)
	}
	return wire
}
