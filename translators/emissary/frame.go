package emissary

import (
	"github.com/chancery-gateway/chancery/snapshot"
	"github.com/chancery-gateway/chancery/translators/ir"
)

// Frame is what the Module and the installation's services say for every port, whatever API has asked for the port.
type Frame struct {
	// Chain is the template of HTTP chains, without StatPrefix.
	Chain         ir.HTTPChain
	TCPAccessLogs []ir.AccessLog
	BufferLimit   uint32
	// RegexMaxSize is the largest program of an expression.
	RegexMaxSize uint32
	Diagnostics  []snapshot.Diagnostic
}

// Frame returns the frame of the ports that the object asks for.
func (f *FrontEnd) Frame(o *snapshot.Object, v *snapshot.View) *Frame {
	l := &lowering{}
	l.begin(f, o, v)
	l.set = f.module(v)
	out := &Frame{TCPAccessLogs: l.tcpAccessLogs(), BufferLimit: l.set.bufferLimit, RegexMaxSize: l.set.regexMaxSize}
	out.Chain = ir.HTTPChain{Filters: l.filters(), AccessLogs: l.accessLogs(), Tracing: l.tracer()}
	out.Chain.Settings = identified(l.set.http, out.Chain.Tracing)
	out.Diagnostics = l.out.Diagnostics
	return out
}

// RegexMaxSize is the largest program of an expression, by the Module.
func (f *FrontEnd) RegexMaxSize(v *snapshot.View) uint32 { return f.module(v).regexMaxSize }

// Certificate is a certificate with its key that an object of any API names.
type Certificate struct {
	Secret *ir.Secret
	// Names are the DNS names that the certificate is for.
	Names []string
	// Diagnostics say what is odd about it, such as that it has expired.
	Diagnostics []snapshot.Diagnostic
}

// Certificate reads a certificate with its key; path is the field of the object that names it. The error says why it cannot be
// used, without any of the Secret's content.
func (f *FrontEnd) Certificate(o *snapshot.Object, path, namespace, name string, v *snapshot.View) (*Certificate, error) {
	l := &lowering{}
	l.begin(f, o, v)
	_, _, fault := l.certificate(path, secretName{namespace, name})
	if fault != nil {
		return nil, fault
	}
	s := l.out.Secrets[0]
	return &Certificate{Secret: s, Names: f.pairs.check(s.Certificate, s.Key).names, Diagnostics: l.out.Diagnostics}, nil
}

// Anchors makes the secret of trust anchors from their PEM text. The error says what the text lacks ("is empty or missing").
func Anchors(name string, text []byte, origins ...ir.Origin) (*ir.Secret, error) {
	if _, err := parseCertificates(text); err != nil {
		return nil, err
	}
	return &ir.Secret{Name: name, CA: text, Fingerprint: fingerprint(text, nil), Origins: origins}, nil
}

// ClusterName names a cluster by everything that it is, Name and Origins apart.
func ClusterName(c *ir.Cluster) string { return clusterName(c, "", make([]byte, 0, 512)) }

// DefaultConnectTimeout is in milliseconds.
const DefaultConnectTimeout = defaultConnectTimeout

// CheckRegex checks an expression as Envoy will read it, by size too, and returns the number of its groups.
func CheckRegex(expr string, maxSize uint32) (groups int, err error) {
	return checkRegex(expr, maxSize)
}

// CheckHeaderName refuses what Envoy does not let configuration write: tokens that are none, and pseudo headers but a few.
func CheckHeaderName(name string) error { return checkHeaderName(name) }

// CheckMatchName refuses what cannot be the name of a header to compare.
func CheckMatchName(name string) error { return checkMatchName(name) }

// CheckHeaderText refuses control characters.
func CheckHeaderText(value string) error { return checkHeaderText(value) }

// CheckHostname refuses what is no DNS name.
func CheckHostname(name string) error { return checkHostname(name) }
