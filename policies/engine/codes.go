package engine

import (
	"slices"

	"github.com/chancery-gateway/chancery/snapshot"
)

// Findings about rules, when they are loaded.
var (
	codeSyntax = snapshot.NewCode("CH-POLICY-020", "rules that cannot be parsed",
		"A module is no valid Rego of version 1.", "Correct the text at the place that is named.")
	codePackage = snapshot.NewCode("CH-POLICY-021", "module in a package that is not its own",
		"Rules live in chancery.admission.<name>, chancery.merge.<name> or, those of a tenant, chancery.tenants.<tenant>...; shared code in chancery.lib.<name> or in any package outside chancery.",
		"Rename the package.")
	codeBuiltin = snapshot.NewCode("CH-POLICY-022", "builtin that rules may not use",
		"The function reaches the network, the clock or the environment, is not deterministic, or can exhaust the machine.",
		"Do without it: what a rule needs is in input and in data.chancery.index.")
	codeNoFunction = snapshot.NewCode("CH-POLICY-035", "function that does not exist",
		"A rule calls a function that neither the language nor a loaded module has.", "Correct the name, or load the module that defines it.")
	codeTypes = snapshot.NewCode("CH-POLICY-023", "rules that do not fit the schema",
		"A rule refers to a field that its input, parameters or index does not have, or compares values that can never be equal.",
		"Correct the name; `chancery policy schema` prints the schemas.")
	codeCompile = snapshot.NewCode("CH-POLICY-024", "rules that do not compile",
		"The module parses but breaks another rule of the language (unsafe variable, recursion, undefined function, conflicting rules).",
		"Correct the rule at the place that is named.")
	codeEntry = snapshot.NewCode("CH-POLICY-025", "policy without an entry point",
		"An admission package needs at least one rule `deny contains`, `warn contains` or `mutate contains`, a merge package a rule `resolve :=`. An undefined one would silently allow everything.",
		"Add the rule, or correct its name or form.")
	codeForeign = snapshot.NewCode("CH-POLICY-026", "reference out of a tenant's own packages",
		"A tenant's rules may refer to their own packages, to chancery.lib and to data.chancery.index by name, to nothing else.",
		"Remove the reference.")
	codeParameters = snapshot.NewCode("CH-POLICY-027", "parameters that miss their schema",
		"spec.parameters does not fit the JSON schema that the policy declares for its parameters.",
		"Correct the parameters; `chancery policy docs` lists those of the library.")
	codeUnknown = snapshot.NewCode("CH-POLICY-028", "policy whose rules do not exist",
		"spec.library or spec.package names rules that are not there.", "Correct the name, or load the rules with --policies.")
	codeTwice = snapshot.NewCode("CH-POLICY-029", "two policies with one id",
		"The id of a policy must be unique; the first one stands.", "Rename one of them.")
	codeTooBig = snapshot.NewCode("CH-POLICY-030", "rules beyond the limits",
		"A module or a set of modules is larger than what is loaded.", "Split the module, or remove what is not needed.")
	codeNamespace = snapshot.NewCode("CH-POLICY-031", "policy object in a namespace without authority",
		"Policies and exceptions count only in the operator's namespaces, policies of tenants in namespaces of their Tenant.",
		"Move the object, or add the namespace to --policy-namespaces.")
	codeTenantMay = snapshot.NewCode("CH-POLICY-032", "tenant policy that could loosen",
		"Tenants can only tighten: their packages may deny and warn, not mutate or merge.", "Ask the platform team for a policy of the platform.")
	codeMetadata = snapshot.NewCode("CH-POLICY-033", "METADATA that cannot be used",
		"The METADATA block of a package has a custom field of the wrong form.", "Correct the field; the message says what is expected.")
	codeKind = snapshot.NewCode("CH-POLICY-036", "policy for a kind that does not exist",
		"A policy's match.kinds has a name that no kind has, and that is nearly the name of one: the policy is asked about nothing by that name.",
		"Correct the name of the kind.")
	codeKept = snapshot.NewCode("CH-POLICY-034", "broken revision not taken",
		"A new revision of the policy is broken; the last good one goes on.", "Correct the new revision.")
)

// Findings about objects, when rules are asked.
var (
	CodeDenied = snapshot.NewCode("CH-POLICY-040", "object denied by a policy",
		"A rule of an enforced policy denies the object; it has no effect, or keeps the form that was last admitted.",
		"Change the object as the message says, or ask the owner of the policy for an exception.")
	CodeWarned = snapshot.NewCode("CH-POLICY-041", "policy warns of the object",
		"A policy warns of the object, or would deny it if it were enforced.", "Change the object as the message says.")
	CodeDryRun = snapshot.NewCode("CH-POLICY-042", "policy on trial would act on the object",
		"A policy with enforcement dryrun or audit denies or would change the object. Nothing came of it.", "Change the object before the policy is enforced.")
	CodeWaived = snapshot.NewCode("CH-POLICY-043", "denial waived by an exception",
		"A PolicyException names this policy and this object and has not expired.", "Correct the object before the exception ends.")
	CodeTimeout = snapshot.NewCode("CH-POLICY-044", "policy over its deadline",
		"The policy took longer than its deadline for the object; it fails closed unless onFailure is open.", "Make the rule cheaper, or raise its deadline.")
	CodeFailed = snapshot.NewCode("CH-POLICY-045", "policy failed on the object",
		"Evaluating the policy ended in an error (a builtin failed, complete rules conflict); it fails closed unless onFailure is open.", "Correct the rule at the place that is named.")
	CodeCaps = snapshot.NewCode("CH-POLICY-046", "policy with too many results",
		"The policy gave more results for one object than are taken; it fails closed unless onFailure is open.", "Let the rule give one result for one fault.")
	CodeShape = snapshot.NewCode("CH-POLICY-047", "policy result of the wrong form",
		"deny and warn give texts or objects with msg, path and details; mutate gives operations with op, path and value.", "Correct the rule at the place that is named.")
	CodeBroken = snapshot.NewCode("CH-POLICY-048", "object of a policy that is out of order",
		"A policy that the object falls under is broken or quarantined, so the object cannot be judged and is not let through.", "See the finding about the policy itself.")
	CodeOrder = snapshot.NewCode("CH-POLICY-072", "merge policy that depends on order",
		"The answer of a resolve rule changes with the order in which the claims are given.", "Decide by what the claims say (age, tenant, fields), never by their place in the list.")
	CodeQuarantined = snapshot.NewCode("CH-POLICY-049", "policy quarantined",
		"The policy ran over its deadline again and again; it is not asked any more until it changes.", "Make the rule cheaper, or raise its deadline.")
)

// faults are the codes of findings that mean that a policy, not an object, is wrong.
var faults = []*snapshot.Code{
	codeSyntax, codePackage, codeBuiltin, codeNoFunction, codeTypes, codeCompile, codeEntry, codeForeign, codeParameters, codeUnknown, codeTwice,
	codeTooBig, codeTenantMay, codeMetadata, CodeTimeout, CodeFailed, CodeCaps, CodeShape, CodeBroken, CodeQuarantined, CodeOrder,
}

// Faulty reports whether the finding is an error of a policy rather than of the object that it judges.
func Faulty(d snapshot.Diagnostic) bool {
	return d.Severity == snapshot.Error && slices.Contains(faults, d.Code)
}
