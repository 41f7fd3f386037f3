package modules

import "github.com/chancery-gateway/chancery/snapshot"

var (
	codeFinding = snapshot.NewCode("CH-EXTEND-002", "Finding of a module",
		"A WebAssembly module that lowers or changes this object has something to say about it.",
		"Read the message; it is the module's, whose name stands in it.")
	codeFailed = snapshot.NewCode("CH-EXTEND-003", "A module failed",
		"A WebAssembly module failed on what this object became: it trapped, took too long, or answered what it may not.",
		"Correct the module, or roll it back; its failure policy says what is served meanwhile.")
	codeInvalid = snapshot.NewCode("CH-EXTEND-004", "A module's result cannot be used",
		"What a WebAssembly module made is not valid, or is of a name that is taken.",
		"Correct the module; the former content is served meanwhile.")
	codeRefused = snapshot.NewCode("CH-EXTEND-005", "What a module made of a resource is not served",
		"An Envoy that carries no traffic was shown the resource as a WebAssembly module changed it, and refused it; or it names what does not exist.",
		"Correct the module; the resource is served without the change meanwhile.")
	codeSpec = snapshot.NewCode("CH-EXTEND-006", "A Translator is not usable",
		"A Translator object, or the NAME.json of a watched folder, says something that is wrong.",
		"Correct the field that the message names; an earlier form goes on working meanwhile.")
	codeCandidate = snapshot.NewCode("CH-EXTEND-007", "A module is not taken",
		"A module was fetched and then refused, at the stage that the message names. The module that was live goes on.",
		"Correct the module or its Translator. \"chancery status\" shows every stage.")
)

// codeUnknownKind is the source's finding about kinds that nobody reads; modules read some.
const codeUnknownKind = "CH-FILE-022"
