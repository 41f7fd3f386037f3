package wirejson

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	bootstrapv3 "github.com/envoyproxy/go-control-plane/envoy/config/bootstrap/v3"
	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	hcmv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/http_connection_manager/v3"
	tlsv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/transport_sockets/tls/v3"
	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/known/anypb"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/emptypb"
	"google.golang.org/protobuf/types/known/fieldmaskpb"
	"google.golang.org/protobuf/types/known/structpb"
	"google.golang.org/protobuf/types/known/timestamppb"
	"google.golang.org/protobuf/types/known/wrapperspb"
)

// samples are roots from which a walk reaches every kind of field that Envoy's API has.
var samples = []proto.Message{
	&bootstrapv3.Bootstrap{}, &clusterv3.Cluster{}, &listenerv3.Listener{}, &routev3.RouteConfiguration{},
	&hcmv3.HttpConnectionManager{}, &tlsv3.Secret{}, &discoveryv3.DeltaDiscoveryResponse{}, &corev3.Node{},
	&structpb.Struct{}, &structpb.Value{}, &structpb.ListValue{}, &fieldmaskpb.FieldMask{}, &emptypb.Empty{}, &anypb.Any{},
	&durationpb.Duration{}, &timestamppb.Timestamp{}, &wrapperspb.Int64Value{}, &wrapperspb.DoubleValue{}, &wrapperspb.FloatValue{},
	&wrapperspb.BytesValue{}, &wrapperspb.UInt64Value{}, &wrapperspb.StringValue{}, &wrapperspb.BoolValue{}, &wrapperspb.Int32Value{},
}

func pack(t testing.TB, m proto.Message) *anypb.Any {
	t.Helper()
	a, err := anypb.New(m)
	if err != nil {
		t.Fatal(err)
	}
	return a
}

// compare checks that the transcoder agrees with protojson about the encoding, on failure too.
func compare(t *testing.T, d protoreflect.MessageType, wire []byte) {
	t.Helper()
	m := d.New().Interface()
	unmarshalErr := proto.Unmarshal(wire, m)
	for _, multiline := range []bool{false, true} {
		c := Encoder{Options: Options{Multiline: multiline}}
		got, err := c.AppendMessage(nil, d.Descriptor(), wire)
		if unmarshalErr != nil {
			if err == nil && c.e.discarded == 0 {
				t.Fatalf("%s: proto: %v, wirejson: no error", d.Descriptor().FullName(), unmarshalErr)
			}
			return
		}
		want, wantErr := protojson.Marshal(m)
		if wantErr != nil {
			if err == nil && c.e.discarded == 0 {
				t.Fatalf("%s: protojson: %v, wirejson: %s", d.Descriptor().FullName(), wantErr, got)
			}
			return
		}
		if err != nil {
			t.Fatalf("%s: %v\nprotojson: %s", d.Descriptor().FullName(), err, want)
		}
		if diff := cmp.Diff(parsed(t, want), parsed(t, got)); diff != "" {
			t.Fatalf("%s differs (- protojson, + wirejson):\n%s", d.Descriptor().FullName(), diff)
		}
		if multiline {
			var b bytes.Buffer
			if err := json.Indent(&b, got, "", "  "); err != nil || b.String() != string(got) {
				t.Fatalf("%s: indentation\ngot  %s\nwant %s", d.Descriptor().FullName(), got, b.String())
			}
		}
	}
}

func parsed(t *testing.T, text []byte) any {
	t.Helper()
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber()
	var v any
	if err := d.Decode(&v); err != nil {
		t.Fatalf("%v in %s", err, text)
	}
	return numbers(v)
}

// numbers makes numbers comparable however they are written.
func numbers(v any) any {
	switch v := v.(type) {
	case json.Number:
		f, err := v.Float64()
		if err != nil {
			return v
		}
		return f
	case []any:
		for i := range v {
			v[i] = numbers(v[i])
		}
	case map[string]any:
		for k := range v {
			v[k] = numbers(v[k])
		}
	}
	return v
}

