package kube

import "github.com/chancery-gateway/chancery/snapshot"

var (
	codeForbidden = snapshot.NewCode("CH-KUBE-001", "a kind may not be read",
		"The service account has no right to list and watch the kind, so its objects are unknown.",
		"Apply the ClusterRole of the install manifest, or grant get, list and watch on the kind. It is tried again all the time.")
	codeVanished = snapshot.NewCode("CH-KUBE-002", "a kind vanished with its objects",
		"The API server does not know the kind any more, though its objects were never deleted: its CustomResourceDefinition was lost.",
		"Apply the CustomResourceDefinition again. What the objects said stays in force until then, or until a restart.")
	codeDuplicate = snapshot.NewCode("CH-KUBE-003", "an object is defined twice",
		"An annotation holds an object of the same kind, namespace and name as another one. An object of its own counts before those in "+
			"annotations, and these in the order of the objects that carry them.",
		"Remove or rename one of the two.")
	codeKept = snapshot.NewCode("CH-KUBE-004", "an object keeps its last good form",
		"The object was changed to something that cannot be read; what it said before stays in force until Chancery starts again.",
		"Correct what the error about the same object names.")
	codeAbsent = snapshot.NewCode("CH-KUBE-006", "a kind that a module reads is not served",
		"A WebAssembly module lowers objects of a kind that the API server does not know.",
		"Apply the kind's CustomResourceDefinition; it is watched as soon as it is served. Without it, the module has nothing to lower.")
	codeUnreadable = snapshot.NewCode("CH-KUBE-005", "a kind cannot be read",
		"The API server answers the list of the kind with an error, for example because its conversion webhook does not run.",
		"Correct what the message names. It is tried again all the time.")
)
