// Package knative is the front end for Knative's Ingresses (networking.internal.knative.dev/v1alpha1): each split of each path
// on each host is lowered as the Mapping that Emissary-ingress would make of it.
package knative

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/chancery-gateway/chancery/snapshot"
	api "github.com/chancery-gateway/chancery/snapshot/api/v3alpha1"
	"github.com/chancery-gateway/chancery/translators/emissary"
	"github.com/chancery-gateway/chancery/translators/ir"
)

var (
	codeValue = snapshot.NewCode("CH-KNATIVE-001", "a value of a Knative Ingress is wrong",
		"A share, a port, a time span or a name in the Ingress is none. Knative writes these objects itself.",
		"See what the message names; Knative and Chancery may be of versions that do not fit together.")
	codeIgnored = snapshot.NewCode("CH-KNATIVE-002", "a part of a Knative Ingress has no effect",
		"Certificates and redirects of Knative's Ingresses are not served, as in Emissary-ingress.",
		"Write a Host with a certificate for the names.")
)

// Class is the value of the class annotation for Ingresses that are ours; those without a class are too.
const Class = "ambassador.ingress.networking.knative.dev"

// Ours reports whether an Ingress is for the installation with this ambassador_id.
func Ours(o *snapshot.Object, id string) bool {
	class, has := o.Annotations["networking.knative.dev/ingress.class"]
	if has && !strings.EqualFold(class, Class) {
		return false
	}
	own, has := o.Annotations["getambassador.io/ambassador-id"]
	return has && own == id || !has && id == "default"
}

// FrontEnd implements translators.FrontEnd.
type FrontEnd struct {
	mappings *emissary.FrontEnd
	id       string
}

// New returns the front end of the installation with this ambassador_id, whose Mappings are lowered by the other front end.
func New(mappings *emissary.FrontEnd, id string) *FrontEnd { return &FrontEnd{mappings, id} }

// Name returns "knative".
func (*FrontEnd) Name() string { return "knative" }

// Kinds returns the one kind.
func (*FrontEnd) Kinds() []snapshot.GroupKind {
	return []snapshot.GroupKind{snapshot.KindKnativeIngress}
}

// Ambient returns nothing.
func (*FrontEnd) Ambient(*snapshot.View) *ir.Fragments { return nil }

// ingress is what is read of an Ingress. Source: knative.dev/networking, pkg/apis/networking/v1alpha1.
type ingress struct {
	HTTPOption string            `json:"httpOption"`
	TLS        []json.RawMessage `json:"tls"`
	Rules      []struct {
		Hosts []string `json:"hosts"`
		HTTP  *struct {
			Paths []path `json:"paths"`
		} `json:"http"`
	} `json:"rules"`
}

type path struct {
	Path          string                            `json:"path"`
	Headers       map[string]struct{ Exact string } `json:"headers"`
	RewriteHost   string                            `json:"rewriteHost"`
	AppendHeaders map[string]string                 `json:"appendHeaders"`
	Timeout       string                            `json:"timeout"`
	Splits        []split                           `json:"splits"`
}

type split struct {
	ServiceName      string            `json:"serviceName"`
	ServiceNamespace string            `json:"serviceNamespace"`
	ServicePort      json.RawMessage   `json:"servicePort"`
	Percent          *int64            `json:"percent"`
	AppendHeaders    map[string]string `json:"appendHeaders"`
}

// defaultTimeout is Emissary's, for paths without one.
const defaultTimeout = 15 * time.Second

