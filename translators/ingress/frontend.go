// Package ingress is the front end for Kubernetes' Ingresses (networking.k8s.io/v1): each path of each rule is lowered as the
// Mapping, and each host of tls as the Host, that Emissary-ingress would make of it. What the Ingress API says otherwise holds:
// prefixes are compared element by element, "*." stands for one label, and the rules of all Ingresses of a host stand together.
package ingress

import (
	"fmt"
	"slices"
	"strings"

	networking "k8s.io/api/networking/v1"
	"k8s.io/api/networking/v1beta1"
	"sigs.k8s.io/json"

	"github.com/chancery-gateway/chancery/snapshot"
	api "github.com/chancery-gateway/chancery/snapshot/api/v3alpha1"
	"github.com/chancery-gateway/chancery/translators/emissary"
	"github.com/chancery-gateway/chancery/translators/ir"
)

// FrontEnd implements translators.FrontEnd.
type FrontEnd struct {
	emissary *emissary.FrontEnd
	options  emissary.Options
}

// New returns the front end of the installation whose Mappings and Hosts are lowered by the other front end.
func New(f *emissary.FrontEnd) *FrontEnd { return &FrontEnd{f, f.Options()} }

// Name returns "ingress".
func (*FrontEnd) Name() string { return "ingress" }

// Kinds returns the one kind.
func (*FrontEnd) Kinds() []snapshot.GroupKind { return []snapshot.GroupKind{Kind} }

// Ambient returns nothing.
func (*FrontEnd) Ambient(*snapshot.View) *ir.Fragments { return nil }

// Lower turns an Ingress into routes and hosts, or returns nil for one that is not ours.
func (f *FrontEnd) Lower(o *snapshot.Object, v *snapshot.View) *ir.Fragments {
	if !f.isOurs(o, v) {
		return f.unknownClass(o, v)
	}
	l := &lowering{f: f, o: o, v: v, out: &ir.Fragments{}}
	spec, read := l.read()
	if !read {
		return l.out
	}
	l.listening()
	l.tls(spec.TLS)
	l.rules(spec.Rules)
	l.fallback(spec.DefaultBackend)
	if len(spec.Rules) == 0 && spec.DefaultBackend == nil {
		l.warn(codeNoEffect, "spec", "the Ingress has neither rules nor a default backend", "write rules")
	}
	return l.out
}

// isOurs is Ours for this installation's namespaces.
func (f *FrontEnd) isOurs(o *snapshot.Object, v *snapshot.View) bool {
	if f.options.SingleNamespace && o.Namespace != f.options.Namespace {
		return false
	}
	return Ours(o, f.options.AmbassadorID, v)
}

// unknownClass returns what there is to say about an Ingress whose class is not there, or that has none and never was in a cluster
// to be given one; nil about one of others. Where one namespace is read there are no classes to be seen.
func (f *FrontEnd) unknownClass(o *snapshot.Object, v *snapshot.View) *ir.Fragments {
	if f.options.SingleNamespace || !isFor(o, f.options.AmbassadorID) {
		return nil
	}
	name := className(o)
	message, help := fmt.Sprintf("there is no IngressClass %q, so the Ingress is not served", name), "create it, or correct the name"
	if name == "" {
		if _, annotated := o.Annotations[classAnnotation]; annotated || o.UID != "" || hasDefaultClass(v) {
			return nil
		}
		message = "no class is named, and no IngressClass is the default one, so the Ingress is not served"
		help = "name an IngressClass with controller chancery.dev/ingress-controller, or annotate one with " + defaultAnnotation + `: "true"`
	} else if v.Get(KindClass, "", name) != nil {
		return nil
	}
	return &ir.Fragments{Diagnostics: []snapshot.Diagnostic{o.About(snapshot.Warning, codeClass, "spec.ingressClassName", message, help)}}
}

// hasDefaultClass reports whether the API server would give a class to an Ingress that names none.
func hasDefaultClass(v *snapshot.View) bool {
	for c := range v.List(KindClass) {
		if c.Annotations[defaultAnnotation] == "true" {
			return true
		}
	}
	return false
}

// lowering is the work on one Ingress.
type lowering struct {
	f   *FrontEnd
	o   *snapshot.Object
	v   *snapshot.View
	out *ir.Fragments
	// secured are the names of the hosts that tls makes.
	secured []string
	// given finds the field that has a match already.
	given map[string]string
}

func (l *lowering) report(s snapshot.Severity, c *snapshot.Code, path, message, help string) {
	l.out.Diagnostics = append(l.out.Diagnostics, l.o.About(s, c, path, message, help))
}

func (l *lowering) fail(c *snapshot.Code, path, message, help string) {
	l.report(snapshot.Error, c, path, message, help)
}

func (l *lowering) warn(c *snapshot.Code, path, message, help string) {
	l.report(snapshot.Warning, c, path, message, help)
}

// read decodes the spec as the API server does: fields that are unknown or stand twice are told of, a wrong type is an error.
func (l *lowering) read() (*networking.IngressSpec, bool) {
	if _, version, _ := strings.Cut(l.o.APIVersion, "/"); version != "v1" && version != beta {
		l.fail(codeField, "apiVersion", fmt.Sprintf("Ingresses of version %s are not read", version), "write networking.k8s.io/v1")
		return nil, false
	}
	spec, odd, err := decode(l.o)
	if err != nil {
		at := "spec"
		if _, field, found := strings.Cut(err.Error(), "Go struct field "); found {
			if _, field, found = strings.Cut(field, "."); found {
				at, _, _ = strings.Cut(strings.ReplaceAll(field, "IngressRuleValue.", ""), " ")
			}
		}
		l.fail(codeField, at, strings.TrimPrefix(err.Error(), "json: "), "see the API reference of networking.k8s.io/v1")
		return nil, false
	}
	for _, err := range odd {
		text := err.Error()
		at := "spec"
		if i := strings.IndexByte(text, '"'); i >= 0 {
			at = strings.Trim(text[i:], `"`)
		}
		l.warn(codeField, at, text+"; it has no effect", "correct or remove it")
	}
	return spec, true
}

// beta is the version before v1, of networking.k8s.io and of the group extensions before that.
const beta = "v1beta1"

// decode reads the spec of an Ingress. odd are the fields that no Ingress has.
func decode(o *snapshot.Object) (spec *networking.IngressSpec, odd []error, err error) {
	if strings.HasSuffix(o.APIVersion, "/"+beta) {
		old := &v1beta1.IngressSpec{}
		odd, err = strictly(o, old)
		return of(old), odd, err
	}
	spec = &networking.IngressSpec{}
	odd, err = strictly(o, spec)
	return spec, odd, err
}

// strictly decodes the spec. The rest of the object is not read here.
func strictly(o *snapshot.Object, spec any) (odd []error, err error) {
	odd, err = json.UnmarshalStrict(o.Raw, &struct {
		Spec any `json:"spec"`
	}{spec})
	return slices.DeleteFunc(odd, func(e error) bool { return !strings.Contains(e.Error(), `"spec`) }), err
}

// listening warns where there is no Listener at all: without one nothing is served, as in Emissary.
func (l *lowering) listening() {
	for o := range l.v.List(api.KindListener) {
		if l.f.emissary.Owns(o) {
			return
		}
	}
	l.warn(codeNoListener, "", "there is no Listener, so the Ingress is served on no port", "create one, with securityModel XFP and hostBinding {namespace: {from: ALL}}")
}