// filler makes random messages.
type filler struct {
	*rand.Rand
	left int
}

func (r *filler) fill(m protoreflect.Message, depth int) {
	switch x := m.Interface().(type) {
	case *anypb.Any:
		inner := samples[r.IntN(len(samples))].ProtoReflect().New()
		if depth > 0 {
			r.fill(inner, depth-2)
		}
		b, err := proto.Marshal(inner.Interface())
		if err == nil {
			x.TypeUrl, x.Value = "type.googleapis.com/"+string(inner.Descriptor().FullName()), b
		}
		return
	case *durationpb.Duration:
		x.Seconds, x.Nanos = r.Int64N(1e6), []int32{0, 5e8, 1_000_000, 1_500, 7}[r.IntN(5)]
		if r.IntN(3) == 0 {
			x.Seconds, x.Nanos = -x.Seconds, -x.Nanos
		}
		return
	case *timestamppb.Timestamp:
		x.Seconds, x.Nanos = r.Int64N(4e9)-2e9, []int32{0, 5e8, 1_000_000, 1_500, 7}[r.IntN(5)]
		return
	case *fieldmaskpb.FieldMask:
		x.Paths = []string{"a_bc.d", "e"}[:r.IntN(3)]
		return
	}
	fields := m.Descriptor().Fields()
	for i := range fields.Len() {
		fd := fields.Get(i)
		if r.left--; r.left < 0 || r.IntN(3) == 0 && fields.Len() > 3 {
			continue
		}
		if fd.Message() != nil && depth <= 0 && !fd.IsMap() {
			continue
		}
		switch {
		case fd.IsMap():
			for range r.IntN(3) {
				if fd.MapValue().Message() != nil && depth <= 0 {
					continue
				}
				v := m.Mutable(fd).Map().NewValue()
				if fd.MapValue().Message() != nil {
					r.fill(v.Message(), depth-1)
				} else {
					v = r.scalar(fd.MapValue())
				}
				m.Mutable(fd).Map().Set(r.scalar(fd.MapKey()).MapKey(), v)
			}
		case fd.IsList():
			for range r.IntN(4) {
				if fd.Message() != nil {
					r.fill(m.Mutable(fd).List().AppendMutable().Message(), depth-1)
				} else {
					m.Mutable(fd).List().Append(r.scalar(fd))
				}
			}
		case fd.Message() != nil:
			r.fill(m.Mutable(fd).Message(), depth-1)
		default:
			m.Set(fd, r.scalar(fd))
		}
	}
}

func (r *filler) scalar(fd protoreflect.FieldDescriptor) protoreflect.Value {
	n := []uint64{0, 1, 2, 127, 128, 1 << 31, 1 << 32, 1 << 63, math.MaxUint64, r.Uint64()}[r.IntN(10)]
	text := []string{"", "a", "x\"y\\z", "\n\t\r\b\f\x01\x1f\x7f", "äöü €", "<&>\u2028\U0001F600", "plain text"}[r.IntN(7)]
	switch fd.Kind() {
	case protoreflect.BoolKind:
		return protoreflect.ValueOfBool(n&1 == 1)
	case protoreflect.EnumKind:
		return protoreflect.ValueOfEnum(protoreflect.EnumNumber(r.IntN(5)))
	case protoreflect.Int32Kind, protoreflect.Sint32Kind, protoreflect.Sfixed32Kind:
		return protoreflect.ValueOfInt32(int32(n))
	case protoreflect.Uint32Kind, protoreflect.Fixed32Kind:
		return protoreflect.ValueOfUint32(uint32(n))
	case protoreflect.Int64Kind, protoreflect.Sint64Kind, protoreflect.Sfixed64Kind:
		return protoreflect.ValueOfInt64(int64(n))
	case protoreflect.Uint64Kind, protoreflect.Fixed64Kind:
		return protoreflect.ValueOfUint64(n)
	case protoreflect.FloatKind:
		return protoreflect.ValueOfFloat32([]float32{0, 1.5, -3, 1e-9, 1e30, float32(math.Inf(1)), float32(math.NaN())}[r.IntN(7)])
	case protoreflect.DoubleKind:
		v := []float64{0, 1.5, -3, 1e-9, 1e300, 0.1, math.Copysign(0, -1), math.Inf(-1)}
		return protoreflect.ValueOfFloat64(v[r.IntN(len(v)-r.IntN(2))])
	case protoreflect.StringKind:
		return protoreflect.ValueOfString(text)
	default:
		return protoreflect.ValueOfBytes([]byte(text))
	}
}

