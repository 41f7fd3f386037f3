package supply

import "github.com/chancery-gateway/chancery/snapshot"

var (
	codeUnreadable = snapshot.NewCode("CH-POLICY-080", "rules that cannot be read",
		"A file, folder, archive or address given by --policies cannot be read, or is cut short.", "Correct the path or the archive; what was in force stays in force.")
	codeUnsigned = snapshot.NewCode("CH-POLICY-081", "bundle without a valid signature",
		"Signatures are demanded (--policy-key) and this bundle has none, one by another key, or content that is not what was signed.", "Sign it with `chancery policy sign`, with the right key.")
	codeDelta = snapshot.NewCode("CH-POLICY-082", "delta bundle",
		"Delta bundles (patch.json) carry no signature and are not taken.", "Serve whole bundles.")
	codeOlder = snapshot.NewCode("CH-POLICY-083", "bundle of a lower revision",
		"The bundle's revision is lower than one that was in force, in this run or an earlier one, or has no place in their order.", "Serve a newer revision, or roll back on purpose.")
	codeDecode = snapshot.NewCode("CH-POLICY-084", "manifest among the rules that cannot be read",
		"A YAML or JSON file beside the rules is no valid manifest.", "Correct the file.")
	codeChosen = snapshot.NewCode("CH-POLICY-085", "rules rolled back",
		"An operator put an earlier revision of the rules in force.", "Correct the rules: another revision of them ends it, as does `chancery policy rollback` to the newest one.")
	codeEmptied = snapshot.NewCode("CH-POLICY-086", "no rules where there were some",
		"A folder or bundle that held rules is empty now, as after a mount that failed. That is no order to let everything pass, so the rules stay in force.",
		"Bring the rules back. To take all of them away, put a file without documents into the folder, such as an empty none.yaml, or start without the path.")
)
