package api

import (
	"encoding/base64"
	"slices"
	"strconv"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/chancery-gateway/chancery/snapshot"
	"github.com/chancery-gateway/chancery/snapshot/api/internal/fieldpath"
)

// Kubernetes' own kinds have many fields that Chancery does not read; their unknown names are no fault.

// serviceSpec is what is read of a Service. Source: Kubernetes API reference, Service v1.
type serviceSpec struct {
	Type         string        `json:"type"`
	ClusterIP    string        `json:"clusterIP"`
	ExternalName string        `json:"externalName"`
	Ports        []servicePort `json:"ports"`
}

type servicePort struct {
	Name       string      `json:"name"`
	Protocol   string      `json:"protocol"`
	Port       int32       `json:"port"`
	TargetPort intOrString `json:"targetPort"`
	// AppProtocol says what is spoken, such as "kubernetes.io/h2c".
	AppProtocol string `json:"appProtocol"`
}

// intOrString is a number or a text, kept as text; "" when absent.
type intOrString string

// UnmarshalJSONFrom implements json.UnmarshalerFrom.
func (s *intOrString) UnmarshalJSONFrom(d *jsontext.Decoder) error {
	token, err := d.ReadToken()
	if err != nil {
		return err
	}
	switch token.Kind() {
	case '"':
		*s = intOrString(token.String())
		return nil
	case '0':
		n, err := strconv.ParseInt(token.String(), 10, 32)
		*s = intOrString(strconv.FormatInt(n, 10))
		return err
	case 'n':
		*s = ""
		return nil
	}
	return &json.SemanticError{JSONKind: token.Kind()}
}

// Example implements exemplary.
func (s intOrString) Example() string { return "an integer or a string" }

func decodeService(r *reader) any {
	var spec serviceSpec
	r.readMember("spec", &spec)
	s := &snapshot.Service{Type: spec.Type, ClusterIP: spec.ClusterIP, ExternalName: spec.ExternalName}
	if len(spec.Ports) > 0 {
		s.Ports = make([]snapshot.ServicePort, len(spec.Ports))
	}
	for i, p := range spec.Ports {
		s.Ports[i] = snapshot.ServicePort{Name: p.Name, Protocol: p.Protocol, Port: p.Port, TargetPort: string(p.TargetPort), AppProtocol: p.AppProtocol}
	}
	return s
}

// readMember decodes one member of the document; an absent or null one leaves the value as it is.
func (r *reader) readMember(name string, into any) {
	v := r.body.Get(name)
	if v == nil || v.Kind() == 'n' {
		return
	}
	if known, ok := into.(readable); ok && known.read(v) {
		return
	}
	r.decode(v, name, into)
}

// decodeSecret reads the values of data and, over them, those of stringData. Source: Kubernetes API reference, Secret v1.
func decodeSecret(r *reader) any {
	var data, text map[string]string
	s := &snapshot.Secret{}
	r.readMember("type", &s.Type)
	r.readMember("data", &data)
	r.readMember("stringData", &text)
	s.Data = make(map[string][]byte, len(data)+len(text))
	for _, key := range sortedKeys(data) {
		value, err := base64.StdEncoding.DecodeString(data[key])
		if err != nil {
			r.fail(codeData, fieldpath.Member("data", key), "the value is not base64", "encode it, or write it as it is under stringData")
		}
		s.Data[key] = value
	}
	for key, value := range text {
		s.Data[key] = []byte(value)
	}
	return s
}

func decodeConfigMap(r *reader) any {
	c := &snapshot.ConfigMap{}
	r.readMember("data", &c.Data)
	return c
}

// endpointPort is a port of an EndpointSlice or of Endpoints.
type endpointPort struct {
	Name     string `json:"name"`
	Protocol string `json:"protocol"`
	Port     int32  `json:"port"`
}

type endpointPorts []endpointPort

// sliceEndpoint is an endpoint of an EndpointSlice.
type sliceEndpoint struct {
	Addresses  []string `json:"addresses"`
	Conditions struct {
		Ready       *bool `json:"ready"`
		Serving     *bool `json:"serving"`
		Terminating *bool `json:"terminating"`
	} `json:"conditions"`
	Zone string `json:"zone"`
}

type sliceEndpoints []sliceEndpoint

// decodeEndpointSlice reads a slice. Absent conditions count as the API says: ready and, with it, serving; not
// terminating. Source: Kubernetes API reference, EndpointSlice discovery.k8s.io/v1.
func decodeEndpointSlice(r *reader) any {
	var ports endpointPorts
	var endpoints sliceEndpoints
	s := &snapshot.EndpointSlice{Service: r.object.Labels["kubernetes.io/service-name"]}
	r.readMember("addressType", &s.AddressType)
	r.readMember("ports", &ports)
	r.readMember("endpoints", &endpoints)
	s.Ports = slicePorts(ports)
	if len(endpoints) > 0 {
		s.Endpoints = make([]snapshot.Endpoint, len(endpoints))
	}
	for i, e := range endpoints {
		ready := e.Conditions.Ready == nil || *e.Conditions.Ready
		s.Endpoints[i] = snapshot.Endpoint{
			Addresses:   e.Addresses,
			Ready:       ready,
			Serving:     ready,
			Terminating: e.Conditions.Terminating != nil && *e.Conditions.Terminating,
			Zone:        e.Zone,
		}
		if e.Conditions.Serving != nil {
			s.Endpoints[i].Serving = *e.Conditions.Serving
		}
	}
	return s
}

func slicePorts(ports []endpointPort) []snapshot.EndpointPort {
	if len(ports) == 0 {
		return nil
	}
	out := make([]snapshot.EndpointPort, len(ports))
	for i, p := range ports {
		out[i] = snapshot.EndpointPort(p)
	}
	return out
}

// decodeEndpoints reads the older form of endpoints. Subsets with the same ports become one slice; the slices of other
// ports become further objects, which are completed when the first is sealed. Source: Kubernetes API reference, Endpoints v1.
func decodeEndpoints(r *reader) any {
	type address struct {
		IP string `json:"ip"`
	}
	var subsets []struct {
		Addresses         []address      `json:"addresses"`
		NotReadyAddresses []address      `json:"notReadyAddresses"`
		Ports             []endpointPort `json:"ports"`
	}
	r.readMember("subsets", &subsets)
	var all []*snapshot.EndpointSlice
	for _, subset := range subsets {
		ports := slicePorts(subset.Ports)
		at := slices.IndexFunc(all, func(s *snapshot.EndpointSlice) bool { return slices.Equal(s.Ports, ports) })
		if at < 0 {
			at, all = len(all), append(all, &snapshot.EndpointSlice{Service: r.object.Name, Ports: ports})
		}
		for _, a := range subset.Addresses {
			all[at].Endpoints = append(all[at].Endpoints, snapshot.Endpoint{Addresses: []string{a.IP}, Ready: true, Serving: true})
		}
		for _, a := range subset.NotReadyAddresses {
			all[at].Endpoints = append(all[at].Endpoints, snapshot.Endpoint{Addresses: []string{a.IP}})
		}
	}
	if len(all) == 0 {
		return &snapshot.EndpointSlice{Service: r.object.Name}
	}
	for i, s := range all[1:] {
		further := *r.object
		further.Name += "/" + strconv.Itoa(i+1)
		further.Spec = s
		r.others = append(r.others, &further)
	}
	return all[0]
}
