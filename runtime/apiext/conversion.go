// Package apiext lets the API server read and write Emissary's objects in all their versions: it answers its conversion
// reviews over HTTPS, and keeps the custom resource definitions pointed at itself.
package apiext

import (
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"runtime/debug"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/chancery-gateway/chancery/snapshot/api"
)

// Path is where reviews are posted to, the same as in Emissary.
const Path = "/webhooks/crd-convert"

// largest is the most that a review may be, in bytes: etcd takes objects of 1.5 MB, and the API server asks for one, or for
// the items of one page of a list.
const largest = 64 << 20

// review is a ConversionReview. Source: Kubernetes documentation, "Versions in CustomResourceDefinitions", Webhook request
// and response.
type review struct {
	APIVersion string    `json:"apiVersion"`
	Kind       string    `json:"kind"`
	Request    *request  `json:"request,omitzero"`
	Response   *response `json:"response,omitzero"`
}

type request struct {
	UID               string           `json:"uid"`
	DesiredAPIVersion string           `json:"desiredAPIVersion"`
	Objects           []jsontext.Value `json:"objects"`
}

type response struct {
	UID              string           `json:"uid"`
	ConvertedObjects []jsontext.Value `json:"convertedObjects"`
	Result           result           `json:"result"`
}

type result struct {
	Status  string `json:"status"`
	Message string `json:"message,omitzero"`
}

const reviewVersion, reviewKind = "apiextensions.k8s.io/v1", "ConversionReview"

// Conversion answers reviews. Whatever is asked, the answer is a review, so that the API server tells its client what was
// wrong.
type Conversion struct {
	// Largest is the most that a review may be, in bytes; default 64 MiB.
	Largest int64
	Log     *slog.Logger
}

// ServeHTTP implements http.Handler.
func (c *Conversion) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.Method != http.MethodPost {
		w.Header().Set("Allow", http.MethodPost)
		http.Error(w, "reviews are posted", http.StatusMethodNotAllowed)
		return
	}
	most := c.Largest
	if most <= 0 {
		most = largest
	}
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, most))
	var answer *response
	if err != nil {
		answer = failed("", fmt.Sprintf("the ConversionReview cannot be read: %v; at most %d bytes are taken", err, most))
	} else {
		answer = c.Answer(body)
	}
	if answer.Result.Status != success {
		c.Log.Warn("objects are not converted", "reason", answer.Result.Message)
	}
	text, err := json.Marshal(review{APIVersion: reviewVersion, Kind: reviewKind, Response: answer})
	if err != nil { // a converted object that is no JSON, which Convert never makes
		text, _ = json.Marshal(review{APIVersion: reviewVersion, Kind: reviewKind, Response: failed(answer.UID, err.Error())})
	}
	w.Header().Set("Content-Type", "application/json")
	_, _ = w.Write(text) // a client that left needs no answer
}

const success = "Success"

func failed(uid, message string) *response {
	return &response{UID: uid, ConvertedObjects: []jsontext.Value{}, Result: result{Status: "Failure", Message: message}}
}

// Answer answers one review, JSON. The converted objects stand in the order of those asked for.
func (c *Conversion) Answer(body []byte) (answer *response) {
	uid := ""
	defer func() {
		if p := recover(); p != nil {
			c.Log.Error("a conversion failed", "panic", p, "stack", string(debug.Stack()))
			answer = failed(uid, fmt.Sprintf("the conversion failed, which is a fault of Chancery's: %v", p))
		}
	}()
	var asked review
	if err := json.Unmarshal(body, &asked); err != nil {
		var least struct {
			Request struct {
				UID string `json:"uid"`
			} `json:"request"`
		}
		_ = json.Unmarshal(body, &least) // an answer without uid says what is wrong as well
		return failed(least.Request.UID, "the ConversionReview cannot be read: "+err.Error())
	}
	q := asked.Request
	if q == nil {
		return failed("", "the ConversionReview has no request")
	}
	uid = q.UID
	if asked.Kind != reviewKind || asked.APIVersion != reviewVersion {
		return failed(uid, fmt.Sprintf("expected a %s of %s, found a %q of %q", reviewKind, reviewVersion, asked.Kind, asked.APIVersion))
	}
	converted := make([]jsontext.Value, len(q.Objects))
	for i, object := range q.Objects {
		out, err := api.Convert(object, q.DesiredAPIVersion)
		if err != nil {
			return failed(uid, fmt.Sprintf("object %d of %d%s: %v", i+1, len(q.Objects), named(object), err))
		}
		converted[i] = out
	}
	return &response{UID: uid, ConvertedObjects: converted, Result: result{Status: success}}
}

// named returns what an object is called, after a comma, where it says so.
func named(object jsontext.Value) string {
	var o struct {
		Kind     string `json:"kind"`
		Metadata struct {
			Name      string `json:"name"`
			Namespace string `json:"namespace"`
		} `json:"metadata"`
	}
	if json.Unmarshal(object, &o) != nil || o.Metadata.Name == "" {
		return ""
	}
	return fmt.Sprintf(", %s %s/%s", o.Kind, o.Metadata.Namespace, o.Metadata.Name)
}
