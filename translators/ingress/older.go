package ingress

import (
	networking "k8s.io/api/networking/v1"
	"k8s.io/api/networking/v1beta1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// of returns the spec of the version before v1 as v1: no API server serves it any more, but the snapshots that Emissary-ingress
// writes hold Ingresses in it.
func of(old *v1beta1.IngressSpec) *networking.IngressSpec {
	out := &networking.IngressSpec{IngressClassName: old.IngressClassName, DefaultBackend: backendOf(old.Backend)}
	for _, t := range old.TLS {
		out.TLS = append(out.TLS, networking.IngressTLS{Hosts: t.Hosts, SecretName: t.SecretName})
	}
	for _, r := range old.Rules {
		rule := networking.IngressRule{Host: r.Host}
		if r.HTTP != nil {
			rule.HTTP = &networking.HTTPIngressRuleValue{}
			for i := range r.HTTP.Paths {
				p := &r.HTTP.Paths[i]
				kind := networking.PathTypeImplementationSpecific // where none is said
				if p.PathType != nil {
					kind = networking.PathType(*p.PathType)
				}
				rule.HTTP.Paths = append(rule.HTTP.Paths, networking.HTTPIngressPath{Path: p.Path, PathType: &kind, Backend: *backendOf(&p.Backend)})
			}
		}
		out.Rules = append(out.Rules, rule)
	}
	return out
}

func backendOf(old *v1beta1.IngressBackend) *networking.IngressBackend {
	if old == nil {
		return nil
	}
	out := &networking.IngressBackend{Resource: old.Resource}
	if old.ServiceName == "" && old.ServicePort == (intstr.IntOrString{}) {
		return out
	}
	out.Service = &networking.IngressServiceBackend{Name: old.ServiceName}
	if old.ServicePort.Type == intstr.String {
		out.Service.Port.Name = old.ServicePort.StrVal
	} else {
		out.Service.Port.Number = old.ServicePort.IntVal
	}
	return out
}
