package xds

import (
	"strings"

	core "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	discovery "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"google.golang.org/protobuf/types/known/anypb"

	"github.com/chancery-gateway/chancery/translators/ir"
)

// wire is one stream in either protocol. recv and send may run at the same time, each by one goroutine.
type wire interface {
	recv() (*request, error)
	send(*reply) error
	// delta reports the incremental protocol.
	delta() bool
}

// request is a discovery request of either protocol.
type request struct {
	typeURL string
	node    *core.Node
	nonce   string
	// refused is the client's text when it rejects the response of the nonce; nack says that it does.
	nack    bool
	refused string
	// names is the whole subscription (state of the world).
	names   []string
	version string
	// subscribe, unsubscribe and held are the incremental protocol's; held is what a reconnecting client has: versions by name.
	subscribe, unsubscribe []string
	held                   map[string]string
}

// reply is a response of either protocol.
type reply struct {
	typeURL, version, nonce string
	resources               []*ir.Resource
	removed                 []string
}

type sotwWire struct {
	discovery.AggregatedDiscoveryService_StreamAggregatedResourcesServer
}

func (sotwWire) delta() bool { return false }

func (w sotwWire) recv() (*request, error) {
	q, err := w.Recv()
	if err != nil {
		return nil, err
	}
	return &request{
		typeURL: q.GetTypeUrl(), node: q.GetNode(), nonce: q.GetResponseNonce(), version: q.GetVersionInfo(), names: q.GetResourceNames(),
		nack: q.GetErrorDetail() != nil, refused: valid(q.GetErrorDetail().GetMessage()),
	}, nil
}

func (w sotwWire) send(r *reply) error {
	p := &discovery.DiscoveryResponse{TypeUrl: r.typeURL, VersionInfo: r.version, Nonce: r.nonce, Resources: make([]*anypb.Any, len(r.resources))}
	bodies := make([]anypb.Any, len(r.resources))
	for i, res := range r.resources {
		bodies[i].TypeUrl, bodies[i].Value = res.Type, res.Value
		p.Resources[i] = &bodies[i]
	}
	return w.Send(p)
}

type deltaWire struct {
	discovery.AggregatedDiscoveryService_DeltaAggregatedResourcesServer
}

func (deltaWire) delta() bool { return true }

func (w deltaWire) recv() (*request, error) {
	q, err := w.Recv()
	if err != nil {
		return nil, err
	}
	return &request{
		typeURL: q.GetTypeUrl(), node: q.GetNode(), nonce: q.GetResponseNonce(),
		nack: q.GetErrorDetail() != nil, refused: valid(q.GetErrorDetail().GetMessage()),
		subscribe: q.GetResourceNamesSubscribe(), unsubscribe: q.GetResourceNamesUnsubscribe(), held: q.GetInitialResourceVersions(),
	}, nil
}

func (w deltaWire) send(r *reply) error {
	p := &discovery.DeltaDiscoveryResponse{
		TypeUrl: r.typeURL, SystemVersionInfo: r.version, Nonce: r.nonce, RemovedResources: r.removed,
		Resources: make([]*discovery.Resource, len(r.resources)),
	}
	bodies := make([]anypb.Any, len(r.resources))
	entries := make([]discovery.Resource, len(r.resources))
	for i, res := range r.resources {
		bodies[i].TypeUrl, bodies[i].Value = res.Type, res.Value
		entries[i].Name, entries[i].Version, entries[i].Resource = res.Name, res.Version, &bodies[i]
		p.Resources[i] = &entries[i]
	}
	return w.Send(p)
}

func valid(text string) string { return strings.ToValidUTF8(text, "\uFFFD") }
