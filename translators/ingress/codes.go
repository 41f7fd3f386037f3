package ingress

import "github.com/chancery-gateway/chancery/snapshot"

var (
	codeClass = snapshot.NewCode("CH-INGRESS-001", "an Ingress of no class that is known",
		"The Ingress names an IngressClass that is not there, or none where none is the default, so nobody knows whose it is, and it is not served.",
		"Create the IngressClass with controller getambassador.io/ingress-controller or chancery.dev/ingress-controller, or correct spec.ingressClassName.")
	codeField = snapshot.NewCode("CH-INGRESS-002", "a field of an Ingress that cannot be read",
		"The field is unknown, or its value has the wrong type. An unknown field has no effect; what cannot be read at all is not served.",
		"Correct the field; the message names it.")
	codeHost = snapshot.NewCode("CH-INGRESS-003", "a host of an Ingress is no host name",
		"A rule or an entry of tls has a host that is neither a name nor a name with \"*.\" in place of its first label. It is not served.",
		"Write a name such as shop.example.com or *.example.com, without port and scheme.")
	codePath = snapshot.NewCode("CH-INGRESS-004", "a path of an Ingress is none",
		"The path does not begin with \"/\", can never be that of a request, or its pathType is unknown. It is not served.",
		"Write an absolute path, and pathType Exact, Prefix or ImplementationSpecific.")
	codeBackend = snapshot.NewCode("CH-INGRESS-005", "a backend of an Ingress cannot be used",
		"The backend names no Service, a resource of another kind, or a port that the Service does not have. Requests are answered 503.",
		"Name a Service of the Ingress' namespace, and one of its ports by number or by name.")
	codePort = snapshot.NewCode("CH-INGRESS-009", "a port of an Ingress' backend is named as no port of the Service is",
		"The Service is not there, or has no port of this name, so that nobody knows its number. Requests are answered 503 until there is one.",
		"Create the Service, or name one of its ports.")
	codeTwice = snapshot.NewCode("CH-INGRESS-006", "an Ingress says the same thing twice",
		"A host and path, or a host of tls, stands twice in one Ingress. The first counts.",
		"Remove one of the two.")
	codeNoEffect = snapshot.NewCode("CH-INGRESS-007", "a part of an Ingress has no effect",
		"What the message names is accepted, but changes nothing.",
		"See the message.")
	codeNoListener = snapshot.NewCode("CH-INGRESS-008", "an Ingress without a Listener",
		"There is no Listener, so no port is open on which the Ingress could be served.",
		"Create a Listener for each port: Chancery opens no port by itself.")
)
