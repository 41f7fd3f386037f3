package command

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"io"
	"net/http"
	"os"
	"slices"
	"strings"

	"github.com/chancery-gateway/chancery/policies"
	policy "github.com/chancery-gateway/chancery/policies/api"
	"github.com/chancery-gateway/chancery/runtime/webhook"
	"github.com/chancery-gateway/chancery/snapshot"
	"github.com/chancery-gateway/chancery/snapshot/api"
	"github.com/chancery-gateway/chancery/snapshot/files"
)

// admissionReview is what is read and written of Kubernetes' AdmissionReview (admission.k8s.io/v1).
type admissionReview struct {
	APIVersion string             `json:"apiVersion"`
	Kind       string             `json:"kind"`
	Request    *admissionRequest  `json:"request,omitempty"`
	Response   *admissionResponse `json:"response,omitempty"`
}

type admissionRequest struct {
	UID         string          `json:"uid"`
	Operation   string          `json:"operation"`
	SubResource string          `json:"subResource"`
	DryRun      bool            `json:"dryRun"`
	Object      json.RawMessage `json:"object"`
	OldObject   json.RawMessage `json:"oldObject"`
}

type admissionResponse struct {
	UID       string           `json:"uid"`
	Allowed   bool             `json:"allowed"`
	Status    *admissionStatus `json:"status,omitempty"`
	Warnings  []string         `json:"warnings,omitempty"`
	PatchType string           `json:"patchType,omitempty"`
	Patch     string           `json:"patch,omitempty"`
}

type admissionStatus struct {
	Code    int    `json:"code"`
	Reason  string `json:"reason"`
	Message string `json:"message"`
}

// The API server cuts what is longer, and shows nothing of an answer that is longer still.
const (
	mostWarnings = 20
	mostMessage  = 8 << 10
)

// refuse turns the object away; each reason is a line.
func (r *admissionResponse) refuse(message string) {
	r.Allowed, r.PatchType, r.Patch = false, "", ""
	if r.Status == nil {
		r.Status = &admissionStatus{Code: http.StatusForbidden, Reason: "Forbidden"}
	} else {
		message = r.Status.Message + "\n" + message
	}
	if len(message) > mostMessage {
		message = strings.ToValidUTF8(message[:mostMessage], "") + "…"
	}
	r.Status.Message = message
}

// warn adds a warning that has not been said.
func (r *admissionResponse) warn(text string) {
	if !slices.Contains(r.Warnings, text) {
		r.Warnings = append(r.Warnings, text)
	}
}

// say refuses for an error, and warns of a warning.
func (r *admissionResponse) say(d *snapshot.Diagnostic) {
	switch d.Severity {
	case snapshot.Error:
		r.refuse(webhook.Sentence(d))
	case snapshot.Warning:
		r.warn(webhook.Sentence(d))
	}
}

// reviewAdmission answers an AdmissionReview as the webhook would, on standard output. The exit code is 0 when the object is allowed, 1 when not.
func (a *app) reviewAdmission(ctx context.Context, file string, paths []string) error {
	data, err := a.readInput(file)
	if err != nil {
		return &status{exitUsage, err}
	}
	var review admissionReview
	if err := json.Unmarshal(data, &review); err != nil {
		return usage("%s: no JSON: %w", file, err)
	}
	if review.Kind != "AdmissionReview" || review.Request == nil {
		return usage("%s: no AdmissionReview with a request; its kind is %q", file, review.Kind)
	}
	a.point = policy.PointWebhook
	if err := a.loadPolicies(ctx); err != nil {
		return err
	}
	world := snapshot.Empty()
	if len(paths) > 0 {
		if world, err = files.Load(paths, a.in); err != nil {
			return &status{exitUsage, err}
		}
	}
	end, err := a.takeModules(ctx, world)
	if err != nil {
		return err
	}
	defer end()
	review.Response = a.answer(world, review.Request)
	if (len(paths) > 0 || a.modules != nil) && review.Response.Allowed {
		trial := a.newTrial()
		trial.Observe(world)
		a.compileFor(ctx, trial, review.Request, review.Response)
	}
	review.Request = nil
	if err := writeJSON(a.out, review); err != nil {
		return failure("writing the answer: %w", err)
	}
	if !review.Response.Allowed {
		return &status{code: exitErrors}
	}
	return nil
}

func (a *app) readInput(file string) ([]byte, error) {
	if file == "-" {
		return io.ReadAll(a.in)
	}
	return os.ReadFile(file)
}

// answer judges one request in the world of the snapshot.
func (a *app) answer(world *snapshot.Snapshot, q *admissionRequest) *admissionResponse {
	r := &admissionResponse{UID: q.UID, Allowed: true}
	if q.Operation == "DELETE" || q.Operation == "CONNECT" {
		return r // policies are about what is there, not about its end
	}
	o, found := decodeRequest(q.Object)
	for i := range found {
		r.say(&found[i])
	}
	if o == nil {
		if len(q.Object) == 0 || string(q.Object) == "null" {
			r.refuse("request.object: there is none; a review of " + q.Operation + " carries the whole object")
		}
		return r
	}
	old, _ := decodeRequest(q.OldObject)
	a.reviewing.Lock()
	if a.reviewer == nil {
		a.reviewer = a.newAdmitter()
	}
	v := a.reviewer.Review(world, o, old, q.Operation)
	a.reviewing.Unlock()
	for i := range v.Findings {
		r.say(&v.Findings[i])
	}
	if r.Allowed && len(v.Changes) > 0 {
		patch, err := json.Marshal(patchOf(v.Changes))
		if err == nil {
			r.PatchType, r.Patch = "JSONPatch", base64.StdEncoding.EncodeToString(patch)
		}
	}
	return r
}

// decodeRequest reads an object as it stands in a review. One whose name the API server has yet to make up gets a name.
func decodeRequest(text []byte) (*snapshot.Object, []snapshot.Diagnostic) {
	if len(text) == 0 || string(text) == "null" {
		return nil, nil
	}
	var named struct {
		Metadata struct{ Name, GenerateName string }
	}
	if json.Unmarshal(text, &named) == nil && named.Metadata.Name == "" && named.Metadata.GenerateName != "" {
		var whole map[string]any
		d := json.NewDecoder(bytes.NewReader(text))
		d.UseNumber()
		if d.Decode(&whole) == nil {
			whole["metadata"].(map[string]any)["name"] = named.Metadata.GenerateName + "new"
			if completed, err := json.Marshal(whole); err == nil {
				text = completed
			}
		}
	}
	return api.Decode(text, snapshot.Source{}, nil)
}

type patchOperation struct {
	Op    string          `json:"op"`
	Path  string          `json:"path"`
	Value json.RawMessage `json:"value,omitempty"`
}

// patchOf writes changes as a JSON patch (RFC 6902).
func patchOf(changes []policies.Change) []patchOperation {
	var out []patchOperation
	escape := strings.NewReplacer("~", "~0", "/", "~1")
	for _, c := range changes {
		op := patchOperation{Op: "add", Value: c.New}
		switch {
		case c.New == nil:
			op = patchOperation{Op: "remove"}
		case c.Old != nil:
			op.Op = "replace"
		}
		for _, step := range c.Steps {
			op.Path += "/" + escape.Replace(step)
		}
		out = append(out, op)
	}
	return out
}