// Lower turns an Ingress into routes, or returns nil for one that is not ours.
func (f *FrontEnd) Lower(o *snapshot.Object, v *snapshot.View) *ir.Fragments {
	if !Ours(o, f.id) {
		return nil
	}
	out := &ir.Fragments{}
	report := func(s snapshot.Severity, c *snapshot.Code, path, text string) {
		out.Diagnostics = append(out.Diagnostics, o.About(s, c, path, text, c.Cure))
	}
	var doc struct {
		Spec ingress `json:"spec"`
	}
	if err := json.Unmarshal(o.Raw, &doc); err != nil {
		report(snapshot.Error, codeValue, "spec", strings.TrimPrefix(err.Error(), "json: "))
		return out
	}
	if len(doc.Spec.TLS) > 0 {
		report(snapshot.Warning, codeIgnored, "spec.tls", "certificates of Knative's Ingresses are not served; a Host's are")
	}
	if doc.Spec.HTTPOption == "Redirected" {
		report(snapshot.Warning, codeIgnored, "spec.httpOption", "requests without TLS are treated as their Host says")
	}
	for i, rule := range doc.Spec.Rules {
		if rule.HTTP == nil {
			continue
		}
		for j := range rule.HTTP.Paths {
			p := &rule.HTTP.Paths[j]
			at := fmt.Sprintf("spec.rules[%d].http.paths[%d]", i, j)
			for k := range p.Splits {
				spec, where, err := mapping(o, v, p, &p.Splits[k])
				if err != nil {
					report(snapshot.Error, codeValue, fmt.Sprintf("%s%s", at, strings.ReplaceAll(where, "*", strconv.Itoa(k))), err.Error())
					continue
				}
				for h, host := range rule.Hosts {
					spec := *spec
					spec.Hostname = host
					one := f.mappings.LowerMapping(o, &emissary.Derived{
						Name: fmt.Sprintf("%d-%d-%d-%d", i, j, k, h), Spec: &spec, At: fmt.Sprintf("%s.splits[%d]", at, k),
					}, v)
					out.Join(one)
				}
			}
		}
	}
	return out
}

// mapping returns the Mapping of one split, without its host; where is the field that an error is about.
func mapping(o *snapshot.Object, v *snapshot.View, p *path, s *split) (spec *api.MappingSpec, where string, err error) {
	timeout := defaultTimeout
	if p.Timeout != "" {
		if timeout, err = time.ParseDuration(p.Timeout); err != nil || timeout < 0 {
			return nil, ".timeout", fmt.Errorf("%q is no time span such as 15s", p.Timeout)
		}
	}
	if s.ServiceName == "" {
		return nil, ".splits[*].serviceName", fmt.Errorf("the name of the service is missing")
	}
	if s.Percent != nil && (*s.Percent < 0 || *s.Percent > 100) {
		return nil, ".splits[*].percent", fmt.Errorf("%d is no share; right is 0 to 100", *s.Percent)
	}
	namespace := s.ServiceNamespace
	if namespace == "" {
		namespace = o.Namespace
	}
	port, err := servicePort(v, namespace, s.ServiceName, s.ServicePort)
	if err != nil {
		return nil, ".splits[*].servicePort", err
	}
	millis, asIs := api.Milliseconds(timeout.Milliseconds()), ""
	spec = &api.MappingSpec{
		Prefix: p.Path, Service: fmt.Sprintf("%s.%s:%d", s.ServiceName, namespace, port), Timeout: &millis, Weight: s.Percent,
		Rewrite: &asIs, HostRewrite: p.RewriteHost,
	}
	if spec.Prefix == "" {
		spec.Prefix = "/"
	}
	if len(p.Headers) > 0 {
		spec.Headers = map[string]string{}
		for name, match := range p.Headers {
			spec.Headers[name] = match.Exact
		}
	}
	headers := maps.Clone(p.AppendHeaders)
	if headers == nil {
		headers = map[string]string{}
	}
	maps.Copy(headers, s.AppendHeaders)
	if len(headers) > 0 {
		spec.AddRequestHeaders = map[string]api.AddedHeader{}
		for name, value := range headers {
			spec.AddRequestHeaders[name] = api.AddedHeader{Value: value}
		}
	}
	return spec, "", nil
}

// servicePort reads a number or the name of one of the Service's ports; absent means 80.
func servicePort(v *snapshot.View, namespace, name string, text json.RawMessage) (int32, error) {
	if len(text) == 0 || string(text) == "null" {
		return 80, nil
	}
	var number int32
	if json.Unmarshal(text, &number) == nil {
		if number < 1 || number > 65535 {
			return 0, fmt.Errorf("%d is no port", number)
		}
		return number, nil
	}
	var named string
	if err := json.Unmarshal(text, &named); err != nil {
		return 0, fmt.Errorf("%s is no port", text)
	}
	if n, err := strconv.ParseUint(named, 10, 16); err == nil && n > 0 {
		return int32(n), nil
	}
	if o := v.Get(snapshot.KindService, namespace, name); o != nil {
		if s, ok := o.Spec.(*snapshot.Service); ok {
			if i := slices.IndexFunc(s.Ports, func(p snapshot.ServicePort) bool { return p.Name == named }); i >= 0 {
				return s.Ports[i].Port, nil
			}
		}
	}
	return 0, fmt.Errorf("no port of Service %s/%s is named %q", namespace, name, named)
}
