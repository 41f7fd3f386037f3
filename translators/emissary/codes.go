package emissary

import "github.com/chancery-gateway/chancery/snapshot"

// Codes of findings about Mappings.
var (
	codeMappingHost = snapshot.NewCode("CH-MAPPING-001", "A Mapping's host condition is invalid",
		"host, hostname or the :authority header hold something that no request can have, or a glob with \"*\" inside.",
		"Write an exact name, \"*\", \"*.example.com\" or \"example.*\" in hostname.")
	codeMappingRegex = snapshot.NewCode("CH-MAPPING-002", "A regular expression is invalid or too large",
		"Expressions are RE2; Envoy refuses programs larger than the Module's regex_max_size.",
		"Correct the expression, split it, or raise regex_max_size in the Module.")
	codeMappingHeader = snapshot.NewCode("CH-MAPPING-003", "A header condition or change is invalid",
		"The name is no header name, the header may not be changed, or the value has a broken %COMMAND%.",
		"Use RFC 9110 header names; write a plain percent sign as %%.")
	codeMappingValue = snapshot.NewCode("CH-MAPPING-004", "A Mapping's field has a value out of its range",
		"The value is not among those that the field allows.", "Use a value that the help text names.")
	codeMappingRedirect = snapshot.NewCode("CH-MAPPING-005", "A redirect is not what it seems",
		"Redirect fields contradict each other or stand without host_redirect.", "Keep one of path_redirect, prefix_redirect and regex_redirect, with host_redirect: true.")
	codeMappingRewrite = snapshot.NewCode("CH-MAPPING-006", "A path rewrite is not what it seems",
		"Rewrite fields contradict each other, or the default rewrite replaces a whole matched path.", "Write rewrite: \"\" to leave the path as it is.")
	codeMappingNoEffect = snapshot.NewCode("CH-MAPPING-007", "A Mapping's field has no effect",
		"The field is known and accepted, but nothing is made of it.", "Remove the field, or do not rely on it.")
	codeMappingPath = snapshot.NewCode("CH-MAPPING-008", "A path can never match",
		"Paths of requests begin with \"/\".", "Let prefix begin with \"/\".")
)

// Codes of findings about upstreams.
var (
	codeClusterService = snapshot.NewCode("CH-CLUSTER-001", "A service text is invalid",
		"The service is not of the form [http://|https://]host[:port].", "Correct the host or port.")
	codeClusterResolver = snapshot.NewCode("CH-CLUSTER-002", "A resolver cannot be used",
		"No resolver of this name exists, or its kind is not supported yet.", "Name an existing resolver, or one of kubernetes-service and endpoint.")
	codeClusterContext = snapshot.NewCode("CH-CLUSTER-003", "The TLSContext for an upstream cannot be used",
		"It does not exist, its name is ambiguous, or its secrets are unusable. The upstream is not called in clear text instead.", "Create or correct the TLSContext.")
	codeClusterUnverified = snapshot.NewCode("CH-CLUSTER-004", "An upstream's certificate is not verified",
		"https:// without a TLSContext encrypts, but accepts any server certificate, as in Emissary.", "Name a TLSContext with ca_secret in tls.")
	codeClusterScheme = snapshot.NewCode("CH-CLUSTER-005", "A service says http:// but TLS is originated",
		"tls names a TLSContext, which wins over the scheme.", "Write https:// or drop tls.")
	codeClusterBalancer = snapshot.NewCode("CH-CLUSTER-006", "A load balancer setting is invalid",
		"The policy lacks its hash key, has one too many, or the resolver knows no endpoints.",
		"ring_hash and maglev need exactly one of cookie, header and source_ip; use the endpoint resolver.")
	codeClusterLimit = snapshot.NewCode("CH-CLUSTER-007", "An upstream setting is out of its range",
		"A circuit breaker, keepalive, timeout, DNS or health check setting has an impossible value.", "Use a value that the help text names.")
	codeClusterHealth = snapshot.NewCode("CH-CLUSTER-008", "Health checks have no effect here",
		"Active health checks need a resolver that knows endpoints.", "Set resolver: endpoint.")
	codeClusterMissing = snapshot.NewCode("CH-CLUSTER-009", "The Service does not exist",
		"There is no Service of this name, or it has no such port; the route answers 503 until there is.", "Create the Service, or correct the name or the port.")
)

// Codes of findings about Hosts.
var (
	codeHostName = snapshot.NewCode("CH-HOST-001", "A Host's hostname is invalid",
		"The name is no DNS name, or has \"*\" elsewhere than at one end.", "Use an exact name, \"*.example.com\", \"example.*\" or \"*\".")
	codeHostSelector = snapshot.NewCode("CH-HOST-002", "A Host's selector cannot be honoured",
		"Only matchLabels are supported. The Host is closed, since without its selector it would take routes that are not its own.", "Use matchLabels.")
	codeHostContext = snapshot.NewCode("CH-HOST-004", "A Host and its TLSContext do not fit together",
		"The TLSContext lists other hosts or another secret.", "Let both name the same secret, and let hosts contain the Host's hostname.")
	codeHostNoEffect = snapshot.NewCode("CH-HOST-005", "A Host's field has no effect",
		"The field is known and accepted, but nothing is made of it.", "Remove the field, or do not rely on it.")
	codeHostDefault = snapshot.NewCode("CH-HOST-006", "There is no Host: everything is served on every name",
		"Without any Host one for \"*\" is made up, as in Emissary.", "Create a Host.")
)

