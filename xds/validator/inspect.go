package validator

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	endpointv3 "github.com/envoyproxy/go-control-plane/envoy/config/endpoint/v3"
	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	hcmv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/http_connection_manager/v3"
	tlsv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/transport_sockets/tls/v3"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"

	"github.com/chancery-gateway/chancery/translators/ir"
)

// inspection is what is known of a unit before Envoy sees it.
type inspection struct {
	// refusal is a reason not to show it to Envoy at all; "" for none.
	refusal string
	// careful: it runs code at load, names files, or holds what we cannot read, so it is judged in lockstep.
	careful bool
	// files: it names files, so the verdict is not the content's alone and is never remembered.
	files bool
	// shown is what Envoy is shown in place of the unit's value; nil for that itself. Certificates and trust anchors over SDS have
	// the names of the probe's, which are loaded: with others, Envoy would take a TLS context that it cannot make, and say so
	// only when the secrets arrive.
	shown []byte
	// renamed: such names were replaced in the message that is looked at.
	renamed bool
	// unread: nothing in it was worth a look.
	unread bool
	// nameless: the chain is shown without the server names that it matches, and gets others.
	nameless bool
	// clusters are those that a listener, a chain or a filter names. Envoy wants some of them to be there, as those of tracers.
	clusters []string
}

func message(k ir.UnitKind) proto.Message {
	switch k {
	case ir.UnitRoute:
		return &routev3.Route{}
	case ir.UnitHost:
		return &routev3.VirtualHost{}
	case ir.UnitRouteConfig:
		return &routev3.RouteConfiguration{}
	case ir.UnitCluster:
		return &clusterv3.Cluster{}
	case ir.UnitEndpoints:
		return &endpointv3.ClusterLoadAssignment{}
	case ir.UnitSecret:
		return &tlsv3.Secret{}
	case ir.UnitListener:
		return &listenerv3.Listener{}
	case ir.UnitChain:
		return &listenerv3.FilterChain{}
	case ir.UnitExtension:
		return &corev3.TypedExtensionConfig{}
	}
	return nil
}

// inspect reads a unit, where there is anything to read for: protobuf rules over every packed message too, files, code and secrets.
func inspect(u *ir.Unit) inspection {
	var x inspection
	m := message(u.Kind)
	switch {
	case m == nil:
		x.refusal = fmt.Sprintf("there is no way to judge a %s", u.Kind)
	case !naming(u.Kind) && plain(m, u.Value):
		x.unread = true
	default:
		x = read(u, m)
	}
	if u.Kind == ir.UnitCluster {
		value := u.Value
		if x.shown != nil {
			value = x.shown
		}
		if x.shown = nameless(value); x.shown == nil && x.refusal == "" {
			x.refusal = "the name is empty, no text, or a locator"
		}
	}
	return x
}

// naming reports whether units of a kind name clusters that have to be there.
func naming(k ir.UnitKind) bool {
	return k == ir.UnitListener || k == ir.UnitChain || k == ir.UnitExtension
}

// read is inspect for units that have something to look at.
func read(u *ir.Unit, m proto.Message) inspection {
	var x inspection
	if err := proto.Unmarshal(u.Value, m); err != nil {
		x.refuse("", err)
		return x
	}
	x.rules("", m)
	x.walk("", m.ProtoReflect(), "")
	if c, ok := m.(*listenerv3.FilterChain); ok {
		c.Name, x.renamed = "", true
		x.nameless = hostNames(c.GetFilterChainMatch().GetServerNames())
		if x.nameless {
			c.FilterChainMatch.ServerNames = nil
		}
	}
	if x.renamed {
		x.shown = encoded(m)
	}
	return x
}

// sentence returns the best text for a refusal: a protobuf rule names its field, where Envoy prints the message and is cut short.
func sentence(u *ir.Unit, envoy string) string {
	if m := message(u.Kind); m != nil && proto.Unmarshal(u.Value, m) == nil {
		if x := read(u, m); x.refusal != "" {
			return x.refusal
		}
	}
	return envoy
}

func (x *inspection) refuse(path string, err error) {
	if x.refusal == "" {
		x.refusal = strings.TrimPrefix(path+": ", ": ") + err.Error()
	}
}

// rules applies what protoc-gen-validate generated.
func (x *inspection) rules(path string, m proto.Message) {
	if v, ok := m.(interface{ Validate() error }); ok {
		if err := v.Validate(); err != nil {
			x.refuse(path, err)
		}
	}
}

