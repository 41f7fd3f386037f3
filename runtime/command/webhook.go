package command

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"

	"github.com/chancery-gateway/chancery/policies"
	policy "github.com/chancery-gateway/chancery/policies/api"
	"github.com/chancery-gateway/chancery/runtime/gateway"
	"github.com/chancery-gateway/chancery/runtime/pipeline"
	"github.com/chancery-gateway/chancery/runtime/webhook"
	"github.com/chancery-gateway/chancery/snapshot"
	"github.com/chancery-gateway/chancery/translators/ingress"
)

// answerReviews answers the API server's admission reviews beside the gateway; end ends that.
func (a *app) answerReviews(ctx context.Context, config *rest.Config, g *gateway.Options) (end func(), err error) {
	client, err := dynamic.NewForConfig(config)
	if err != nil {
		return nil, failure("client of the API server: %w", err)
	}
	l, err := net.Listen("tcp", a.settings.WebhookAddress)
	if err != nil {
		return nil, &status{exitUsage, &gateway.InUse{What: "the webhook's address", Address: a.settings.WebhookAddress, Setting: "webhook-address", Err: err}}
	}
	trial := a.newTrial()
	if source, reads := g.Source.(interface {
		Mentioned(context.Context, *snapshot.Object) []*snapshot.Object
	}); reads {
		trial.Mentioned = source.Mentioned
	}
	measures := webhook.NewMeasures(trial)
	g.Collectors = append(g.Collectors, measures)
	g.Validating = trial.Prove
	observe := g.Observe
	g.Observe = func(o gateway.Observation) {
		trial.Observe(o.Result.Snapshot)
		if observe != nil {
			observe(o)
		}
	}
	ns := ownNamespace(a.settings)
	server := &webhook.Server{
		Authority: &webhook.Authority{
			Client: client, Namespace: ns, Name: webhook.Secret, Log: g.Log,
			Hosts: []string{"chancery-webhook." + ns + ".svc", "localhost", "127.0.0.1"},
		},
		Configuration: webhook.Configuration, Log: g.Log,
		Judge: func(ctx context.Context, mutate bool, review []byte) ([]byte, error) {
			begun := time.Now()
			answer, verdict, err := a.reviewed(ctx, trial, mutate, review)
			measures.Count(verdict, time.Since(begun))
			return answer, err
		},
	}
	serving, stop := context.WithCancel(context.WithoutCancel(ctx))
	ended := make(chan error, 1)
	go func() { ended <- server.Serve(serving, l) }()
	return func() {
		stop()
		if err := <-ended; err != nil {
			g.Log.Error("reviews are not answered", "error", err)
		}
	}, nil
}

// newTrial returns a trial whose compiles leave no trace: neither the log of decisions nor the report of modules speaks of
// what is only asked about.
func (a *app) newTrial() *webhook.Trial {
	return &webhook.Trial{NewCompiler: func() pipeline.Compiler {
		aside := *a
		aside.governing, aside.decisions, aside.aside, aside.point = &governing{}, nil, true, policy.PointCompile
		return aside.newCompiler()
	}}
}

// reviewed answers an AdmissionReview: by schema and policies first, then by what a compile says. The verdict is what the
// review is counted by.
func (a *app) reviewed(ctx context.Context, trial *webhook.Trial, mutate bool, text []byte) (answer []byte, verdict string, err error) {
	var review admissionReview
	if err := json.Unmarshal(text, &review); err != nil {
		return nil, webhook.Unread, err
	}
	q := review.Request
	if review.Kind != "AdmissionReview" || q == nil {
		return nil, webhook.Unread, errors.New("no AdmissionReview with a request")
	}
	review.Request = nil
	verdict = webhook.Allowed
	switch {
	case !a.ours(world(trial), q) || q.SubResource != "" || q.Operation == "CONNECT" || q.Operation == "DELETE" && mutate ||
		q.Operation == "UPDATE" && sameSpec(q.Object, q.OldObject):
		// What this installation does not read; statuses, ours among them; and labels, annotations, finalizers.
		verdict, review.Response = webhook.Passed, &admissionResponse{UID: q.UID, Allowed: true}
	case mutate:
		review.Response = a.mutated(trial, q)
	default:
		hook := *a
		hook.point = policy.PointWebhook
		review.Response = hook.answer(world(trial), q)
		review.Response.PatchType, review.Response.Patch = "", ""
		a.compileFor(ctx, trial, q, review.Response)
	}
	r := review.Response
	if !r.Allowed {
		verdict = webhook.Refused
	}
	if n := len(r.Warnings); n > mostWarnings {
		r.Warnings = append(r.Warnings[:mostWarnings-1], fmt.Sprintf("and %d more warnings; `chancery check` shows all", n-mostWarnings+1))
	}
	answer, err = json.Marshal(review)
	return answer, verdict, err
}