// Codes of findings about TLS settings and Secrets.
var (
	codeTLSMissing = snapshot.NewCode("CH-TLS-001", "A Secret does not exist",
		"No Secret of this name is in the namespace (or it may not be read).", "Create the Secret, or correct name and namespace.")
	codeTLSType = snapshot.NewCode("CH-TLS-002", "A Secret has the wrong type",
		"Certificates come from Secrets of type kubernetes.io/tls, Opaque or istio.io/key-and-cert.", "Use a Secret of one of these types.")
	codeTLSMaterial = snapshot.NewCode("CH-TLS-003", "A Secret's content is unusable",
		"A key is empty or missing, or its PEM does not parse.", "Put a PEM certificate chain in tls.crt and its key in tls.key.")
	codeTLSMismatch = snapshot.NewCode("CH-TLS-004", "Certificate and key do not belong together",
		"The private key is not the certificate's.", "Replace both from one issue.")
	codeTLSExpired = snapshot.NewCode("CH-TLS-005", "A certificate is not valid now",
		"It has expired, or begins later.", "Renew the certificate.")
	codeTLSSetting = snapshot.NewCode("CH-TLS-006", "A TLS setting is invalid",
		"A version, cipher, curve, protocol or combination is not possible.", "Use a value that the help text names.")
	codeTLSNoEffect = snapshot.NewCode("CH-TLS-007", "A TLS setting has no effect",
		"The field is known and accepted, but nothing is made of it.", "Remove the field, or do not rely on it.")
)

// Codes of findings about Listeners.
var (
	codeListenerStack = snapshot.NewCode("CH-LISTENER-001", "A Listener's protocol is invalid",
		"The stack is empty, unknown, or ends neither in TCP nor in UDP.", "Use protocol HTTP, HTTPS, HTTPPROXY, HTTPSPROXY, TCP or TLS, or protocolStack [TLS, HTTP, UDP] for HTTP/3.")
	codeListenerBinding = snapshot.NewCode("CH-LISTENER-002", "A Listener's hostBinding cannot be honoured",
		"It selects nothing, or by something that is not supported.", "Use namespace.from SELF or ALL, and matchLabels.")
	codeListenerValue = snapshot.NewCode("CH-LISTENER-004", "A Listener's field has a value out of its range",
		"The value is not among those that the field allows.", "Use a value that the help text names.")
)

// Codes of findings about TCPMappings.
var (
	codeTCPValue = snapshot.NewCode("CH-TCP-001", "A TCPMapping's field has a value out of its range",
		"The value is not among those that the field allows.", "Use a value that the help text names.")
)

// Codes of findings about Modules and other kinds.
var (
	codeModuleValue = snapshot.NewCode("CH-MODULE-001", "A Module key has an invalid value",
		"The value has the wrong type or is out of range. The key counts as absent; all others hold.", "Use a value that the help text names.")
	codeModuleNoEffect = snapshot.NewCode("CH-MODULE-002", "A Module key has no effect",
		"The key is known and accepted, but nothing is made of it.", "Remove the key, or do not rely on it.")
	codeModuleUnknown = snapshot.NewCode("CH-MODULE-003", "A Module key is unknown",
		"No such key exists; it may be misspelt.", "Correct or remove the key.")
	codeModuleIgnored = snapshot.NewCode("CH-MODULE-004", "A Module is ignored",
		"Only the first Module named \"ambassador\" (by namespace) counts.", "Move its keys to that Module.")
	codeKindNoEffect = snapshot.NewCode("CH-KIND-001", "An object of this kind has no effect yet",
		"The kind is known and accepted, but nothing is made of it.", "Do not rely on it.")
)

// Codes of findings about the gateway's own services: AuthService, RateLimitService, LogService, TracingService.
var (
	codeServiceSecond = snapshot.NewCode("CH-SERVICE-001", "A second object of a kind of which one counts",
		"There can be one RateLimitService, LogService and TracingService, and one AuthService, or several in one namespace that differ in auth_service alone.",
		"Remove all but one.")
	codeServiceValue = snapshot.NewCode("CH-SERVICE-002", "A field of one of the gateway's own services has a value that cannot be used",
		"The value is not among those that the field allows, or Envoy no longer has what it names.", "Use a value that the help text names.")
	codeServiceNoEffect = snapshot.NewCode("CH-SERVICE-003", "A field of one of the gateway's own services has no effect",
		"The field is known and accepted, but nothing is made of it.", "Remove the field, or do not rely on it.")
	codeAuthClosed = snapshot.NewCode("CH-AUTH-001", "An AuthService cannot be asked, so its routes are closed",
		"The AuthService is invalid. Requests that it would have been asked about are answered 500, never let through.",
		"Correct what the other findings about the AuthService name.")
	codeRateLimitClosed = snapshot.NewCode("CH-RATELIMIT-001", "A RateLimitService cannot be asked, so requests with labels are refused",
		"The RateLimitService is invalid, and failure_mode_deny wants requests refused while it does not answer.", "Correct the RateLimitService.")
	codeRateLimitOpen = snapshot.NewCode("CH-RATELIMIT-002", "A RateLimitService cannot be asked, so nothing is limited",
		"The RateLimitService is invalid, and without failure_mode_deny requests pass while it does not answer.", "Correct the RateLimitService.")
	codeMappingLabels = snapshot.NewCode("CH-MAPPING-009", "A Mapping's rate limit label is not what it seems",
		"The label is incomplete, of another domain, or there is no RateLimitService.", "Use the RateLimitService's domain, and one of the known kinds of labels.")
)
