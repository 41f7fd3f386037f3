package manifest

import "github.com/chancery-gateway/chancery/snapshot"

// The findings about text that cannot be read.
var (
	SyntaxYAML = snapshot.NewCode("CH-FILE-001", "the document is not valid YAML",
		"The text breaks YAML's grammar: wrong indentation, an unclosed quote, a tab, a colon in an unquoted value.",
		"Correct the line that is named. The other documents of the file are not affected.")
	SyntaxJSON = snapshot.NewCode("CH-FILE-002", "the document is not valid JSON",
		"The text breaks JSON's grammar, or ends before the value does.",
		"Correct the line that is named. The other documents of the file are not affected.")
	Encoding = snapshot.NewCode("CH-FILE-003", "the text is not UTF-8",
		"The file was saved in another encoding, or holds binary data.",
		"Save the file as UTF-8.")
	DuplicateKey = snapshot.NewCode("CH-FILE-004", "a key stands twice in one mapping",
		"Two entries of one mapping have the same key; which of them counts would be a guess.",
		"Remove one of the two.")
	KeyNotString = snapshot.NewCode("CH-FILE-005", "a key is not a string",
		"Keys of Kubernetes objects are strings; numbers, true, false and null as keys need quotes.",
		"Put the key in quotes.")
	TooDeep = snapshot.NewCode("CH-FILE-006", "the document is nested too deep",
		"Mappings and lists stand in one another at more than 200 levels, or an alias refers to what holds it.",
		"Flatten the document.")
	TooBig = snapshot.NewCode("CH-FILE-007", "the text is too big",
		"The file or document, or what its aliases make of it, is over the limit.",
		"Split the file; write out what the aliases stand for.")
	Template = snapshot.NewCode("CH-FILE-008", "the document is a template",
		"The text has {{ }} of a template language (Helm, for example), which has to be rendered first.",
		"Render it: helm template NAME CHART | chancery check -")
	NotObject = snapshot.NewCode("CH-FILE-009", "the document is not an object",
		"A document has to be one Kubernetes object (a mapping with apiVersion, kind and metadata) or a List of them.",
		"Remove the text, or write the object out.")
	NoJSONForm = snapshot.NewCode("CH-FILE-010", "a value cannot be said in JSON",
		"Objects are JSON to Kubernetes; infinite numbers, not-a-number and private YAML tags have no form there.",
		"Put the value in quotes, or give another one.")
)
