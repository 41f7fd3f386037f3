package merge

import "strings"

// fact is what is known of a field beside its value.
type fact struct {
	// strategy is that of a field of security, which decides who may speak with whom, unless a rule picks another.
	strategy Strategy
	// absent is what the field means to a claim that does not have it; nil for nothing.
	absent any
	// trueIsStrict says that true is stricter than false.
	trueIsStrict bool
	// unlimited says that 0 stands for no limit at all.
	unlimited bool
}

// facts are those of the fields that need them, by path.
var facts = map[string]fact{
	"spec.bypass_auth":                       {strategy: DenyOverrides, absent: false},
	"spec.auth_context_extensions":           {strategy: RequireEqual},
	"spec.cors":                              {strategy: RequireEqual},
	"spec.tls":                               {strategy: RequireEqual},
	"spec.tlsSecret":                         {strategy: RequireEqual},
	"spec.tlsContext":                        {strategy: RequireEqual},
	"spec.acmeProvider":                      {strategy: RequireEqual},
	"spec.requestPolicy":                     {strategy: DenyOverrides},
	"spec.requestPolicy.insecure.action":     {strategy: DenyOverrides, absent: "Redirect"},
	"spec.securityModel":                     {strategy: RequireEqual},
	"spec.protocol":                          {strategy: RequireEqual},
	"spec.protocolStack":                     {strategy: RequireEqual},
	"spec.auth_service":                      {strategy: RequireEqual},
	"spec.allowed_request_headers":           {strategy: RequireEqual},
	"spec.allowed_authorization_headers":     {strategy: RequireEqual},
	"spec.failure_mode_allow":                {strategy: DenyOverrides, absent: false},
	"spec.failure_mode_deny":                 {strategy: DenyOverrides, absent: false, trueIsStrict: true},
	"spec.ip_allow":                          {strategy: RequireEqual},
	"spec.ip_deny":                           {strategy: RequireEqual},
	"spec.config.ip_allow":                   {strategy: RequireEqual},
	"spec.config.ip_deny":                    {strategy: RequireEqual},
	"spec.config.cors":                       {strategy: RequireEqual},
	"spec.timeout_ms":                        {unlimited: true},
	"spec.idle_timeout_ms":                   {unlimited: true},
	"spec.cluster_idle_timeout_ms":           {unlimited: true},
	"spec.config.cluster_idle_timeout_ms":    {unlimited: true},
	"spec.config.listener_idle_timeout_ms":   {unlimited: true},
	"spec.config.cluster_request_timeout_ms": {unlimited: true},
}

// Secure reports whether the path is a security field or below one.
func Secure(path string) bool { return secure(path) != "" }

// secure returns the strategy of a field of security, "" for other fields.
func secure(path string) (s Strategy) {
	above(path, func(at string) bool {
		s = facts[at].strategy
		return s != ""
	})
	return s
}

// above calls each with the path and with those above it, the longest first, until it returns true.
func above(path string, each func(at string) bool) {
	for path != "" && !each(path) {
		path = path[:max(strings.LastIndexByte(path, '.'), 0)]
	}
}