// TestAgreesWithProtojson: random messages, whole, in two merged halves, and cut short.
func TestAgreesWithProtojson(t *testing.T) {
	for seed := range uint64(50) {
		for i, s := range samples {
			r := &filler{rand.New(rand.NewPCG(seed, uint64(i))), 3000}
			m, n := s.ProtoReflect().New(), s.ProtoReflect().New()
			r.fill(m, 6)
			r.fill(n, 3)
			one, err := proto.Marshal(m.Interface())
			if err != nil {
				t.Fatal(err)
			}
			two, err := proto.Marshal(n.Interface())
			if err != nil {
				t.Fatal(err)
			}
			compare(t, s.ProtoReflect().Type(), one)
			compare(t, s.ProtoReflect().Type(), append(one[:len(one):len(one)], two...))
			if len(one) > 0 {
				compare(t, s.ProtoReflect().Type(), one[:r.IntN(len(one))])
			}
		}
	}
}

func TestEdges(t *testing.T) {
	tests := []struct {
		name string
		m    proto.Message
		want string
	}{
		{"empty", &clusterv3.Cluster{}, `{}`},
		{"empty any", &anypb.Any{}, `{}`},
		{"any of a well-known type", pack(t, durationpb.New(1500*time.Millisecond)), `{"@type":"type.googleapis.com/google.protobuf.Duration","value":"1.500s"}`},
		{"any of empty", pack(t, &emptypb.Empty{}), `{"@type":"type.googleapis.com/google.protobuf.Empty"}`},
		{"any of any", pack(t, pack(t, wrapperspb.Bool(true))), `{"@type":"type.googleapis.com/google.protobuf.Any","value":{"@type":"type.googleapis.com/google.protobuf.BoolValue","value":true}}`},
		{"any", pack(t, &corev3.Locality{Zone: "z"}), `{"@type":"type.googleapis.com/envoy.config.core.v3.Locality","zone":"z"}`},
		{"zero wrapper", &clusterv3.Cluster{PerConnectionBufferLimitBytes: wrapperspb.UInt32(0)}, `{"perConnectionBufferLimitBytes":0}`},
		{"oneof with zero value", &corev3.DataSource{Specifier: &corev3.DataSource_InlineString{}}, `{"inlineString":""}`},
		{"unknown enum number", &clusterv3.Cluster{LbPolicy: 99}, `{"lbPolicy":99}`},
		{"64 bits", wrapperspb.UInt64(math.MaxUint64), `"18446744073709551615"`},
		{"null", structpb.NewNullValue(), `null`},
		{"sorted map", &structpb.Struct{Fields: map[string]*structpb.Value{"b": structpb.NewNumberValue(1), "a": structpb.NewBoolValue(false)}}, `{"a":false,"b":1}`},
		{"time before 1970", &timestamppb.Timestamp{Seconds: -1, Nanos: 1000}, `"1969-12-31T23:59:59.000001Z"`},
		{"negative duration", &durationpb.Duration{Nanos: -1_000_000}, `"-0.001s"`},
	}
	for _, c := range tests {
		t.Run(c.name, func(t *testing.T) {
			wire, err := proto.Marshal(c.m)
			if err != nil {
				t.Fatal(err)
			}
			var e Encoder
			got, err := e.AppendMessage(nil, c.m.ProtoReflect().Descriptor(), wire)
			if err != nil || string(got) != c.want {
				t.Errorf("got %s, %v; want %s", got, err, c.want)
			}
			compare(t, c.m.ProtoReflect().Type(), wire)
		})
	}
}

