package envoy

import (
	"net/netip"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	configv3 "github.com/envoyproxy/go-control-plane/envoy/config/rbac/v3"
	rbacv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/rbac/v3"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/chancery-gateway/chancery/translators/ir"
)

// Names of the policies, as Emissary has them.
const (
	allowPolicy = "ambassador-ip-allow"
	denyPolicy  = "ambassador-ip-deny"
)

// addressRules builds the filter that refuses clients by their address.
func addressRules(c *ir.AddressRules, f *faults) *rbacv3.RBAC {
	rules := &configv3.RBAC{Action: configv3.RBAC_ALLOW}
	switch {
	case c.Closed != "": // No policy allows anything.
	case len(c.Allow) == 0 && len(c.Deny) == 0:
		f.add(codeValue, "rules", "there is no address range")
	case len(c.Allow) == 0:
		rules.Action = configv3.RBAC_DENY
		rules.Policies = policy(denyPolicy, principals(c.Deny, f))
	case len(c.Deny) == 0:
		rules.Policies = policy(allowPolicy, principals(c.Allow, f))
	default:
		rules.Policies = policy(allowPolicy, []*configv3.Principal{{Identifier: &configv3.Principal_AndIds{AndIds: &configv3.Principal_Set{Ids: []*configv3.Principal{
			anyOf(principals(c.Allow, f)),
			{Identifier: &configv3.Principal_NotId{NotId: anyOf(principals(c.Deny, f))}},
		}}}}})
	}
	return &rbacv3.RBAC{Rules: rules}
}

func policy(name string, who []*configv3.Principal) map[string]*configv3.Policy {
	return map[string]*configv3.Policy{name: {
		Permissions: []*configv3.Permission{{Rule: &configv3.Permission_Any{Any: true}}}, Principals: who,
	}}
}

func anyOf(who []*configv3.Principal) *configv3.Principal {
	return &configv3.Principal{Identifier: &configv3.Principal_OrIds{OrIds: &configv3.Principal_Set{Ids: who}}}
}

func principals(list []ir.AddressRange, f *faults) []*configv3.Principal {
	out := make([]*configv3.Principal, 0, len(list))
	for _, r := range list {
		a, err := netip.ParseAddr(r.Prefix)
		if err != nil || int(r.Bits) > a.BitLen() {
			f.add(codeValue, "rules.policies.principals", "%s/%d is no range of addresses", r.Prefix, r.Bits)
			continue
		}
		cidr := &corev3.CidrRange{AddressPrefix: r.Prefix, PrefixLen: wrapperspb.UInt32(r.Bits)}
		if r.Peer {
			out = append(out, &configv3.Principal{Identifier: &configv3.Principal_DirectRemoteIp{DirectRemoteIp: cidr}})
		} else {
			out = append(out, &configv3.Principal{Identifier: &configv3.Principal_RemoteIp{RemoteIp: cidr}})
		}
	}
	return out
}
