package consul

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net"
	"net/netip"
	"slices"
	"strconv"
	"time"

	consul "github.com/hashicorp/consul/api"

	"github.com/chancery-gateway/chancery/snapshot"
	"github.com/chancery-gateway/chancery/snapshot/api"
)

// endpoints turns an answer into EndpointSlices, one for each port. An instance's address is its own, else its node's; host
// names are resolved, all their addresses count, and names says that there were any.
func endpoints(ctx context.Context, k service, entries []*consul.ServiceEntry) (objects []*snapshot.Object, troubles []trouble, names bool) {
	ports := map[int]map[netip.Addr]bool{}
	for _, e := range entries {
		if e.Service == nil {
			continue
		}
		host := e.Service.Address
		if host == "" && e.Node != nil {
			host = e.Node.Address
		}
		addresses, isName, err := resolve(ctx, host)
		names = names || isName
		if err == nil && (e.Service.Port < 1 || e.Service.Port > 65535) {
			err = fmt.Errorf("%d is no port", e.Service.Port)
		}
		if err != nil {
			troubles = append(troubles, trouble{snapshot.Warning, codeHost, "",
				fmt.Sprintf("service %q: instance %q is left out: %v", k.name, e.Service.ID, err)})
			continue
		}
		at := ports[e.Service.Port]
		if at == nil {
			at = map[netip.Addr]bool{}
			ports[e.Service.Port] = at
		}
		for _, a := range addresses {
			at[a.Unmap()] = true
		}
	}
	slices.SortFunc(troubles, func(a, b trouble) int { return cmp.Compare(a.text, b.text) })
	for _, port := range slices.Sorted(maps.Keys(ports)) {
		if o := slice(k, port, slices.SortedFunc(maps.Keys(ports[port]), netip.Addr.Compare)); o != nil {
			objects = append(objects, o)
		}
	}
	return objects, troubles, names
}

// resolve returns the addresses of a host.
func resolve(ctx context.Context, host string) (addresses []netip.Addr, isName bool, err error) {
	if host == "" {
		return nil, false, errors.New("it has no address, and its node has none")
	}
	if a, err := netip.ParseAddr(host); err == nil {
		return []netip.Addr{a}, false, nil
	}
	bounded, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	if addresses, err = net.DefaultResolver.LookupNetIP(bounded, "ip", host); err != nil {
		return nil, true, fmt.Errorf("host name %q cannot be resolved", host)
	}
	return addresses, true, nil
}

// slice makes the EndpointSlice of one port, in the form in which a cluster would write it.
func slice(k service, port int, addresses []netip.Addr) *snapshot.Object {
	name := snapshot.ConsulSlices(k.resolver.Name, k.name)
	type endpoint struct {
		Addresses []string `json:"addresses"`
	}
	list := make([]endpoint, len(addresses))
	for i, a := range addresses {
		list[i].Addresses = []string{a.String()}
	}
	text, err := json.Marshal(map[string]any{
		"apiVersion": "discovery.k8s.io/v1", "kind": snapshot.KindEndpointSlice.Kind,
		"metadata": map[string]any{
			"namespace": k.resolver.Namespace, "name": name + ":" + strconv.Itoa(port),
			"labels": map[string]string{"kubernetes.io/service-name": name},
		},
		"ports": []map[string]any{{"port": port}}, "endpoints": list,
	})
	if err != nil {
		return nil // texts and numbers can always be written
	}
	o, _ := api.Decode(text, snapshot.Source{}, nil)
	return o
}