func TestErrors(t *testing.T) {
	text := func(n protowire.Number, s string) []byte {
		return protowire.AppendString(protowire.AppendTag(nil, n, protowire.BytesType), s)
	}
	tests := []struct {
		name string
		m    proto.Message
		wire []byte
	}{
		{"not UTF-8", &clusterv3.Cluster{}, text(1, "\xff")},
		{"unknown packed type", &anypb.Any{}, text(1, "type.googleapis.com/no.such.Type")},
		{"value without type", &anypb.Any{}, text(2, "x")},
		{"value without kind", &structpb.Value{}, nil},
		{"cut", &clusterv3.Cluster{}, []byte{0x0a, 0x05, 'a'}},
		{"duration out of range", &durationpb.Duration{}, protowire.AppendVarint([]byte{0x08}, 1<<60)},
		{"mask path", &fieldmaskpb.FieldMask{}, text(1, "fooBar")},
	}
	for _, c := range tests {
		t.Run(c.name, func(t *testing.T) {
			var e Encoder
			if got, err := e.AppendMessage(nil, c.m.ProtoReflect().Descriptor(), c.wire); err == nil {
				t.Errorf("no error, but %s", got)
			}
			compare(t, c.m.ProtoReflect().Type(), c.wire)
			if got, err := e.AppendMessage(nil, (&emptypb.Empty{}).ProtoReflect().Descriptor(), nil); err != nil || string(got) != "{}" {
				t.Errorf("after an error: %s, %v", got, err)
			}
		})
	}
}

func TestDeepNestingFails(t *testing.T) {
	wire := []byte(nil)
	for range 10_002 {
		wire = append(protowire.AppendVarint([]byte{0x32}, uint64(len(wire)+len(protowire.AppendVarint([]byte{0x0a}, uint64(len(wire)))))),
			append(protowire.AppendVarint([]byte{0x0a}, uint64(len(wire))), wire...)...)
	}
	var e Encoder
	if _, err := e.AppendMessage(nil, (&structpb.Value{}).ProtoReflect().Descriptor(), wire); err == nil {
		t.Error("no error")
	}
}

func FuzzAgreesWithProtojson(f *testing.F) {
	for i, s := range samples {
		r := &filler{rand.New(rand.NewPCG(7, uint64(i))), 200}
		m := s.ProtoReflect().New()
		r.fill(m, 4)
		b, err := proto.Marshal(m.Interface())
		if err != nil {
			f.Fatal(err)
		}
		f.Add(uint8(i), b)
	}
	f.Fuzz(func(t *testing.T, i uint8, wire []byte) {
		compare(t, samples[int(i)%len(samples)].ProtoReflect().Type(), wire)
	})
}

func BenchmarkRouteConfiguration(b *testing.B) {
	rc := &routev3.RouteConfiguration{Name: "rc"}
	host := &routev3.VirtualHost{Name: "h", Domains: []string{"*"}}
	for i := range 10_000 {
		host.Routes = append(host.Routes, &routev3.Route{
			Name:  fmt.Sprintf("Mapping/default/m-%d", i),
			Match: &routev3.RouteMatch{PathSpecifier: &routev3.RouteMatch_Prefix{Prefix: fmt.Sprintf("/p-%d/", i)}},
			Action: &routev3.Route_Route{Route: &routev3.RouteAction{ClusterSpecifier: &routev3.RouteAction_Cluster{Cluster: fmt.Sprintf("cluster_s_%d", i)},
				PrefixRewrite: "/", Timeout: durationpb.New(3 * time.Second)}},
		})
	}
	rc.VirtualHosts = []*routev3.VirtualHost{host}
	wire, err := proto.Marshal(rc)
	if err != nil {
		b.Fatal(err)
	}
	e := Encoder{Options: Options{Multiline: true}}
	var out []byte
	for b.Loop() {
		if out, err = e.AppendMessage(out[:0], rc.ProtoReflect().Descriptor(), wire); err != nil {
			b.Fatal(err)
		}
	}
	b.SetBytes(int64(len(out)))
}

