package status

import (
	"context"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// said returns what an Event says is wrong with an object that has been given a status, "" for nothing.
func said(o *unstructured.Unstructured, patch map[string]any, want Outcome) string {
	if o.GroupVersionKind().Group == gatewayGroup {
		return faultOf(plain(patch["status"]))
	}
	return want.Fault
}

// event tells of a turn for better or worse, where people look for it: kubectl describe.
func (w *Writer) event(ctx context.Context, o *unstructured.Unstructured, fault string, refused bool) {
	kind, reason, message := "Normal", "Accepted", "is in effect"
	if fault != "" {
		kind, reason, message = "Warning", "Rejected", fault
		if refused {
			reason = "RefusedByEnvoy"
		}
	}
	if len(message) > 1024 { // the API's own limit: Kubernetes API reference, Event v1
		message = join("", message)[:1000] + "…"
	}
	namespace := o.GetNamespace()
	if namespace == "" {
		namespace = metav1.NamespaceDefault // where Events about objects without one are
	}
	now := time.Now().UTC().Format(time.RFC3339)
	e := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "v1", "kind": "Event",
		"metadata": map[string]any{"generateName": o.GetName() + ".", "namespace": namespace},
		"involvedObject": map[string]any{"apiVersion": o.GetAPIVersion(), "kind": o.GetKind(), "namespace": o.GetNamespace(),
			"name": o.GetName(), "uid": string(o.GetUID())},
		"type": kind, "reason": reason, "message": message, "count": int64(1), "firstTimestamp": now, "lastTimestamp": now,
		"source": map[string]any{"component": "chancery"}, "reportingComponent": "chancery", "reportingInstance": w.options.Identity,
	}}
	resource := schema.GroupVersionResource{Version: "v1", Resource: "events"}
	if _, err := w.client.Resource(resource).Namespace(namespace).Create(ctx, e, metav1.CreateOptions{}); err != nil && ctx.Err() == nil {
		w.options.Log.Debug("an Event cannot be written", "object", o.GetKind()+"/"+o.GetNamespace()+"/"+o.GetName(), "error", err)
	}
}
