package gatewayapi

import (
	"fmt"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	gw "sigs.k8s.io/gateway-api/apis/v1"

	"github.com/chancery-gateway/chancery/snapshot"
	"github.com/chancery-gateway/chancery/snapshot/api"
	"github.com/chancery-gateway/chancery/translators/ir"
)

type labelSelector = metav1.LabelSelector

// attachment is one listener that a route is attached to, with the names that it serves there.
type attachment struct {
	gateway *snapshot.Object
	of      *snapshot.Object
	spec    *gw.Listener
	// names are hostnames of the route as far as the listener's allows.
	names []string
}

func (a *attachment) section() string { return sectionName(a.of, a.spec.Name) }

// parents finds the listeners that the route is attached to, each once, and begins the status of each parent of ours. hostnames
// are the route's; none means all that a listener has.
func (l *lowering) parents(refs []gw.ParentReference, hostnames []gw.Hostname) (all []*attachment, ours bool) {
	var parents []ir.ParentStatus
	names := proper(hostnames)
	for i := range refs {
		p, got := l.parent(fmt.Sprintf("spec.parentRefs[%d]", i), &refs[i], names)
		if p == nil {
			continue
		}
		parents = append(parents, *p)
		for _, a := range got {
			if !slices.ContainsFunc(all, func(o *attachment) bool { return o.section() == a.section() }) {
				all = append(all, a)
			}
		}
	}
	if len(parents) == 0 {
		return nil, false
	}
	for i, h := range hostnames {
		if err := checkRouteName(h); err != nil {
			l.invalid.object(string(gw.RouteReasonUnsupportedValue), err.Error())
			l.fail(codeValue, fmt.Sprintf("spec.hostnames[%d]", i), err.Error(), "an exact name or one such as \"*.example.com\"")
		}
	}
	l.status().Parents = parents
	return all, true
}

// proper returns the hostnames that are some, in lower case; nil for a route that names none, which has all of a listener's.
func proper(hostnames []gw.Hostname) []string {
	if len(hostnames) == 0 {
		return nil
	}
	out := []string{}
	for _, h := range hostnames {
		if checkRouteName(h) == nil {
			out = append(out, strings.ToLower(string(h)))
		}
	}
	return out
}

func checkRouteName(h gw.Hostname) error {
	if h == "*" {
		return fmt.Errorf("%q is no host name", h)
	}
	return checkWildcard(strings.ToLower(string(h)))
}

// parent is parents for one reference; nil for one that is none of ours.
func (l *lowering) parent(path string, ref *gw.ParentReference, hostnames []string) (*ir.ParentStatus, []*attachment) {
	p := &ir.ParentStatus{Parent: Parent(l.o, ref)}
	to := p.Parent.Ref()
	if to.GroupKind() != api.KindGateway && to.GroupKind() != api.KindListenerSet {
		return nil, nil
	}
	if l.f.options.SingleNamespace && to.Namespace != l.f.options.Namespace {
		return nil, nil
	}
	o := l.v.Get(to.GroupKind(), to.Namespace, to.Name)
	if o == nil {
		help := "create it, or correct the name"
		if ref.Namespace == nil && l.elsewhere(to) != "" {
			help = "did you mean the one in namespace " + l.elsewhere(to) + "? Then name that too"
		}
		l.warn(codeParent, path, "there is no "+to.String(), help)
		return nil, nil
	}
	gateway, listeners, refused := o, []gw.Listener(nil), ""
	if set, is := o.Spec.(*gw.ListenerSetSpec); is {
		parent := ParentGateway(o, set)
		if gateway = l.v.Get(parent.GroupKind(), parent.Namespace, parent.Name); gateway == nil {
			return nil, nil
		}
		for _, e := range set.Listeners {
			listeners = append(listeners, gw.Listener(e))
		}
	}
	spec, ok := gateway.Spec.(*gw.GatewaySpec)
	if !ok {
		return nil, nil
	}
	if p.Controller, _ = l.f.controller(spec.GatewayClassName, l.v); p.Controller == "" {
		return nil, nil
	}
	if gateway == o {
		listeners = spec.Listeners
	} else if !l.setAllowed(spec, gateway, o) {
		refused = gateway.Ref.String() + " does not allow the ListenerSet"
	}
	got, reason, why, help := l.listeners(o, gateway, listeners, &p.Parent, hostnames)
	if refused != "" {
		got, reason, why, help = nil, string(gw.RouteReasonNotAllowedByListeners), refused, "spec.allowedListeners of the Gateway"
	}
	if reason != "" {
		l.fail(codeParent, path, why, help)
		p.Conditions = []ir.Condition{no(string(gw.RouteConditionAccepted), reason, why)}
		return p, nil
	}
	for _, a := range got {
		p.Attached = append(p.Attached, string(a.spec.Name))
	}
	return p, got
}

func (l *lowering) setAllowed(spec *gw.GatewaySpec, gateway, set *snapshot.Object) bool {
	if spec.AllowedListeners == nil || spec.AllowedListeners.Namespaces == nil {
		return false
	}
	n := spec.AllowedListeners.Namespaces
	return namespaceAllowed(l.v, value(n.From, gw.NamespacesFromNone), n.Selector, gateway.Namespace, set.Namespace)
}

