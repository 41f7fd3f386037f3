package emissary

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/chancery-gateway/chancery/snapshot"
	api "github.com/chancery-gateway/chancery/snapshot/api/v3alpha1"
	"github.com/chancery-gateway/chancery/translators/ir"
)

// stacks are what the short names of protocols stand for.
var stacks = map[api.ProtocolType][]api.ProtocolStackElement{
	api.ProtocolHTTP:       {api.StackHTTP, api.StackTCP},
	api.ProtocolHTTPS:      {api.StackTLS, api.StackHTTP, api.StackTCP},
	api.ProtocolHTTPProxy:  {api.StackProxy, api.StackHTTP, api.StackTCP},
	api.ProtocolHTTPSProxy: {api.StackTLS, api.StackProxy, api.StackHTTP, api.StackTCP},
	api.ProtocolTCP:        {api.StackTCP},
	api.ProtocolTLS:        {api.StackTLS, api.StackTCP},
}

// listener makes the fragment of one port.
func (l *lowering) listener(spec *api.ListenerSpec) {
	stack := spec.ProtocolStack
	switch {
	case len(stack) > 0 && spec.Protocol != "":
		l.report(snapshot.Error, codeListenerStack, "spec.protocol", "ignored: protocolStack is set too", "remove one of both")
	case len(stack) == 0 && spec.Protocol == "":
		l.fail(codeListenerStack, "spec.protocol", "one of protocol and protocolStack is needed", "HTTP, HTTPS, HTTPPROXY, HTTPSPROXY, TCP or TLS")
		return
	case len(stack) == 0:
		if stack = stacks[spec.Protocol]; stack == nil {
			l.fail(codeListenerStack, "spec.protocol", "protocol \""+string(spec.Protocol)+"\" stands for no stack", "HTTP, HTTPS, HTTPPROXY, HTTPSPROXY, TCP or TLS")
			return
		}
	}
	has := func(e api.ProtocolStackElement) bool { return slices.Contains(stack, e) }
	udp := false
	switch stack[len(stack)-1] {
	case api.StackTCP:
	case api.StackUDP:
		if !has(api.StackHTTP) {
			l.fail(codeListenerStack, "spec.protocolStack", "UDP carries HTTP only", "[TLS, HTTP, UDP]")
			return
		}
		if has(api.StackProxy) {
			l.fail(codeListenerStack, "spec.protocolStack", "the PROXY protocol does not precede QUIC", "[TLS, HTTP, UDP]")
			return
		}
		udp = true
	default:
		l.fail(codeListenerStack, "spec.protocolStack", "the stack ends in "+string(stack[len(stack)-1]), "TCP or UDP at the end")
		return
	}
	f := &ir.ListenerFragment{
		Origin: l.o, Name: l.o.Namespace + "/" + l.o.Name, Address: l.f.options.BindAddress, Port: uint32(spec.Port),
		UDP: udp, HTTP: has(api.StackHTTP), TLS: has(api.StackTLS) || udp, ProxyProtocol: has(api.StackProxy), BufferLimit: l.set.bufferLimit,
		TCPStatPrefix: statsPrefix(spec, has(api.StackHTTP), has(api.StackTLS)),
	}
	if spec.Port < 1 || spec.Port > 65535 {
		l.fail(codeListenerValue, "spec.port", fmt.Sprintf("%d is no port", spec.Port), "1 to 65535")
	}
	switch spec.SecurityModel {
	case api.SecurityModelXFP:
		f.Security = ir.SecurityXFP
	case api.SecurityModelSecure:
		f.Security = ir.SecuritySecure
	case api.SecurityModelInsecure:
		f.Security = ir.SecurityInsecure
	default:
		l.fail(codeListenerValue, "spec.securityModel", "unknown security model \""+string(spec.SecurityModel)+"\"", "XFP, SECURE or INSECURE")
	}
	if spec.L7Depth < 0 {
		l.fail(codeListenerValue, "spec.l7Depth", fmt.Sprintf("%d is no number of proxies", spec.L7Depth), "0 or more")
	}
	f.Hosts = l.hostBinding(spec.HostBinding)
	if l.failed {
		return
	}
	f.TCPAccessLogs = l.tcpAccessLogs()
	if f.HTTP {
		f.Chain = &ir.HTTPChain{
			StatPrefix: f.TCPStatPrefix, TrustedHops: uint32(spec.L7Depth),
			Filters: l.filters(), AccessLogs: l.accessLogs(), Tracing: l.tracer(),
		}
		f.Chain.Settings = identified(l.set.http, f.Chain.Tracing)
		if n := spec.HTTP2MaxConcurrentStreams; n != nil {
			f.Chain.MaxConcurrentStreams = *n
		}
	}
	l.out.Listeners = append(l.out.Listeners, f)
}

// statsPrefix returns the user's prefix or Emissary's.
func statsPrefix(spec *api.ListenerSpec, http, tls bool) string {
	switch {
	case spec.StatsPrefix != "":
		return strings.Map(func(r rune) rune {
			if r < ' ' || r == 0x7f {
				return '_'
			}
			return r
		}, spec.StatsPrefix)
	case http && tls:
		return "ingress_https"
	case http:
		return "ingress_http"
	case tls:
		return "ingress_tls_" + strconv.Itoa(int(spec.Port))
	}
	return "ingress_tcp_" + strconv.Itoa(int(spec.Port))
}

// hostBinding says which Hosts attach: by default those of the Listener's own namespace.
func (l *lowering) hostBinding(b *api.HostBindingType) ir.HostBinding {
	if b == nil || b.Namespace.From == "" && b.Selector == nil {
		l.fail(codeListenerBinding, "spec.hostBinding", "one of namespace and selector is needed", "namespace: {from: ALL}")
		return ir.HostBinding{None: true}
	}
	out := ir.HostBinding{Namespace: l.o.Namespace}
	switch b.Namespace.From {
	case "", api.NamespaceFromSelf:
	case api.NamespaceFromAll:
		out.Namespace = ""
	case api.NamespaceFromSelector:
		l.report(snapshot.Error, codeListenerBinding, "spec.hostBinding.namespace.from", "SELECTOR is not supported; SELF is used, as in Emissary", "SELF or ALL")
	default:
		l.fail(codeListenerBinding, "spec.hostBinding.namespace.from", "unknown choice \""+string(b.Namespace.From)+"\"", "SELF or ALL")
	}
	if s := b.Selector; s != nil {
		if len(s.MatchExpressions) > 0 {
			l.fail(codeListenerBinding, "spec.hostBinding.selector.matchExpressions", "matchExpressions are not supported", "use matchLabels")
		}
		if len(s.MatchLabels) > 0 {
			out.Labels = s.MatchLabels
		}
	}
	return out
}
