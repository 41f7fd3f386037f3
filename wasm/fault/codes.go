package fault

import "github.com/chancery-gateway/chancery/snapshot"

func code(number, title, cause, cure string) *snapshot.Code {
	return snapshot.NewCode("CH-WASM-"+number, title, cause, cure)
}

// Getting a module.
var (
	Fetch = code("001", "Module can't be fetched",
		"The source did not answer, or answered with an error.",
		"Nothing, if it passes: it is tried again with growing pauses. Else check the address and that the source is up.")
	NotFound = code("002", "Module not found",
		"The source has nothing under this name.",
		"Check path, tag or address.")
	Digest = code("003", "Digest does not match",
		"The bytes that came are not those whose sha256 the configuration names.",
		"Put the digest of the module that you mean into the configuration (`chancery module inspect` prints it), or restore the file.")
	NoDigest = code("004", "Digest missing",
		"The source is remote, and the configuration does not name the module's sha256.",
		"Name the digest: a tag or address alone may change its content at any time.")
	Signature = code("005", "Signature refused",
		"The signature is missing where one is required, does not fit the module, or is not valid yet.",
		"Sign the module again with `chancery module sign`.")
	UnknownKey = code("006", "Signing key not trusted",
		"The signature was made by a key that the trust root does not hold.",
		"Add the public key to the trust root, or sign with a key that is in it.")
	Size = code("007", "Module too large",
		"The module, or the archive it is in, is larger than the limit, before or after decompression.",
		"Make it smaller (for Go guests -ldflags \"-s -w\"), or raise the limit.")
	Archive = code("008", "Archive can't be read",
		"The OCI layout, tar or gzip stream is malformed or holds no module.",
		"Build the archive again: one layer of type application/wasm, or a tar with plugin.wasm at its root.")
	Downgrade = code("009", "Version lower than one that was promoted",
		"A module of this name with a higher version has been live.",
		"Raise the version in the manifest, or force the downgrade.")
	Spec = code("010", "Translator configuration is invalid",
		"A field of the configuration is missing, unknown or contradictory.",
		"Correct the field that is named.")
)

// Judging a module by its bytes.
var (
	Malformed = code("020", "Malformed module",
		"The file breaks WebAssembly's binary format.",
		"Build it again; the file may be truncated or no module at all.")
	Unsupported = code("021", "Module uses a feature that can't be metered",
		"The module is a component, uses instructions (threads, tail calls, exceptions, garbage collection) that Chancery can't count, or has "+
			"a function too large to be compiled in time.",
		"Build a core module for WebAssembly 2.0, without extensions; one with a large function runs with \"interpreter\": true, slowly.")
	Reserved = code("022", "Module uses a reserved name",
		"An import or export of the module has a name that belongs to Chancery's metering.",
		"Rename it.")
	NoManifest = code("023", "Manifest missing",
		"The module has no custom section chancery.manifest, or more than one.",
		"Put the manifest in with `chancery module pack` or wasm/sdk/pack.")
	Manifest = code("024", "Manifest is invalid",
		"The manifest is no JSON of the documented form.",
		"Correct the field that is named; wasm/ABI.md describes all.")
	ABI = code("025", "ABI version not supported",
		"The module speaks a version of the ABI that this host does not.",
		"Build it against an SDK of a version that this host takes.")
	Feature = code("026", "Module needs a feature that the host lacks",
		"The manifest lists a feature that this host does not know.",
		"Use a newer Chancery, or build the module without it.")
	Import = code("027", "Import not allowed",
		"The module imports something that the sandbox does not offer, or with another signature.",
		"Files, network and processes are not there for modules; remove what needs them.")
	Export = code("028", "Export missing or wrong",
		"The module lacks a function of the ABI, or has it with another signature.",
		"Export the functions of wasm/ABI.md with their signatures.")
	MemorySize = code("029", "Module needs more memory than granted",
		"The module's memory starts larger than the limit.",
		"Raise the limit of pages in the grant, or make the module's memory smaller.")
	Grant = code("030", "Module asks for more than it was granted",
		"The manifest names phases, kinds or fields that the operator's grant does not hold.",
		"Extend the grant, or use a module that asks for less.")
	Settings = code("031", "Settings are invalid",
		"The settings do not fit the schema in the module's manifest, or the module refused them.",
		"Correct the field that is named.")
	Compile = code("032", "Module can't be compiled",
		"The module is not valid WebAssembly, or compiling it failed.",
		"Build it again; validate it with wasm-validate.")
	CompileTime = code("033", "Compiling took too long",
		"The module was not compiled within its time.",
		"Make it smaller, or raise the limit.")
)