// elsewhere returns a namespace that has an object of this kind and name, "" where none has.
func (l *lowering) elsewhere(to snapshot.Ref) string {
	for o := range l.v.List(to.GroupKind()) {
		if o.Name == to.Name {
			return o.Namespace
		}
	}
	return ""
}

// listeners picks those of a parent that take the route. reason is "" where some do.
func (l *lowering) listeners(of, gateway *snapshot.Object, all []gw.Listener, ref *ir.ParentRef, hostnames []string) (got []*attachment, reason, why, help string) {
	named, carries, allowed := 0, 0, 0
	var there, hosts []string
	for i := range all {
		s := &all[i]
		there = append(there, fmt.Sprintf("%s (port %d)", s.Name, s.Port))
		if ref.SectionName != "" && ref.SectionName != string(s.Name) || ref.Port != 0 && ref.Port != s.Port {
			continue
		}
		named++
		if !l.carries(s) {
			continue
		}
		carries++
		if !l.admits(s, of) {
			continue
		}
		allowed++
		hosts = append(hosts, fmt.Sprintf("%q", hostnameOf(s)))
		if names := intersect(hostnameOf(s), hostnames); len(names) > 0 {
			got = append(got, &attachment{gateway: gateway, of: of, spec: s, names: names})
		}
	}
	switch {
	case named == 0:
		return nil, string(gw.RouteReasonNoMatchingParent), fmt.Sprintf("%s has no listener%s", ref.Ref(), wanted(ref)), "it has " + strings.Join(there, ", ")
	case carries == 0:
		return nil, string(gw.RouteReasonNotAllowedByListeners), fmt.Sprintf("no listener of %s%s has routes of kind %s", ref.Ref(), wanted(ref), l.o.Kind),
			"the listener's protocol and allowedRoutes.kinds say which kinds it has"
	case allowed == 0:
		return nil, string(gw.RouteReasonNotAllowedByListeners), fmt.Sprintf("no listener of %s%s allows routes of namespace %s", ref.Ref(), wanted(ref), l.o.Namespace),
			fmt.Sprintf("without allowedRoutes: {namespaces: {from: All}}, or Selector, a listener has routes of its own namespace, %s, alone", of.Namespace)
	case len(got) == 0:
		return nil, string(gw.RouteReasonNoMatchingListenerHostname), fmt.Sprintf("no listener of %s%s has a hostname that the route has too", ref.Ref(), wanted(ref)),
			"spec.hostnames has to meet " + strings.Join(hosts, " or ")
	}
	return got, "", "", ""
}

func wanted(ref *ir.ParentRef) string {
	s := ""
	if ref.SectionName != "" {
		s += fmt.Sprintf(" named %q", ref.SectionName)
	}
	if ref.Port != 0 {
		s += fmt.Sprintf(" on port %d", ref.Port)
	}
	return s
}

// carries reports whether the listener has routes of the object's kind.
func (l *lowering) carries(s *gw.Listener) bool {
	kind := l.o.GroupKind()
	if !slices.Contains(carried[s.Protocol], kind) {
		return false
	}
	return s.AllowedRoutes == nil || len(s.AllowedRoutes.Kinds) == 0 || slices.ContainsFunc(s.AllowedRoutes.Kinds, func(k gw.RouteGroupKind) bool {
		return string(value(k.Group, gw.GroupName)) == kind.Group && string(k.Kind) == kind.Kind
	})
}

// admits reports whether the listener has routes of the object's namespace.
func (l *lowering) admits(s *gw.Listener, of *snapshot.Object) bool {
	from, selector := gw.NamespacesFromSame, (*labelSelector)(nil)
	if a := s.AllowedRoutes; a != nil && a.Namespaces != nil {
		from, selector = value(a.Namespaces.From, gw.NamespacesFromSame), a.Namespaces.Selector
	}
	return namespaceAllowed(l.v, from, selector, of.Namespace, l.o.Namespace)
}

// namespaceAllowed reports whether a rule about namespaces, written in namespace own, takes in the other.
func namespaceAllowed(v *snapshot.View, from gw.FromNamespaces, selector *labelSelector, own, other string) bool {
	switch from {
	case gw.NamespacesFromAll:
		return true
	case gw.NamespacesFromSame:
		return own == other
	case gw.NamespacesFromSelector:
		s, err := metav1.LabelSelectorAsSelector(selector)
		if err != nil {
			return false
		}
		set := labels.Set{"kubernetes.io/metadata.name": other} // which every namespace has
		if o := v.Get(snapshot.KindNamespace, "", other); o != nil {
			for k, v := range o.Labels {
				set[k] = v
			}
		}
		return s.Matches(set)
	}
	return false
}

// intersect returns the route's hostnames as far as they have a name in common with the listener's.
func intersect(listener string, hostnames []string) []string {
	if hostnames == nil {
		return []string{listener}
	}
	var out []string
	for _, h := range hostnames {
		if m := meet(h, listener); m != "" && !slices.Contains(out, m) {
			out = append(out, m)
		}
	}
	return out
}
