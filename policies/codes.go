package policies

import "github.com/chancery-gateway/chancery/snapshot"

// Findings of the admission stage.
var (
	codeScope = snapshot.NewCode("CH-POLICY-060", "mutation outside its scope",
		"A policy wants to change a field that is not among its writes.", "Add the field to the policy's writes, or correct the rule.")
	codeFight = snapshot.NewCode("CH-POLICY-061", "mutations that conflict",
		"Two rules want to give one field different values, or one wants to change what is below a field that the other replaces. Neither is applied.",
		"Give one of the policies a higher priority, or make the rules agree.")
	codeUnstable = snapshot.NewCode("CH-POLICY-062", "mutation that does not come to rest",
		"The mutations change the object again in every round: a rule is not idempotent, or two undo each other.",
		"Let the rule ask first whether the field has the wanted value already.")
	codeSpoiled = snapshot.NewCode("CH-POLICY-063", "mutation that makes the object invalid",
		"After the mutations the object breaks the rules of its kind.", "Correct the rule; the next finding says what is wrong with the result.")
	codeMutated = snapshot.NewCode("CH-POLICY-064", "field set by a policy",
		"A policy changed the object on its way in.", "Nothing, if that was meant; else change the object so that the policy is content.")
	codeException = snapshot.NewCode("CH-POLICY-065", "exception without authority",
		"Exceptions count only in the namespaces that the operator named.", "Move the object, or add the namespace to --policy-namespaces.")
	codeExpired = snapshot.NewCode("CH-POLICY-066", "exception that has expired",
		"The time of the exception is over; the policy applies again.", "Remove the exception, or agree on a new one.")
	codeExpires = snapshot.NewCode("CH-POLICY-067", "exception that expires soon",
		"Within a week the policy will apply to the object again.", "Correct the object, or agree on a new exception.")
	codeIdle = snapshot.NewCode("CH-POLICY-068", "exception that waives nothing",
		"No policy has the id that the exception names.", "Correct spec.policy, or remove the exception.")
	codeLost = snapshot.NewCode("CH-POLICY-070", "claim lost to another object",
		"Another object claims the same host name, match or port, and a merge policy or the default (between tenants the oldest stands) decided for it.",
		"Agree with the owner of the other object, or claim something else.")
	codeJoined = snapshot.NewCode("CH-POLICY-071", "object joined with another",
		"A merge policy joined the fields of this object into another one.", "Nothing, if that was meant; `chancery policy explain` shows where each field came from.")
	codeBound = snapshot.NewCode("CH-POLICY-073", "setting bound by the platform's defaults",
		"A tenant's Mapping sets a field for which the platform's Module has a default, and a merge policy, or the default for fields of security, bound it.",
		"Set what the platform allows; `chancery policy explain` shows where each field came from.")
)
