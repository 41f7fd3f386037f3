package status

import (
	"encoding/json"
	"reflect"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/chancery-gateway/chancery/snapshot"
	"github.com/chancery-gateway/chancery/snapshot/api/v3alpha1"
)

// The condition types that are ours; conditions of other types are left as they are.
const (
	accepted   = "Accepted"
	programmed = "Programmed"
)

// compose returns the merge patch that lets an object's status say what is wanted. needed is false when it says so
// already; turned tells that the object went from good to bad or back, or is bad from the start.
func compose(o *unstructured.Unstructured, r snapshot.Ref, want Outcome, now time.Time) (patch map[string]any, turned, needed bool) {
	generation := want.Generation
	if generation == 0 || want.Fault != "" && o.GetGeneration() > generation {
		generation = o.GetGeneration() // of an object that could not be read, the last good form is known at most
	}
	before, _ := o.Object["status"].(map[string]any)
	all := conditions(before)
	kept := make([]metav1.Condition, 0, len(all)+2)
	var was *metav1.Condition
	old := map[string]metav1.Condition{}
	for _, c := range all {
		if c.Type == accepted || c.Type == programmed {
			old[c.Type] = c
			if c.Type == accepted {
				was = &c
			}
			continue
		}
		kept = append(kept, c)
	}
	kept = append(kept, condition(old, accepted, want.Fault == "" || want.Refused, acceptedReason(want), acceptedMessage(want), generation, now),
		condition(old, programmed, want.Fault == "", programmedReason(want), want.Fault, generation, now))
	status := map[string]any{"observedGeneration": generation, "conditions": kept}
	switch r.GroupKind() {
	case v3alpha1.KindMapping:
		status["state"], status["reason"] = "Running", nil
		if want.Fault != "" {
			status["state"], status["reason"] = "Inactive", want.Fault
		}
	case v3alpha1.KindHost:
		status["state"], status["errorReason"], status["tlsCertificateSource"] = "Ready", nil, "None"
		if want.Secret {
			status["tlsCertificateSource"] = "Other"
		}
		if want.Fault != "" {
			status["state"], status["errorReason"] = "Error", want.Fault
		}
	}
	good := want.Fault == ""
	turned = was == nil && !good || was != nil && (old[programmed].Status == metav1.ConditionTrue) != good
	patch = map[string]any{"metadata": map[string]any{"resourceVersion": o.GetResourceVersion()}, "status": status}
	return patch, turned, !says(before, status)
}

// condition returns one of our conditions; the time of its last turn stays while its status does.
func condition(old map[string]metav1.Condition, kind string, is bool, reason, message string, generation int64, now time.Time) metav1.Condition {
	c := metav1.Condition{Type: kind, Status: metav1.ConditionFalse, Reason: reason, Message: message, ObservedGeneration: generation,
		LastTransitionTime: metav1.NewTime(now.UTC().Truncate(time.Second))}
	if is {
		c.Status = metav1.ConditionTrue
	}
	if before, had := old[kind]; had && before.Status == c.Status {
		c.LastTransitionTime = before.LastTransitionTime
	}
	return c
}

func acceptedReason(o Outcome) string {
	if o.Fault != "" && !o.Refused {
		return "Invalid"
	}
	return "Accepted"
}

func acceptedMessage(o Outcome) string {
	if o.Fault != "" && !o.Refused {
		return o.Fault
	}
	return o.Warnings
}

func programmedReason(o Outcome) string {
	switch {
	case o.Refused:
		return "RefusedByEnvoy"
	case o.Fault != "":
		return "Invalid"
	}
	return "Programmed"
}

func conditions(status map[string]any) []metav1.Condition {
	var out []metav1.Condition
	text, err := json.Marshal(status["conditions"])
	if err != nil || json.Unmarshal(text, &out) != nil {
		return nil // what is no list of conditions cannot be kept as one
	}
	return out
}

// says reports whether the status says what the patch would make it say.
func says(before, patch map[string]any) bool {
	for name, value := range patch {
		if value == nil {
			if before[name] != nil {
				return false
			}
			continue
		}
		if !reflect.DeepEqual(plain(before[name]), plain(value)) {
			return false
		}
	}
	return true
}

// plain is a value as JSON has it.
func plain(value any) any {
	text, err := json.Marshal(value)
	if err != nil {
		return value
	}
	var out any
	if json.Unmarshal(text, &out) != nil {
		return value
	}
	return out
}
