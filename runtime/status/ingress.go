package status

import (
	"context"
	"encoding/json"
	"net"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"

	"github.com/chancery-gateway/chancery/snapshot"
	"github.com/chancery-gateway/chancery/translators/ingress"
	"github.com/chancery-gateway/chancery/translators/ir"
)

// nowhere are the entries of an Ingress that is not served.
const nowhere = "[]"

// ingresses returns what there is to say about each Ingress that is for the installation id: at which addresses it is
// answered, at none where no route of the program comes from it. Nothing is said while the addresses are not known.
func ingresses(o Observation, id, addresses string) map[snapshot.Ref]Outcome {
	s := o.Snapshot
	if addresses == "" || s.Len(ingress.Kind) == 0 {
		return nil
	}
	served := routed(o.Program, ingress.Kind)
	out := map[snapshot.Ref]Outcome{}
	for o := range s.List(ingress.Kind) {
		if !ingress.Ours(o, id, snapshot.NewView(s)) {
			continue
		}
		at := nowhere
		if served[o.Ref] {
			at = addresses
		}
		out[o.Ref] = Outcome{APIVersion: o.APIVersion, UID: o.UID, Addresses: at}
	}
	return out
}

// routed returns the objects of the kind from which a route of the program comes.
func routed(p *ir.Program, k snapshot.GroupKind) map[snapshot.Ref]bool {
	out := map[snapshot.Ref]bool{}
	if p == nil {
		return out
	}
	for _, c := range p.RouteConfigs {
		for _, h := range c.VirtualHosts {
			for _, r := range h.Routes {
				for _, origin := range r.Origins {
					if origin.GroupKind() == k {
						out[origin] = true
					}
				}
			}
		}
	}
	return out
}

// publishedLabel marks the Service that traffic comes in by, where no setting names it (Emissary's own manifests have it).
const publishedLabel = "app.kubernetes.io/component=ambassador-service"

var services = schema.GroupVersionResource{Version: "v1", Resource: "services"}

// follow keeps the addresses up to date, those of the settings or of the Service, until ctx ends.
func (w *Writer) follow(ctx context.Context) {
	if len(w.options.PublishAddresses) > 0 {
		w.publish(given(w.options.PublishAddresses))
		return
	}
	namespace, list, of := w.options.Namespace, metav1.ListOptions{LabelSelector: publishedLabel}, addressesOf
	if at := w.options.PublishService; at != "" {
		ns, name, both := strings.Cut(at, "/")
		if !both {
			ns, name = namespace, at
		}
		namespace, list, of = ns, metav1.ListOptions{FieldSelector: fields.OneTermEqualSelector("metadata.name", name).String()}, addressesOfNamed
	}
	client := w.client.Resource(services).Namespace(namespace)
	for ctx.Err() == nil {
		if err := w.followOnce(ctx, client, list, of); err != nil && ctx.Err() == nil {
			w.options.Log.Debug("the Service whose addresses Ingresses are given cannot be watched", "namespace", namespace, "error", err)
		}
		sleep(ctx, again)
	}
}

func (w *Writer) followOnce(ctx context.Context, client dynamic.ResourceInterface, o metav1.ListOptions, of func(*unstructured.Unstructured) string) error {
	all, err := client.List(ctx, o)
	if err != nil {
		return err
	}
	is := map[string]string{}
	tell := func() {
		names := make([]string, 0, len(is))
		for name, a := range is {
			if a != "" {
				names = append(names, name)
			}
		}
		if len(names) > 0 {
			w.publish(is[least(names)])
		}
	}
	for i := range all.Items {
		is[all.Items[i].GetName()] = of(&all.Items[i])
	}
	tell()
	o.ResourceVersion = all.GetResourceVersion()
	watch, err := client.Watch(ctx, o)
	if err != nil {
		return err
	}
	defer watch.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case e, open := <-watch.ResultChan():
			u, isObject := e.Object.(*unstructured.Unstructured)
			if !open || !isObject || e.Type == "ERROR" {
				return nil
			}
			is[u.GetName()] = of(u)
			if e.Type == "DELETED" {
				delete(is, u.GetName())
			}
			tell()
		}
	}
}

func least(names []string) string {
	first := names[0]
	for _, n := range names {
		first = min(first, n)
	}
	return first
}

// publish notes the addresses that Ingresses are to be given.
func (w *Writer) publish(addresses string) {
	w.mu.Lock()
	news := w.addresses != addresses
	w.addresses, w.stale = addresses, w.stale || news
	w.mu.Unlock()
	if news {
		w.wake()
	}
}

// addressesOf returns the entries of status.loadBalancer.ingress of a Service; those that are its own where nobody else
// gives it any; "" for none.
func addressesOf(service *unstructured.Unstructured) string {
	entries, _, _ := unstructured.NestedSlice(service.Object, "status", "loadBalancer", "ingress")
	if len(entries) > 0 {
		for _, e := range entries {
			if m, ok := e.(map[string]any); ok {
				delete(m, "ipMode") // a Service's alone
			}
		}
		return text(entries)
	}
	if name, _, _ := unstructured.NestedString(service.Object, "spec", "externalName"); name != "" {
		return given([]string{name})
	}
	external, _, _ := unstructured.NestedStringSlice(service.Object, "spec", "externalIPs")
	return given(external)
}

// addressesOfNamed is addressesOf for a Service that a setting names: one that no load balancer is to be made for is found
// at its addresses within the cluster.
func addressesOfNamed(service *unstructured.Unstructured) string {
	if at := addressesOf(service); at != "" {
		return at
	}
	if t, _, _ := unstructured.NestedString(service.Object, "spec", "type"); t != "ClusterIP" && t != "NodePort" {
		return "" // a load balancer will have an address once it is there
	}
	within, _, _ := unstructured.NestedStringSlice(service.Object, "spec", "clusterIPs")
	return given(slices.DeleteFunc(within, func(ip string) bool { return ip == "None" }))
}

// given writes addresses and host names as entries.
func given(addresses []string) string {
	entries := make([]any, 0, len(addresses))
	for _, a := range addresses {
		if net.ParseIP(a) != nil {
			entries = append(entries, map[string]any{"ip": a})
		} else {
			entries = append(entries, map[string]any{"hostname": a})
		}
	}
	if len(entries) == 0 {
		return ""
	}
	return text(entries)
}

func text(v any) string {
	out, err := json.Marshal(v)
	if err != nil {
		return ""
	}
	return string(out)
}

// composeIngress returns the merge patch of an Ingress' status.
func composeIngress(o *unstructured.Unstructured, want Outcome) (patch map[string]any, needed bool) {
	balancer := map[string]any{"ingress": json.RawMessage(want.Addresses)}
	before, _ := o.Object["status"].(map[string]any)
	patch = map[string]any{"metadata": map[string]any{"resourceVersion": o.GetResourceVersion()}, "status": map[string]any{"loadBalancer": balancer}}
	if is, _, _ := unstructured.NestedSlice(before, "loadBalancer", "ingress"); want.Addresses == nowhere {
		return patch, len(is) > 0
	}
	return patch, !says(before, map[string]any{"loadBalancer": balancer})
}
