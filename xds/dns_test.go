package xds

import (
	"net"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	core "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	endpointv3 "github.com/envoyproxy/go-control-plane/envoy/config/endpoint/v3"
	"golang.org/x/net/dns/dnsmessage"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/chancery-gateway/chancery/translators/ir"
)

// resolver is a DNS server on the loopback address: every name is 127.0.0.1, after a while; names that begin with "silent" get no answer.
type resolver struct {
	conn net.PacketConn
	wait func(name string) time.Duration
}

func newResolver(t *testing.T, wait func(name string) time.Duration) *resolver {
	t.Helper()
	conn, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	r := &resolver{conn, wait}
	go r.serve()
	return r
}

func (r *resolver) port() int { return r.conn.LocalAddr().(*net.UDPAddr).Port }

func (r *resolver) serve() {
	buf := make([]byte, 4096)
	for {
		n, from, err := r.conn.ReadFrom(buf)
		if err != nil {
			return
		}
		var q dnsmessage.Message
		if q.Unpack(buf[:n]) != nil || len(q.Questions) != 1 || strings.HasPrefix(q.Questions[0].Name.String(), "silent") {
			continue
		}
		question := q.Questions[0]
		a := dnsmessage.Message{Header: dnsmessage.Header{ID: q.ID, Response: true, RecursionDesired: q.RecursionDesired, RecursionAvailable: true}, Questions: q.Questions}
		if question.Type == dnsmessage.TypeA {
			a.Answers = []dnsmessage.Resource{{Header: dnsmessage.ResourceHeader{Name: question.Name, Type: question.Type, Class: question.Class, TTL: 60},
				Body: &dnsmessage.AResource{A: [4]byte{127, 0, 0, 1}}}}
		}
		text, err := a.Pack()
		if err != nil {
			continue
		}
		time.AfterFunc(r.wait(question.Name.String()), func() { r.conn.WriteTo(text, from) })
	}
}

// dns is a cluster whose only endpoint is found by DNS.
func (b *bed) dns(name string, to *httptest.Server) *ir.Resource {
	return pack(b.t, name, &clusterv3.Cluster{
		Name: name, ConnectTimeout: durationpb.New(20 * time.Second),
		ClusterDiscoveryType: &clusterv3.Cluster_Type{Type: clusterv3.Cluster_STRICT_DNS},
		LoadAssignment:       assignment(name, &core.SocketAddress{Address: name + ".example.com", PortSpecifier: &core.SocketAddress_PortValue{PortValue: uint32(portOf(to))}}),
	})
}

// static is a cluster that knows its only endpoint.
func (b *bed) static(name string, to *httptest.Server) *ir.Resource {
	return pack(b.t, name, &clusterv3.Cluster{
		Name: name, ConnectTimeout: durationpb.New(20 * time.Second),
		LoadAssignment: assignment(name, socketAddress(portOf(to)).GetSocketAddress()),
	})
}

func portOf(s *httptest.Server) int { return s.Listener.Addr().(*net.TCPAddr).Port }

func assignment(name string, at *core.SocketAddress) *endpointv3.ClusterLoadAssignment {
	return &endpointv3.ClusterLoadAssignment{ClusterName: name, Endpoints: []*endpointv3.LocalityLbEndpoints{{
		LbEndpoints: []*endpointv3.LbEndpoint{{HostIdentifier: &endpointv3.LbEndpoint_Endpoint{Endpoint: &endpointv3.Endpoint{
			Address: &core.Address{Address: &core.Address_SocketAddress{SocketAddress: at}}}}}},
	}}}
}
