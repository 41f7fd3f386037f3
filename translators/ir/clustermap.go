package ir

import (
	"io"
	"slices"
	"strings"
)

// WriteClusterMap writes clustermap.json: for each cluster of the program that the set holds, by name, where its endpoints come
// from, which they are at present, and the source objects.
func WriteClusterMap(w io.Writer, p *Program, set ResourceSet) error {
	endpoints := make(map[string][]Endpoint, len(p.EndpointSets))
	for _, s := range p.EndpointSets {
		endpoints[s.Name] = s.Endpoints
	}
	b := &lines{w: w, object: newObject()}
	b.lit("{")
	separator := "\n  "
	for _, c := range p.Clusters {
		byName := func(r *Resource, name string) int { return strings.Compare(r.Name, name) }
		if _, served := slices.BinarySearchFunc(set[TypeCluster], c.Name, byName); !served {
			continue
		}
		b.lit(separator)
		separator = ",\n  "
		b.text(c.Name)
		b.lit(": ")
		b.mapped(c, endpoints[c.EndpointSet])
		if len(b.out) > chunk {
			b.flush()
		}
	}
	if separator != "\n  " {
		b.lit("\n")
	}
	b.lit("}\n")
	b.flush()
	return b.err
}

// mapped writes what the map says of one cluster.
func (o *object) mapped(c *Cluster, endpoints []Endpoint) {
	o.out = append(o.out, '{')
	o.upstream(c)
	if c.Discovery == DiscoveryEDS {
		listIf(o, `"endpoints":`, endpoints, (*object).endpoint)
	}
	o.stringIf(`"service":`, c.Service)
	o.stringIf(`"namespace":`, c.Namespace)
	listIf(o, `"origins":`, c.Origins, (*object).origin)
	o.out = append(o.out, '}')
}
