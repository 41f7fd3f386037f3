package status

import (
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/chancery-gateway/chancery/snapshot"
	"github.com/chancery-gateway/chancery/translators/knative"
)

// The conditions that Knative waits for. Source: knative.dev/networking, pkg/apis/networking/v1alpha1.
const (
	networkConfigured = "NetworkConfigured"
	balancerReady     = "LoadBalancerReady"
	ready             = "Ready"
)

// knatives returns what there is to say about each of Knative's Ingresses that is for the installation id: whether it is
// served, and the name within the cluster under which it is.
func knatives(s *snapshot.Snapshot, findings []snapshot.Diagnostic, id, domain string) map[snapshot.Ref]Outcome {
	if s.Len(snapshot.KindKnativeIngress) == 0 {
		return nil
	}
	out := map[snapshot.Ref]Outcome{}
	for o := range s.List(snapshot.KindKnativeIngress) {
		if o.UID != "" && knative.Ours(o, id) {
			out[o.Ref] = Outcome{APIVersion: o.APIVersion, UID: o.UID, Generation: o.Generation, Addresses: domain}
		}
	}
	for i := range findings {
		d := &findings[i]
		if is, ours := out[d.Object]; ours && d.Severity == snapshot.Error {
			is.Fault, is.Refused = join(is.Fault, sentence(d)), is.Refused || refusal(d.Code)
			out[d.Object] = is
		}
	}
	return out
}

// domain returns the name within the cluster of the Service that leads to us, "" where it is not known: the published one, else
// the first in our namespace that has Emissary's label.
func (w *Writer) domain(s *snapshot.Snapshot) string {
	namespace, name := w.options.Namespace, ""
	if before, after, found := strings.Cut(w.options.PublishService, "/"); found {
		namespace, name = before, after
	} else if w.options.PublishService != "" {
		name = w.options.PublishService
	} else {
		for o := range s.List(snapshot.KindService) {
			if o.Namespace == namespace && o.Labels["app.kubernetes.io/component"] == "ambassador-service" {
				name = o.Name
				break
			}
		}
	}
	if name == "" {
		return ""
	}
	return name + "." + namespace + ".svc.cluster.local"
}

// composeKnative returns the merge patch of a Knative Ingress' status.
func composeKnative(o *unstructured.Unstructured, want Outcome, now time.Time) (patch map[string]any, needed bool) {
	before, _ := o.Object["status"].(map[string]any)
	old := map[string]metav1.Condition{}
	for _, c := range conditions(before) {
		old[c.Type] = c
	}
	var all []any
	for _, kind := range []string{balancerReady, networkConfigured, ready} {
		good := want.Fault == "" || kind == balancerReady
		c := condition(old, kind, good, "", "", 0, now)
		said := map[string]any{"type": kind, "status": string(c.Status), "lastTransitionTime": c.LastTransitionTime.UTC().Format(time.RFC3339)}
		if !good {
			said["reason"], said["message"] = programmedReason(want), want.Fault
		}
		all = append(all, said)
	}
	status := map[string]any{"observedGeneration": want.Generation, "conditions": all}
	if want.Addresses != "" {
		balancer := map[string]any{"ingress": []any{map[string]any{"domainInternal": want.Addresses}}}
		status["publicLoadBalancer"], status["privateLoadBalancer"], status["loadBalancer"] = balancer, balancer, balancer
	}
	return map[string]any{"metadata": map[string]any{"resourceVersion": o.GetResourceVersion()}, "status": status}, !says(before, status)
}
