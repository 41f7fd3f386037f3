package command

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"net"
	"slices"

	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"

	policy "github.com/chancery-gateway/chancery/policies/api"
	"github.com/chancery-gateway/chancery/runtime/gateway"
	"github.com/chancery-gateway/chancery/runtime/pipeline"
	"github.com/chancery-gateway/chancery/runtime/webhook"
	"github.com/chancery-gateway/chancery/snapshot"
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
	trial := &webhook.Trial{NewCompiler: func() pipeline.Compiler { return a.newCompiler() }}
	observe := g.Observe
	g.Observe = func(s *snapshot.Snapshot, findings []snapshot.Diagnostic) {
		trial.Observe(s)
		if observe != nil {
			observe(s, findings)
		}
	}
	ns := ownNamespace(a.settings)
	server := &webhook.Server{
		Authority: &webhook.Authority{
			Client: client, Namespace: ns, Name: webhook.Secret, Log: g.Log,
			Hosts: []string{"chancery-webhook." + ns + ".svc", "localhost", "127.0.0.1"},
		},
		Configuration: webhook.Configuration, Log: g.Log,
		Judge: func(review []byte) ([]byte, error) { return a.reviewed(trial, review) },
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

// reviewed answers an AdmissionReview: by schema and policies first, then by what a compile says.
func (a *app) reviewed(trial *webhook.Trial, text []byte) ([]byte, error) {
	var review admissionReview
	if err := json.Unmarshal(text, &review); err != nil {
		return nil, err
	}
	q := review.Request
	if review.Kind != "AdmissionReview" || q == nil {
		return nil, errors.New("no AdmissionReview with a request")
	}
	review.Request = nil
	if q.Operation == "UPDATE" && sameSpec(q.Object, q.OldObject) {
		review.Response = &admissionResponse{UID: q.UID, Allowed: true} // labels, annotations, finalizers
		return json.Marshal(review)
	}
	live := trial.Live()
	if live == nil {
		live = snapshot.Empty()
	}
	hook := *a
	hook.point = policy.PointWebhook
	review.Response = hook.answer(live, q)
	if q.Operation == "CREATE" || q.Operation == "UPDATE" {
		a.compileFor(trial, q, review.Response)
	}
	const most = 20
	review.Response.Warnings = review.Response.Warnings[:min(most, len(review.Response.Warnings))]
	return json.Marshal(review)
}

// compileFor adds to the answer what a compile with the object says.
func (a *app) compileFor(trial *webhook.Trial, q *admissionRequest, r *admissionResponse) {
	o, _ := decodeRequest(q.Object)
	if o == nil || !r.Allowed || a.settings.SingleNamespace && o.Namespace != a.settings.Namespace {
		return
	}
	own, others, ok := trial.Review(o)
	if !ok {
		return
	}
	warn := func(text string) {
		if !slices.Contains(r.Warnings, text) {
			r.Warnings = append(r.Warnings, text)
		}
	}
	for i := range own {
		d := &own[i]
		text := webhook.Sentence(d, o.Ref)
		switch {
		case d.Policy != "" || d.Severity == snapshot.Info || slices.Contains(r.Warnings, said(*d)):
			// Said already, or nothing to warn of.
		case d.Severity == snapshot.Error && !webhook.OfOthers(d.Code):
			r.Allowed = false
			if r.Status == nil {
				r.Status = &admissionStatus{Code: 403, Reason: "Forbidden"}
			} else {
				r.Status.Message += "\n"
			}
			r.Status.Message += text
		default:
			warn(text)
		}
	}
	for i := range others {
		if others[i].Severity != snapshot.Info {
			warn(webhook.Sentence(&others[i], o.Ref))
		}
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
