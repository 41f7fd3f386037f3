package linker

import (
	"fmt"

	"github.com/chancery-gateway/chancery/snapshot"
	"github.com/chancery-gateway/chancery/translators/ir"
)

// The linker's findings.
var (
	codeUnattached = snapshot.NewCode("CH-LINK-001", "route on no host",
		"No Host takes the route: no hostname overlaps it, or no mappingSelector matches its labels.",
		"Create a Host that takes it, or change the route's hostname or labels.")
	codeHostTaken = snapshot.NewCode("CH-LINK-002", "host name already claimed",
		"Another Host has the same hostname on the same listener; the oldest claim stands.",
		"Remove one of the Hosts, or give them different hostnames or listeners.")
	codeAddressTaken = snapshot.NewCode("CH-LINK-003", "listener address already claimed",
		"Another Listener has the same address, port and transport; the oldest claim stands.",
		"Give the Listeners different ports.")
	codeNoHosts = snapshot.NewCode("CH-LINK-004", "listener without hosts",
		"No Host and no TCPMapping attaches to the Listener, so there is nothing to serve on its port.",
		"Create a Host that its hostBinding selects, or correct the hostBinding.")
	codeNoListener = snapshot.NewCode("CH-LINK-005", "host on no listener",
		"No Listener's hostBinding selects the Host.",
		"Create a Listener, or correct its hostBinding or the Host's namespace and labels.")
	codeTLSConflict = snapshot.NewCode("CH-LINK-006", "server name with two TLS settings",
		"Two Hosts that differ only in the port have different certificates or TLS settings for one server name.",
		"Give both Hosts the same tlsSecret and TLS settings.")
	codeWildcardSNI = snapshot.NewCode("CH-LINK-007", "wildcard that TLS cannot match",
		"Envoy matches server names exactly, by \"*.suffix\" or not at all; another wildcard cannot select a certificate.",
		"Use an exact hostname, \"*.example.com\" or \"*\".")
	codeWeights = snapshot.NewCode("CH-LINK-008", "weights that do not sum to 100",
		"All branches of the split have weights and these do not sum to 100, or the given weights exceed 100.",
		"Let the weights sum to 100, or leave one branch without weight to take the rest.")
	codeZeroWeights = snapshot.NewCode("CH-LINK-009", "split without a share",
		"Every branch has weight 0, so no upstream may get the requests; they are answered 503.",
		"Give at least one branch a weight above 0.")
	codeMixedSplit = snapshot.NewCode("CH-LINK-010", "redirect beside other routes for one match",
		"A redirect and another route have the same host and match; a redirect cannot be one branch of a split.",
		"Change the match of one of them.")
	codeShadowAlone = snapshot.NewCode("CH-LINK-011", "shadow without a route to copy",
		"A shadow route copies the requests of another route with the same host and match; there is none.",
		"Create the live route, or correct the shadow's match.")
	codeClearTextDropped = snapshot.NewCode("CH-LINK-012", "clear-text hosts give way to a TCP route",
		"A TCP route without host takes every connection of the port, so no Host is served in clear text there.",
		"Move the TCP route to a port of its own.")
	codeNoTLSForTCP = snapshot.NewCode("CH-LINK-013", "TCP route without TLS for its host",
		"A TCP route with a host needs a certificate to terminate TLS: from a Host on the same listener, or a TLSContext with that host.",
		"Create such a Host or TLSContext, or drop the host from the route.")
	codeSecureClearText = snapshot.NewCode("CH-LINK-014", "clear-text host on a secure TLS listener",
		"The Listener terminates TLS and calls all requests secure; a Host without TLS cannot be served there without opening clear text.",
		"Give the Host a tlsSecret, or the Listener securityModel XFP.")
	codeNotOverQUIC = snapshot.NewCode("CH-LINK-020", "host is not served over HTTP/3",
		"QUIC is always TLS 1.3, and Envoy asks for no client certificates over it; a Host whose settings want something else is served over TCP alone.",
		"Leave the Host to a Listener of TCP, or take back the setting.")
	codeMatchTaken = snapshot.NewCode("CH-LINK-015", "match already claimed",
		"An Ingress and another object claim the same host and path; requests are not shared between them, the oldest claim stands.",
		"Change the host or path of one of them.")
	codeKindsMeet = snapshot.NewCode("CH-LINK-016", "host name with routes of two kinds",
		"An HTTPRoute and a GRPCRoute at one listener have a host name in common; the older route stands.",
		"Give them different hostnames, or attach them to different listeners.")
	codeClientCertificate = snapshot.NewCode("CH-LINK-021", "a client certificate is asked for",
		"A Host of another namespace takes this name by a wildcard and asks its clients for a certificate. A certificate in the tls of an Ingress would make a way round that, for all Ingresses with rules for the name; it is left out, and the Host serves the rules.",
		"Remove the name from tls, or have whoever owns the Host make one for the name.")
)

// hostField is the field to blame for where a route attaches.
func hostField(f *ir.RouteFragment) string {
	if f.At != "" {
		return f.At
	}
	switch f.Hosts.Kind {
	case ir.HostGlob, ir.HostRegex:
		return "spec.hostname"
	default:
		return ""
	}
}

func unattachedHelp(f *ir.RouteFragment) string {
	if f.Origin != nil && f.Origin.Kind == "Ingress" {
		return "create a Host whose hostname and mappingSelector take it, or name it in tls of the Ingress, with a certificate"
	}
	return "create a Host whose hostname and mappingSelector take it, or change the Mapping's hostname or labels"
}

func unattachedMessage(f *ir.RouteFragment) string {
	switch f.Hosts.Kind {
	case ir.HostGlob:
		return fmt.Sprintf("no Host takes a route for hostname %q, so it is served nowhere", f.Hosts.Value)
	case ir.HostRegex:
		return fmt.Sprintf("no Host takes a route for host expression %q, so it is served nowhere", f.Hosts.Value)
	default:
		return "the route names no hostname and no Host's mappingSelector takes its labels, so it is served nowhere"
	}
}