// ours reports whether the object is one of those that this installation reads. Whose an Ingress is, its class says.
func (a *app) ours(live *snapshot.Snapshot, q *admissionRequest) bool {
	text := q.Object
	if len(text) == 0 || string(text) == "null" {
		text = q.OldObject
	}
	var o struct {
		APIVersion, Kind string
		Metadata         struct {
			Name, Namespace string
			Labels          map[string]string
		}
	}
	if json.Unmarshal(text, &o) != nil {
		return true // which is said where it is read
	}
	if group, _, _ := strings.Cut(o.APIVersion, "/"); group == ingress.Kind.Group && o.Kind == ingress.Kind.Kind {
		if whole, _ := decodeRequest(text); whole != nil && !ingress.Ours(whole, a.settings.AmbassadorID, snapshot.NewView(live)) {
			return false
		}
	}
	s, m := a.settings, o.Metadata
	if s.SingleNamespace && m.Namespace != "" && m.Namespace != s.Namespace {
		return false
	}
	selects, err := labels.Parse(s.LabelSelector)
	if err == nil && !selects.Matches(labels.Set(m.Labels)) {
		return false
	}
	picks, err := fields.ParseSelector(s.FieldSelector)
	return err != nil || picks.Matches(fields.Set{"metadata.name": m.Name, "metadata.namespace": m.Namespace})
}

// world returns the snapshot in force, an empty one before the first.
func world(trial *webhook.Trial) *snapshot.Snapshot {
	if live := trial.Live(); live != nil {
		return live
	}
	return snapshot.Empty()
}

// mutated answers with what policies change. It refuses only what cannot be read at all, which the API server's schema would
// do next in words of its own; the verdict of policies is given when nobody changes the object any more.
func (a *app) mutated(trial *webhook.Trial, q *admissionRequest) *admissionResponse {
	r := &admissionResponse{UID: q.UID, Allowed: true}
	if _, found := decodeRequest(q.Object); slices.ContainsFunc(found, func(d snapshot.Diagnostic) bool { return d.Severity == snapshot.Error }) {
		for i := range found {
			r.say(&found[i])
		}
		r.Warnings = nil
		return r
	}
	hook := *a
	hook.point = policy.PointWebhook
	if said := hook.answer(world(trial), q); said.Allowed {
		r.PatchType, r.Patch = said.PatchType, said.Patch
	}
	return r
}

// compileFor adds to the answer what a compile with the object says, or without it where it is to be deleted: errors that
// no other object can heal refuse it. A deletion is never refused: what is wrong with the object is no reason to keep it.
func (a *app) compileFor(ctx context.Context, trial *webhook.Trial, q *admissionRequest, r *admissionResponse) {
	text := q.Object
	if q.Operation == "DELETE" {
		text = q.OldObject
	}
	o, _ := decodeRequest(text)
	if o == nil || !r.Allowed {
		return
	}
	if o.Created.IsZero() {
		o.Created = time.Now() // nothing that is there already is younger
	}
	review := func() (*webhook.Outcome, error) { return trial.Review(ctx, o) }
	if q.Operation == "DELETE" {
		review = func() (*webhook.Outcome, error) { return trial.Without(ctx, o.Ref) }
	}
	out, err := review()
	if err != nil {
		r.warn(fmt.Sprintf("%s: what it would change is not known: %v; it is looked at again before traffic sees it", o.Ref, err))
		return
	}
	if q.Operation == "DELETE" {
		out.Own = nil
	}
	for i := range out.Own {
		d := out.Own[i]
		if d.Policy != "" && policies.Judged(o.GroupKind()) {
			continue // said already
		}
		if d.Severity == snapshot.Error && webhook.OfOthers(d.Code) {
			d.Severity = snapshot.Warning
		}
		r.say(&d)
	}
	if !r.Allowed {
		return
	}
	for i := range out.Others {
		if d := out.Others[i]; d.Severity != snapshot.Info {
			d.Severity = snapshot.Warning
			r.say(&d)
		}
	}
	for _, s := range out.Effects.Sentences {
		r.warn(o.String() + ": " + s)
	}
	if q.DryRun {
		e, drains := out.Effects, "no connection would be drained"
		if n := len(e.Drains); n > 0 {
			drains = fmt.Sprintf("%d listeners or filter chains would drain", n)
		}
		r.warn(fmt.Sprintf("%s: would add %d, change %d and remove %d routes; %s", o.Ref, e.Added, e.Changed, e.Removed, drains))
	}
}

// sameSpec reports whether two objects say the same apart from metadata and status.
func sameSpec(a, b []byte) bool {
	spec := func(text []byte) (string, []byte) {
		var o struct {
			APIVersion string          `json:"apiVersion"`
			Spec       json.RawMessage `json:"spec"`
		}
		if json.Unmarshal(text, &o) != nil {
			return "", nil
		}
		var plain bytes.Buffer
		if len(o.Spec) > 0 && json.Compact(&plain, o.Spec) != nil {
			return "", nil
		}
		return o.APIVersion, plain.Bytes()
	}
	versionA, specA := spec(a)
	versionB, specB := spec(b)
	return versionA != "" && versionA == versionB && bytes.Equal(specA, specB)
}
