package envoy

import (
	"bufio"
	"encoding/json"
	"io"

	"github.com/chancery-gateway/chancery/translators/ir"
)

// mapped is what clustermap.json says of one cluster.
type mapped struct {
	Discovery   ir.Discovery  `json:"discovery"`
	Host        string        `json:"host,omitempty"`
	Port        uint32        `json:"port,omitempty"`
	More        []ir.Target   `json:"more,omitempty"`
	EndpointSet string        `json:"endpointSet,omitempty"`
	Endpoints   []ir.Endpoint `json:"endpoints,omitempty"`
	Service     string        `json:"service,omitempty"`
	Namespace   string        `json:"namespace,omitempty"`
	Origins     []ir.Origin   `json:"origins,omitempty"`
}

// WriteClusterMap writes clustermap.json: for each cluster of the set, by name, where its endpoints come from, which they are
// at present, and the source objects.
func WriteClusterMap(w io.Writer, p *ir.Program, set ir.ResourceSet) error {
	endpoints := make(map[string][]ir.Endpoint, len(p.EndpointSets))
	for _, s := range p.EndpointSets {
		endpoints[s.Name] = s.Endpoints
	}
	out := bufio.NewWriterSize(w, chunk)
	out.WriteByte('{')
	separator := "\n  "
	for _, c := range p.Clusters {
		if find(set[ir.TypeCluster], c.Name) == nil {
			continue
		}
		name, err := json.Marshal(c.Name)
		if err != nil {
			return err
		}
		m := mapped{
			Discovery: c.Discovery, Host: c.Host, Port: c.Port, More: c.More, EndpointSet: c.EndpointSet,
			Service: c.Service, Namespace: c.Namespace, Origins: c.Origins,
		}
		if c.Discovery == ir.DiscoveryEDS {
			m.Endpoints = endpoints[c.EndpointSet]
		}
		text, err := json.Marshal(m)
		if err != nil {
			return err
		}
		out.WriteString(separator)
		out.Write(name)
		out.WriteString(": ")
		out.Write(text)
		separator = ",\n  "
	}
	if separator != "\n  " {
		out.WriteByte('\n')
	}
	out.WriteString("}\n")
	return out.Flush()
}
