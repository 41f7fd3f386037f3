package files

import "github.com/chancery-gateway/chancery/snapshot"

var (
	codeUnreadable = snapshot.NewCode("CH-FILE-020", "a file cannot be read",
		"The file is gone, a link leads nowhere, or its permissions forbid reading it.",
		"Restore the file or its permissions, or remove the link.")
	codeDuplicate = snapshot.NewCode("CH-FILE-021", "an object is defined twice",
		"Two documents have the same group, kind, namespace and name. The first one, by file name and line, counts.",
		"Remove or rename one of the two.")
	codeUnknownKind = snapshot.NewCode("CH-FILE-022", "no part of Chancery knows the kind",
		"The kind or its API group is misspelt, or belongs to another program.",
		"Correct apiVersion and kind; leave the object out if it is meant for another program.")
	codeNotRead = snapshot.NewCode("CH-FILE-023", "the kind is not read",
		"The kind is one of Kubernetes' own that says nothing about routing.",
		"Nothing has to be done.")
	codeKept = snapshot.NewCode("CH-FILE-024", "an object keeps its last good form",
		"The file was edited and the object's document can no longer be read; what it said before stays in force.",
		"Correct the document that is named by the error in the same file.")
	codeNothing = snapshot.NewCode("CH-FILE-026", "there is no manifest",
		"A path leads to a folder without any .yaml, .yml or .json file, or to a file or standard input without any document.",
		"Give the path of the manifests, or see why whatever writes them wrote none.")
	codeEmptied = snapshot.NewCode("CH-FILE-027", "a folder that held manifests is an empty one now",
		"The folder was deleted, moved or unmounted, and an empty one is in its place. That is no order to take everything away, so what it held stays in force.",
		"Bring the manifests back. To take all of them away, put a file without documents into the folder, such as an empty none.yaml.")
)