// walk visits every message inside m, packed ones included. at is the name of the field that holds m.
func (x *inspection) walk(path string, m protoreflect.Message, at protoreflect.Name) {
	switch name := m.Descriptor().FullName(); name {
	case "google.protobuf.Any":
		x.unpack(path, m)
		return
	case "envoy.config.core.v3.DataSource":
		x.file(path+"filename", text(m, "filename"))
	case "envoy.extensions.access_loggers.file.v3.FileAccessLog":
		x.file(path+"path", text(m, "path"))
	case "envoy.extensions.transport_sockets.tls.v3.SdsSecretConfig":
		x.rename(m.Interface().(*tlsv3.SdsSecretConfig), at)
		return
	case "envoy.extensions.filters.network.http_connection_manager.v3.Rds":
		if r := m.Interface().(*hcmv3.Rds); r.GetConfigSource().GetAds() != nil && plainName([]byte(r.RouteConfigName)) {
			r.RouteConfigName, x.renamed = probeChainRoutes, true // which never come: no listener waits for them
		}
	default:
		x.careful = x.careful || runsCode(name)
	}
	m.Range(func(f protoreflect.FieldDescriptor, v protoreflect.Value) bool {
		switch {
		case f.Kind() == protoreflect.StringKind && !f.IsList() && namesCluster(m.Descriptor(), f):
			x.clusters = append(x.clusters, v.String())
		case f.IsMap():
			if f.MapValue().Message() != nil {
				v.Map().Range(func(k protoreflect.MapKey, v protoreflect.Value) bool {
					x.walk(path+f.TextName()+"["+k.String()+"].", v.Message(), f.Name())
					return true
				})
			}
		case f.Message() == nil:
		case f.IsList():
			for i := range v.List().Len() {
				x.walk(path+f.TextName()+".", v.List().Get(i).Message(), f.Name())
			}
		default:
			x.walk(path+f.TextName()+".", v.Message(), f.Name())
		}
		return true
	})
}

// namesCluster reports whether a text is the name of a cluster.
func namesCluster(m protoreflect.MessageDescriptor, f protoreflect.FieldDescriptor) bool {
	switch f.Name() {
	case "cluster", "cluster_name", "collector_cluster":
		return true
	case "name":
		return m.Name() == "ClusterWeight"
	}
	return false
}

func text(m protoreflect.Message, field protoreflect.Name) string {
	if f := m.Descriptor().Fields().ByName(field); f != nil {
		return m.Get(f).String()
	}
	return ""
}

func (x *inspection) unpack(path string, m protoreflect.Message) {
	url := text(m, "type_url")
	kind, err := protoregistry.GlobalTypes.FindMessageByURL(url)
	if err != nil {
		x.careful = true // nobody here can look inside
		return
	}
	inner := kind.New()
	if err := proto.Unmarshal(m.Get(m.Descriptor().Fields().ByName("value")).Bytes(), inner.Interface()); err != nil {
		x.refuse(path+url, err)
		return
	}
	x.rules(strings.TrimSuffix(path, "."), inner.Interface())
	before := x.renamed
	x.renamed = false
	x.walk(path, inner, "")
	if x.renamed {
		m.Set(m.Descriptor().Fields().ByName("value"), protoreflect.ValueOfBytes(encoded(inner.Interface())))
	}
	x.renamed = x.renamed || before
}

// rename lets a TLS context use the probe's secrets. at is the field that names the secret.
func (x *inspection) rename(m *tlsv3.SdsSecretConfig, at protoreflect.Name) {
	switch at {
	case "tls_certificate_sds_secret_configs":
		m.Name = probeCertificate
	case "validation_context_sds_secret_config":
		m.Name = probeAnchors
	default:
		return // session tickets, generic secrets
	}
	m.SdsConfig, x.renamed = overADS, true
}

// runsCode tells of extensions that run code while they are loaded.
func runsCode(name protoreflect.FullName) bool {
	for _, part := range []string{".lua.", ".wasm.", ".golang.", ".dynamic_modules."} {
		if strings.Contains(string(name), part) {
			return true
		}
	}
	return false
}

// file judges a file name as far as that is possible without opening it. Opening a FIFO blocks Envoy for ever.
func (x *inspection) file(path, name string) {
	if name == "" {
		return
	}
	switch filepath.Clean(name) {
	case "/dev/null", "/dev/stdout", "/dev/stderr", "/dev/fd/1", "/dev/fd/2", "/proc/self/fd/1", "/proc/self/fd/2":
		return // Envoy's own, always there
	}
	x.files, x.careful = true, true
	info, err := os.Stat(name)
	if err != nil {
		return // Envoy says so itself
	}
	if mode := info.Mode(); !mode.IsRegular() {
		x.refuse(path, fmt.Errorf("%s is no regular file but %s", name, describe(mode)))
	}
}

func describe(mode fs.FileMode) string {
	switch {
	case mode.IsDir():
		return "a directory"
	case mode&fs.ModeNamedPipe != 0:
		return "a FIFO"
	case mode&fs.ModeSocket != 0:
		return "a socket"
	default:
		return "a device"
	}
}
