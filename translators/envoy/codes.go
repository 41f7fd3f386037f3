package envoy

import "github.com/chancery-gateway/chancery/snapshot"

// The findings of the back end. Each costs the unit it is about and nothing else.
var (
	codeRule = snapshot.NewCode("CH-ENVOY-001", "Envoy's own validation rules refuse the value",
		"A value is outside of what Envoy's protobuf definitions allow.",
		"Change the field that the value comes from; the message names Envoy's field and its rule.")
	codeMissing = snapshot.NewCode("CH-ENVOY-002", "Something that is referred to does not exist",
		"A cluster, certificate, endpoint set or route configuration is named, but was never made or has been refused.",
		"Fix the object that should have made it; its own diagnostic says why it was refused.")
	codeReserved = snapshot.NewCode("CH-ENVOY-003", "The name belongs to Chancery itself",
		"A cluster has the name of one of the bootstrap's clusters; Envoy would silently ignore it.",
		"Choose another name.")
	codeDomain = snapshot.NewCode("CH-ENVOY-004", "Two virtual hosts claim one domain",
		"The same host name, compared without regard to case, stands twice in one route configuration.",
		"Remove one of the claims.")
	codeChainMatch = snapshot.NewCode("CH-ENVOY-005", "Two filter chains of a listener match the same connections",
		"Two hosts or TCP routes want the same server name on one listener.",
		"Remove one of them or give it another server name.")
	codeAddress = snapshot.NewCode("CH-ENVOY-006", "Two listeners want one address",
		"Two listeners have the same address, port and transport.",
		"Give one of them another port.")
	codeInspector = snapshot.NewCode("CH-ENVOY-007", "A server name is matched without a TLS inspector",
		"A filter chain selects by SNI on a listener that does not look at TLS, so it could never match.",
		"Put TLS into the listener's protocol stack.")
	codeTLSVersions = snapshot.NewCode("CH-ENVOY-008", "The TLS versions are contradictory",
		"The minimum TLS version is above the maximum; Envoy accepts this and refuses every connection.",
		"Lower the minimum or raise the maximum.")
	codeHeaderName = snapshot.NewCode("CH-ENVOY-009", "The header name cannot be used",
		"A header name is no RFC 9110 token, or is one that Envoy does not let configuration change (\":path\", \"host\").",
		"Use letters, digits and the characters !#$%&'*+-.^_`|~ only.")
	codeRetryOn = snapshot.NewCode("CH-ENVOY-010", "The retry condition is unknown",
		"A word of retry_on is none that Envoy knows; Envoy ignores it silently.",
		"Use Envoy's conditions, for example \"5xx,connect-failure\".")
	codeWeights = snapshot.NewCode("CH-ENVOY-011", "The weights cannot be used",
		"All weights of a split are zero, or their sum exceeds 4294967295.",
		"Give at least one target a weight above zero.")
	codeSubstitution = snapshot.NewCode("CH-ENVOY-012", "The substitution names a group that the pattern does not have",
		"A rewrite refers to \\N, but its regular expression has fewer groups.",
		"Add the group or lower the number.")
	codeRegex = snapshot.NewCode("CH-ENVOY-013", "The regular expression is not valid RE2",
		"RE2 cannot parse the expression, so Envoy would refuse it.",
		"Correct the expression; RE2 has no look-around and no back-references.")
	codeFilter = snapshot.NewCode("CH-ENVOY-014", "The HTTP filter is unknown",
		"A filter, or a route's settings for one, has a name or settings that the back end cannot emit.",
		"Remove the filter or update Chancery.")
	codeDuplicate = snapshot.NewCode("CH-ENVOY-015", "Two resources have one name",
		"Two different nodes of the program have the same name; the first one is served.",
		"Give one of them another name.")
	codeValue = snapshot.NewCode("CH-ENVOY-016", "The value cannot be expressed in Envoy's configuration",
		"A field has a value that Envoy has no counterpart for.",
		"Use one of the values that the message lists.")
	codeFormat = snapshot.NewCode("CH-ENVOY-017", "The header value's format is broken",
		"A % begins a command that is never closed; Envoy would refuse the whole route configuration.",
		"Write %% for a literal percent sign, or close the command: %REQ(name)%.")
	codeNoChain = snapshot.NewCode("CH-ENVOY-018", "Nothing is left to serve on the listener",
		"The listener has no filter chain, or each of its chains has been refused.",
		"Attach a host or TCP route, or fix those whose diagnostics stand beside this one.")
	codeRefused = snapshot.NewCode("CH-PROOF-010", "Envoy refuses a part of the configuration",
		"The part passed Chancery's own rules, but the validating Envoy, which carries no traffic, does not take it. It has not reached the traffic.",
		"Change the object by what Envoy's sentence says; all others are served meanwhile.")
	codeProgram = snapshot.NewCode("CH-ENVOY-019", "The regular expression is too large",
		"RE2 compiles the expression to more instructions than the limit, so Envoy would refuse the whole route configuration.",
		"Shorten the expression, or raise regex_max_size and restart Envoy, which reads it at its start.")
	codeScript = snapshot.NewCode("CH-ENVOY-020", "The script works while it is loaded",
		"A Lua script loops, or ends the process, outside of its functions. Envoy runs that in its main thread, and its configuration would never change again.",
		"Move the code into envoy_on_request or envoy_on_response.")
	codeFile = snapshot.NewCode("CH-ENVOY-021", "The file may not be named",
		"A file name leads to a device, into the kernel's own folders, or to the credentials of the process; Envoy could block there for ever.",
		"Name an ordinary file, for example one of a mounted volume.")
	// TooOld is a feature that an Envoy lacks.
	TooOld = snapshot.NewCode("CH-ENVOY-022", "The Envoy is too old for a feature",
		"The object asks for something that a newer Envoy does; the one in use would ignore it without a word, or refuse what it stands in.",
		"Use a newer Envoy, or do without.")
)
