package gatewayapi

import "github.com/chancery-gateway/chancery/snapshot"

// The front end's findings.
var (
	codeClass = snapshot.NewCode("CH-GATEWAY-001", "GatewayClass missing or unusable",
		"The GatewayClass that a Gateway names is not there, or a GatewayClass asks for what is not supported.",
		"Create the GatewayClass with controllerName chancery.dev/gateway-controller, or correct the name.")
	codeAddress = snapshot.NewCode("CH-GATEWAY-002", "address of a Gateway that cannot be used",
		"An address in spec.addresses is no IP address, or none of the range that Gateways are given addresses of.",
		"Use an IP address of the machine that Envoy runs on, or leave addresses out.")
	codeListener = snapshot.NewCode("CH-GATEWAY-003", "listener that is not served",
		"A listener's protocol, hostname, port or tls is wrong or not supported.",
		"Correct what the message names; other listeners are served.")
	codeConflict = snapshot.NewCode("CH-GATEWAY-004", "listeners in conflict",
		"Two listeners of one address and port cannot be told apart, or another object has the port.",
		"Give them different ports or hostnames.")
	codeCertificate = snapshot.NewCode("CH-GATEWAY-005", "certificate of a listener unusable",
		"A certificateRef names no Secret with a certificate and its key, or one of another namespace without a ReferenceGrant.",
		"Correct the reference or the Secret, or create the ReferenceGrant.")
	codeKinds = snapshot.NewCode("CH-GATEWAY-006", "kind of routes that a listener cannot have",
		"allowedRoutes.kinds names a kind that the listener's protocol does not carry.",
		"HTTPRoute and GRPCRoute for HTTP and HTTPS, TLSRoute for TLS, TCPRoute for TCP.")
	codeParent = snapshot.NewCode("CH-GATEWAY-007", "route that is not attached",
		"A parentRef names no Gateway or listener, one that does not allow the route, or one whose hostname the route has not.",
		"Correct the parentRef or the hostnames, or let the listener allow the route.")
	codeBackend = snapshot.NewCode("CH-GATEWAY-008", "backend that cannot be used",
		"A backendRef names no Service port, another kind, or a Service of another namespace without a ReferenceGrant. Its share is answered 500.",
		"Correct the reference, create the Service, or create the ReferenceGrant.")
	codeValue = snapshot.NewCode("CH-GATEWAY-009", "value that is wrong",
		"A match, filter or time span of a rule, or a name of a policy, cannot be used. Requests of the rule are answered 500, a match that nothing can meet is left out; other rules are served.",
		"Correct what the message names.")
	codeUnsupported = snapshot.NewCode("CH-GATEWAY-010", "part of an object that is not supported",
		"The field is understood, but not what it asks for.",
		"See translators/COMPATIBILITY.md for what is supported.")
	codePolicy = snapshot.NewCode("CH-GATEWAY-011", "BackendTLSPolicy that cannot be used",
		"The policy's certificate authorities cannot be used, or another policy has the target. Backends that it names are not called.",
		"Correct what the message names.")
	codeListenerSet = snapshot.NewCode("CH-GATEWAY-012", "ListenerSet that is not attached",
		"The Gateway that a ListenerSet names is not there or does not allow it.",
		"Correct parentRef, or let the Gateway's allowedListeners take the namespace.")
)
