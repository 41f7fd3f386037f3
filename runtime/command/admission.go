package command

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"

	"github.com/chancery-gateway/chancery/policies"
	policy "github.com/chancery-gateway/chancery/policies/api"
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
	UID       string          `json:"uid"`
	Operation string          `json:"operation"`
	Object    json.RawMessage `json:"object"`
	OldObject json.RawMessage `json:"oldObject"`
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
	review.Response = a.answer(world, review.Request)
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
	refuse := func(message string) {
		r.Allowed = false
		if r.Status == nil {
			r.Status = &admissionStatus{Code: http.StatusForbidden, Reason: "Forbidden"}
		} else {
			r.Status.Message += "\n"
		}
		r.Status.Message += message
	}
	o, found := decodeRequest(q.Object)
	for _, d := range found {
		if d.Severity == snapshot.Error {
			refuse(said(d))
		} else {
			r.Warnings = append(r.Warnings, said(d))
		}
	}
	if o == nil {
		return r
	}
	old, _ := decodeRequest(q.OldObject)
	a.reviewing.Lock()
	if a.reviewer == nil {
		a.reviewer = a.newAdmitter()
	}
	v := a.reviewer.Review(world, o, old, q.Operation)
	a.reviewing.Unlock()
	for _, d := range v.Findings {
		switch d.Severity {
		case snapshot.Error:
			refuse(said(d))
		case snapshot.Warning:
			r.Warnings = append(r.Warnings, said(d))
		}
	}
	if r.Allowed && len(v.Changes) > 0 {
		patch, err := json.Marshal(patchOf(v.Changes))
		if err == nil {
			r.PatchType, r.Patch = "JSONPatch", base64.StdEncoding.EncodeToString(patch)
		}
	}
	return r
}

func decodeRequest(text []byte) (*snapshot.Object, []snapshot.Diagnostic) {
	if len(text) == 0 || string(text) == "null" {
		return nil, nil
	}
	return api.Decode(text, snapshot.Source{}, nil)
}

// said renders a finding for the client of the API server.
func said(d snapshot.Diagnostic) string {
	s := d.Message
	if d.Path != "" {
		s = d.Path + ": " + s
	}
	if d.Policy != "" {
		s += fmt.Sprintf(" (policy %s", d.Policy)
		if at := d.Rule.String(); at != "" {
			s += ", " + at
		}
		s += ")"
	}
	return s + " [" + d.Code.ID + "]"
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
