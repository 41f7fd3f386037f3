package settings

import (
	"os"
	"slices"
	"strings"
)

// withoutEffect are Emissary's variables that have no effect here, with the reason (Emissary docs: "Environment variables").
var withoutEffect = map[string]string{
	"AMBASSADOR_APIEXT_DEPLOYMENT_NAME":      "kinds whose conversion does not work yet are waited for anyway",
	"AMBASSADOR_APIEXT_DEPLOYMENT_NAMESPACE": "kinds whose conversion does not work yet are waited for anyway",
	"AMBASSADOR_DIAGD_BANNER_ENDPOINT":       "the diagnostics page fetches nothing to show as a banner",
	"AMBASSADOR_DISABLE_ENDPOINTS":           "endpoints always travel by EDS; name the resolver kubernetes-service for DNS",
	"AMBASSADOR_FORCE_SECRET_VALIDATION":     "Secrets are always checked",
	"AMBASSADOR_READY_LOG":                   "the ready listener has no access log",
	"DIAGD_ONLY":                             "there is no second process; use `chancery serve --envoy none`",
	"AMBASSADOR_AMBEX_NO_RATELIMIT":          "there is no memory-based rate limit to switch off",
	"AMBASSADOR_AMBEX_SNAPSHOT_COUNT":        "no snapshots are dumped",
	"AMBASSADOR_SNAPSHOT_COUNT":              "no snapshots are dumped",
	"AMBASSADOR_EDS_BYPASS":                  "endpoints always travel by EDS",
	"AMBASSADOR_DIAGD_BIND_PORT":             "diagnostics are served on health-port",
	"AMBASSADOR_DIAGD_BIND_ADDREASS":         "diagnostics are served on health-address",
	"AMBASSADOR_FORCE_ENDPOINTS":             "it has no effect in Emissary either",
	"AMBASSADOR_AES_SECRET_NAME":             "it has no effect in Emissary either",
	"AMBASSADOR_AES_SECRET_NAMESPACE":        "it has no effect in Emissary either",
	"AMBASSADOR_DEBUG_CLUSTER_CONFIG":        "every refused resource is reported",
	"AMBASSADOR_APIEXT_WAIT":                 "kinds whose conversion does not work yet are waited for anyway",
	"AMBASSADOR_APIEXT_WAIT_TIMEOUT":         "kinds whose conversion does not work yet are waited for anyway",
	"AMBASSADOR_LOG_RESOURCES":               "use `chancery explain`",
}

// Unused returns a line for each AMBASSADOR_* or CHANCERY_* variable that is set and has no effect, sorted.
func Unused() []string {
	read := map[string]bool{"CHANCERY_CONFIG": true}
	for _, d := range definitions {
		read[d.Variable()] = true
		for _, e := range d.Environment {
			read[e.Name] = true
		}
	}
	var out []string
	for _, pair := range os.Environ() {
		name, value, _ := strings.Cut(pair, "=")
		if value == "" || read[name] {
			continue
		}
		if key, ours := strings.CutPrefix(name, "CHANCERY_"); ours {
			out = append(out, name+" has no effect: it is no setting; "+suggest(strings.ToLower(key)))
			continue
		}
		reason := withoutEffect[name]
		if reason == "" && !strings.HasPrefix(name, "AMBASSADOR_") {
			continue
		}
		if reason == "" {
			reason = "this release does not read it"
		}
		out = append(out, name+" has no effect: "+reason)
	}
	slices.Sort(out)
	return out
}
