package modules

import (
	"context"
	"fmt"
	"strings"

	"github.com/chancery-gateway/chancery/snapshot"
	"github.com/chancery-gateway/chancery/snapshot/api"
	"github.com/chancery-gateway/chancery/translators/envoy"
	"github.com/chancery-gateway/chancery/translators/ir"
	"github.com/chancery-gateway/chancery/wasm"
	"github.com/chancery-gateway/chancery/wasm/abi"
)

// validate judges what modules made of a unit: it must decode, and the back end must have nothing against it that it did not have before.
func validate(_ context.Context, p abi.Phase, u *wasm.Unit, items []abi.Item) error {
	before := map[string]abi.Item{}
	for _, i := range u.Items() {
		before[i.Kind+"\x00"+i.Namespace+"\x00"+i.Name] = i
	}
	var was, now ir.Program
	for _, i := range items {
		old, there := before[i.Kind+"\x00"+i.Namespace+"\x00"+i.Name]
		if there && string(old.Value) == string(i.Value) {
			continue
		}
		var err error
		switch p {
		case abi.Lower:
			err = validateLowered(i)
		case abi.IR:
			if err = decodeInto(&now, i); err == nil && there {
				err = decodeInto(&was, old)
			}
		default:
			var r *ir.Resource
			if r, err = envoy.Parse(typePrefix+strings.TrimPrefix(i.Kind, kindPrefixXDS), i.Value, nil); err == nil && r.Name != i.Name {
				err = fmt.Errorf("its name is %q", r.Name)
			}
		}
		if err != nil {
			return fmt.Errorf("%s %s: %w", i.Kind, i.Name, err)
		}
	}
	if p != abi.IR {
		return nil
	}
	known := map[string]bool{}
	for _, d := range envoy.Faults(&was) {
		known[d.Message] = true
	}
	for _, d := range envoy.Faults(&now) {
		if !known[d.Message] {
			return fmt.Errorf("%s: %s", d.Code.ID, d.Message)
		}
	}
	return nil
}

func validateLowered(i abi.Item) error {
	source := &snapshot.Object{Ref: snapshot.Ref{Kind: "Object", Namespace: i.Namespace, Name: i.Name}}
	if i.Kind == kindFragment {
		f, err := decodeFragment(i, source)
		if err != nil {
			return err
		}
		f.Route.Origins = nil
		for _, d := range envoy.Faults(&ir.Program{RouteConfigs: []*ir.RouteConfig{{Name: "validate", VirtualHosts: []*ir.VirtualHost{{Name: "validate", Domains: []string{"*"}, Routes: []*ir.Route{f.Route}}}}}}) {
			return fmt.Errorf("%s: %s", d.Code.ID, d.Message)
		}
		return nil
	}
	if !api.Known(groupKind(i.Kind)) {
		return fmt.Errorf("modules cannot make objects of this kind")
	}
	o, found := api.Decode(i.Value, snapshot.Source{}, nil)
	if o == nil {
		for _, d := range found {
			return fmt.Errorf("%s: %s", strings.TrimPrefix(d.Path+": ", ": "), d.Message)
		}
	}
	return nil
}

func decodeInto(p *ir.Program, i abi.Item) error {
	n, err := decodeNode(i, node{}, nil)
	switch {
	case err != nil:
		return err
	case n.host != nil:
		p.RouteConfigs = append(p.RouteConfigs, &ir.RouteConfig{Name: fmt.Sprintf("validate %d", len(p.RouteConfigs)), VirtualHosts: []*ir.VirtualHost{n.host}})
	case n.listener != nil:
		p.Listeners = append(p.Listeners, n.listener)
	default:
		p.Clusters = append(p.Clusters, n.cluster)
	}
	return nil
}
