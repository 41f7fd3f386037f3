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
)

var (
	kindIngress      = snapshot.GroupKind{Group: "networking.k8s.io", Kind: "Ingress"}
	kindIngressClass = snapshot.GroupKind{Group: "networking.k8s.io", Kind: "IngressClass"}
)

// controllers are the names under which an IngressClass is ours.
var controllers = map[string]bool{"chancery.dev/ingress-controller": true, "getambassador.io/ingress-controller": true}

const (
	classAnnotation = "kubernetes.io/ingress.class"
	idAnnotation    = "getambassador.io/ambassador-id"
	// ourClass is the value of the class annotation that makes an Ingress ours.
	ourClass = "ambassador"
)

// ingresses returns what there is to say about each Ingress that is for the installation id: at which addresses it is
// answered. Nothing is said while these are not known.
func ingresses(s *snapshot.Snapshot, id, addresses string) map[snapshot.Ref]Outcome {
	if addresses == "" || s.Len(kindIngress) == 0 {
		return nil
	}
	classes := map[string]bool{}
	for c := range s.List(kindIngressClass) {
		var doc struct{ Spec struct{ Controller string } }
		if json.Unmarshal(c.Raw, &doc) == nil && controllers[doc.Spec.Controller] && forInstallation(c, id) {
			classes[c.Name] = true
		}
	}
	out := map[snapshot.Ref]Outcome{}
	for o := range s.List(kindIngress) {
		var doc struct {
			Spec struct{ IngressClassName string }
		}
		if json.Unmarshal(o.Raw, &doc) != nil || !forInstallation(o, id) {
			continue
		}
		if o.Annotations[classAnnotation] == ourClass || classes[doc.Spec.IngressClassName] {
			out[o.Ref] = Outcome{APIVersion: o.APIVersion, UID: o.UID, Addresses: addresses}
		}
	}
	return out
}

func forInstallation(o *snapshot.Object, id string) bool {
	is := o.Annotations[idAnnotation]
	if is == "" {
		is = "default"
	}
	return is == id
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
	return patch, !says(before, map[string]any{"loadBalancer": balancer})
}