// Running a module.
var (
	Trap = code("040", "Module trapped",
		"The module ran into unreachable code, a bad memory access, a division by zero or the like; for Go guests a panic.",
		"See the module's output in the status, and correct the module.")
	Fuel = code("041", "Module used up its fuel",
		"A call did more work than the module's budget allows.",
		"Correct the module if it loops, else raise limits.fuel.")
	Deadline = code("042", "Module ran out of time",
		"A call did not end within its time.",
		"Correct the module if it loops, else raise limits.milliseconds.")
	Stack = code("043", "Module nests calls too deeply",
		"The module's calls need more stack than guests may use.",
		"Correct the recursion.")
	Canceled = code("044", "Call canceled",
		"The caller gave up, for example because the process ends.",
		"Nothing.")
	Memory = code("045", "Module ran out of memory",
		"The module trapped while its memory was at its limit.",
		"Raise limits.pages, or make the module use less.")
	Exit = code("046", "Module exited",
		"The module called exit, which ends an instance.",
		"Return from the exported function instead.")
	Range = code("047", "Result outside of memory",
		"The module returned a pointer and length that do not lie in its memory.",
		"Return the address in the upper and the length in the lower 32 bits.")
	OutputSize = code("048", "Output too large",
		"The module returned more bytes than its limit.",
		"Return operations, not whole documents; or raise limits.outputBytes.")
	Output = code("049", "Output is invalid",
		"The module returned something that is no response of the documented form.",
		"See wasm/ABI.md for the response.")
	Guest = code("050", "Module reported an error",
		"The module itself said that it can't do this.",
		"See its message.")
	Host = code("051", "Host function failed",
		"A fault in Chancery itself, found while a module ran.",
		"Report it with the message.")
	InputSize = code("052", "Input too large",
		"The unit is larger than the module's limit of input.",
		"Raise limits.inputBytes.")
	Alloc = code("053", "Module can't take its input",
		"The module's alloc returned no usable address.",
		"Correct the module's alloc.")
)

// Judging what a module returned.
var (
	Operation = code("060", "Operation can't be applied",
		"The target does not exist (or does, for add), the patch does not fit, or a part is missing.",
		"Correct the module.")
	Scope = code("061", "Operation outside of the write scope",
		"The module wrote a kind, name, namespace or field that manifest and grant together do not allow.",
		"Extend manifest and grant, or correct the module.")
	Conflict = code("062", "Two modules write one field",
		"Two modules of equal priority wrote the same field of the same node.",
		"Give one of them the greater priority; it then wins.")
	Result = code("063", "Result is invalid",
		"What came out after the module's operations did not pass validation.",
		"Correct the module; the message names the field.")
)

// The life of a module.
var (
	SelfTest = code("070", "Self-test failed",
		"The module's own self_test reported an error.",
		"See its message.")
	Nondeterministic = code("071", "Module is not deterministic",
		"The module gave two different answers to the same input.",
		"Don't let order of maps, addresses or kept state reach the output.")
	Diff = code("072", "Change too large",
		"On recorded inputs the candidate's results differ from the live module's in more units than allowed.",
		"Raise shadow.maxChanged if the change is meant, or force the promotion.")
	Regression = code("073", "Rolled back after a regression",
		"After its promotion the module failed, or used more time or fuel than its predecessor by more than the limit.",
		"Correct the module; a new digest is tried afresh.")
	Open = code("074", "Module suspended after failures",
		"The module failed too often; calls are stopped for a while, then one is tried.",
		"Correct the module, or reset it.")
	NoPrevious = code("075", "Nothing to roll back to",
		"No earlier version of the module is kept.",
		"Promote the wanted version again.")
	Cache = code("076", "Cache of compiled code can't be used",
		"The folder is not private to this user (mode 0700), or can't be written. What is in it is executed.",
		"Give the folder the mode 0700 and this user as its owner, or name another.")
	Unknown = code("077", "No such module",
		"No translator of this name is configured.",
		"See `chancery module list`.")
)