// TestInline: short messages stand on one line, and the text says the same.
func TestInline(t *testing.T) {
	m := &routev3.VirtualHost{Name: "v", Domains: []string{"a"}, Routes: []*routev3.Route{
		{Name: "short", Match: &routev3.RouteMatch{PathSpecifier: &routev3.RouteMatch_Prefix{Prefix: "/"}}},
		{Name: strings.Repeat("long", 20), Match: &routev3.RouteMatch{PathSpecifier: &routev3.RouteMatch_Prefix{Prefix: "/"}}}}}
	wire, err := proto.Marshal(m)
	if err != nil {
		t.Fatal(err)
	}
	c := Encoder{Options: Options{Multiline: true, Inline: 40}}
	got, err := c.AppendMessage(nil, m.ProtoReflect().Descriptor(), wire)
	if err != nil {
		t.Fatal(err)
	}
	want := "{\n  \"name\": \"v\",\n  \"domains\": [\n    \"a\"\n  ],\n  \"routes\": [\n    {\"name\":\"short\",\"match\":{\"prefix\":\"/\"}},\n    {\n      \"name\": \"" + strings.Repeat("long", 20) + "\",\n      \"match\": {\"prefix\":\"/\"}\n    }\n  ]\n}"
	if string(got) != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

// TestWriteMessage proves that text written piece by piece is the text of the whole, that rewritten messages are written in the
// place of what is there, wherever that is, and that errors of both come out.
func TestWriteMessage(t *testing.T) {
	m := &routev3.RouteConfiguration{Name: "r"}
	for i := range 3000 {
		v := &routev3.VirtualHost{Name: fmt.Sprintf("host %d", i), Domains: []string{strings.Repeat("d", i%700)}}
		m.VirtualHosts = append(m.VirtualHosts, v)
	}
	d := m.ProtoReflect().Descriptor()
	wire, err := proto.Marshal(m)
	if err != nil {
		t.Fatal(err)
	}
	c := Encoder{Options: Options{Multiline: true, Inline: 100}}
	want, err := c.AppendMessage(nil, d, wire)
	if err != nil {
		t.Fatal(err)
	}
	var got bytes.Buffer
	if err := c.WriteMessage(&got, d, wire); err != nil || !bytes.Equal(got.Bytes(), want) {
		t.Errorf("%v: %d bytes written, %d appended", err, got.Len(), len(want))
	}
	if err := c.WriteMessage(failing{}, d, wire); err == nil {
		t.Error("the writer's error is lost")
	}
	empty := errors.New("an empty domain")
	c.Rewrites = []Rewrite{{Of: (&routev3.VirtualHost{}).ProtoReflect().Descriptor(), To: func(wire []byte) ([]byte, error) {
		v := &routev3.VirtualHost{}
		if err := proto.Unmarshal(wire, v); err != nil {
			return nil, err
		}
		if v.Domains[0] == "" && v.Name != "host 0" {
			return nil, empty
		}
		v.Name += "!"
		return proto.Marshal(v)
	}}}
	if _, err := c.AppendMessage(nil, d, wire); !errors.Is(err, empty) {
		t.Errorf("the rewrite's error is lost: %v", err)
	}
	m.VirtualHosts = m.VirtualHosts[:2]
	if wire, err = proto.Marshal(m); err != nil {
		t.Fatal(err)
	}
	text, err := c.AppendMessage(nil, d, wire)
	if err != nil || !strings.Contains(string(text), `"host 0!"`) || !strings.Contains(string(text), `"host 1!"`) {
		t.Errorf("%v: %s", err, text)
	}
}

type failing struct{}

func (failing) Write([]byte) (int, error) { return 0, io.ErrClosedPipe }
