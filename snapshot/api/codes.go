package api

import "github.com/chancery-gateway/chancery/snapshot"

var (
	codeSyntax = snapshot.NewCode("CH-API-001", "Document is not a JSON object",
		"The text of the object is not well-formed JSON, is not an object, or has a name twice.",
		"Correct the text at the place that the message names.")
	codeIdentity = snapshot.NewCode("CH-API-002", "Object has no proper identity",
		"apiVersion, kind or metadata.name is missing or is not a plain text.",
		"Give every object an apiVersion, a kind and a metadata.name.")
	codeVersion = snapshot.NewCode("CH-API-003", "Unknown version of a known kind",
		"The kind exists, but not in the version that apiVersion names.",
		"Use one of the versions that the message lists.")
	codeType = snapshot.NewCode("CH-API-004", "Value has the wrong type",
		"A field holds a value of another type than its schema says, for example a text where a number belongs.",
		"Write a value of the expected type; texts that look like numbers need quotes in YAML, numbers none.")
	codeUnknownField = snapshot.NewCode("CH-API-005", "Unknown field",
		"The kind has no field of this name. Kubernetes drops such a field; it has no effect.",
		"Correct the name or remove the field.")
	codeSchema = snapshot.NewCode("CH-API-006", "Object breaks the rules of its schema",
		"A required field is missing, or a value is outside what the kind's CRD allows.",
		"Set the field to one of the allowed values.")
	codeConversion = snapshot.NewCode("CH-API-007", "Part of an old version cannot be carried over",
		"The object is of an old version, and a part of it has a shape that this version does not describe.",
		"Rewrite the part, best as getambassador.io/v3alpha1.")
	codeData = snapshot.NewCode("CH-API-008", "Secret data is not base64",
		"A value under data is not valid base64.",
		"Encode the value, or write it as it is under stringData.")
	codeSubsets = snapshot.NewCode("CH-API-009", "Endpoints with several port sets",
		"An Endpoints object has subsets with different ports, of which only the first could be taken.",
		"Use EndpointSlices.")
	codeMany = snapshot.NewCode("CH-API-010", "More findings than are listed",
		"One object has so many faults that only the first 100 are listed.",
		"Correct those that are listed and look again.")
)
