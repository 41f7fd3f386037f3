package apiext_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/chancery-gateway/chancery/runtime/apiext"
)

// answered is the answer to a review.
type answered struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
	Response   struct {
		UID              string            `json:"uid"`
		ConvertedObjects []json.RawMessage `json:"convertedObjects"`
		Result           struct {
			Status  string `json:"status"`
			Message string `json:"message"`
		} `json:"result"`
	} `json:"response"`
}

func post(t *testing.T, c *apiext.Conversion, body io.Reader) answered {
	t.Helper()
	w := httptest.NewRecorder()
	c.ServeHTTP(w, httptest.NewRequest(http.MethodPost, apiext.Path, body))
	if w.Code != http.StatusOK || w.Header().Get("Content-Type") != "application/json" {
		t.Fatalf("status %d, %s", w.Code, w.Header().Get("Content-Type"))
	}
	var a answered
	if err := json.Unmarshal(w.Body.Bytes(), &a); err != nil {
		t.Fatalf("%v: %s", err, w.Body)
	}
	if a.APIVersion != "apiextensions.k8s.io/v1" || a.Kind != "ConversionReview" || a.Response.ConvertedObjects == nil {
		t.Fatalf("the answer is %s", w.Body)
	}
	return a
}

func quiet() *slog.Logger { return slog.New(slog.DiscardHandler) }

func ask(version string, objects ...string) string {
	return fmt.Sprintf(`{"apiVersion":"apiextensions.k8s.io/v1","kind":"ConversionReview","request":{"uid":"u","desiredAPIVersion":%q,"objects":[%s]}}`,
		version, strings.Join(objects, ","))
}

func TestABatchIsAnsweredInItsOrder(t *testing.T) {
	var objects []string
	for i := range 50 {
		version := []string{"v1", "v2", "v3alpha1"}[i%3]
		objects = append(objects, fmt.Sprintf(`{"apiVersion":"getambassador.io/%s","kind":"Mapping","metadata":{"name":"m%d","namespace":"n"},"spec":{"prefix":"/%d/","service":"s"}}`, version, i, i))
	}
	a := post(t, &apiext.Conversion{Log: quiet()}, strings.NewReader(ask("getambassador.io/v2", objects...)))
	if a.Response.Result.Status != "Success" || a.Response.UID != "u" || len(a.Response.ConvertedObjects) != len(objects) {
		t.Fatalf("%+v", a.Response.Result)
	}
	for i, text := range a.Response.ConvertedObjects {
		var o struct {
			APIVersion string `json:"apiVersion"`
			Metadata   struct{ Name string }
			Spec       struct{ Prefix string }
		}
		if err := json.Unmarshal(text, &o); err != nil {
			t.Fatal(err)
		}
		if o.APIVersion != "getambassador.io/v2" || o.Metadata.Name != fmt.Sprintf("m%d", i) || o.Spec.Prefix != fmt.Sprintf("/%d/", i) {
			t.Errorf("object %d is %s", i, text)
		}
	}
}

func TestAnEmptyBatch(t *testing.T) {
	if a := post(t, &apiext.Conversion{Log: quiet()}, strings.NewReader(ask("getambassador.io/v2"))); a.Response.Result.Status != "Success" {
		t.Errorf("%+v", a.Response)
	}
}

// Whatever comes, the answer is a failed review with a sentence.
func TestHostileReviews(t *testing.T) {
	good := `{"apiVersion":"getambassador.io/v2","kind":"Mapping","metadata":{"name":"m","namespace":"n"}}`
	for _, x := range []struct{ name, body, uid, want string }{
		{"nothing", ``, "", "the ConversionReview cannot be read: "},
		{"no JSON", `{"request":`, "", "the ConversionReview cannot be read: "},
		{"a list", `[]`, "", "the ConversionReview cannot be read: "},
		{"null", `null`, "", "the ConversionReview has no request"},
		{"deep", strings.Repeat("[", 100000), "", "the ConversionReview cannot be read: "},
		{"deep objects", ask("getambassador.io/v2", strings.Repeat(`{"a":`, 20000)+"1"+strings.Repeat("}", 20000)), "u", "exceeded max depth"},
		{"no request", `{"apiVersion":"apiextensions.k8s.io/v1","kind":"ConversionReview"}`, "", "the ConversionReview has no request"},
		{"objects of another shape", `{"apiVersion":"apiextensions.k8s.io/v1","kind":"ConversionReview","request":{"uid":"u","objects":{"a":1}}}`, "u", "the ConversionReview cannot be read: "},
		{"a name twice", `{"apiVersion":"apiextensions.k8s.io/v1","kind":"ConversionReview","request":{"uid":"u","objects":[{"a":1,"a":2}]}}`, "u", `duplicate object member name "a"`},
		{"no UTF-8", ask("getambassador.io/v2", "{\"a\":\"\xff\"}"), "u", "invalid UTF-8"},
		{"an older review", strings.ReplaceAll(ask("getambassador.io/v2", good), "apiextensions.k8s.io/v1", "apiextensions.k8s.io/v1beta1"), "u", `expected a ConversionReview of apiextensions.k8s.io/v1, found a "ConversionReview" of "apiextensions.k8s.io/v1beta1"`},
		{"another review", strings.ReplaceAll(ask("getambassador.io/v2", good), "ConversionReview", "AdmissionReview"), "u", `found a "AdmissionReview"`},
		{"an unknown version", ask("getambassador.io/v9", good), "u", `object 1 of 1, Mapping n/m: Mapping has no version "v9", only v3alpha1, v2, v1`},
		{"an object of an unknown version", ask("getambassador.io/v2", strings.ReplaceAll(good, "/v2", "/v9")), "u", `Mapping has no version "v9"`},
		{"another group", ask("getambassador.io/v2", good, `{"apiVersion":"apps/v1","kind":"Deployment","metadata":{"name":"d"}}`), "u", `object 2 of 2, Deployment /d: "apps/v1" is no version of the group getambassador.io`},
		{"to another group", ask("apps/v1", good), "u", `"apps/v1" is no version of the group getambassador.io`},
		{"an unknown kind", ask("getambassador.io/v2", strings.ReplaceAll(good, "Mapping", "Gadget")), "u", `the group getambassador.io has no kind "Gadget"`},
		{"no object", ask("getambassador.io/v2", "null"), "u", "object 1 of 1: the object is null, not a JSON object"},
		{"a number", ask("getambassador.io/v2", "7"), "u", "the object is a number, not a JSON object"},
	} {
		t.Run(x.name, func(t *testing.T) {
			a := post(t, &apiext.Conversion{Log: quiet()}, strings.NewReader(x.body))
			if r := a.Response; r.Result.Status != "Failure" || !strings.Contains(r.Result.Message, x.want) || r.UID != x.uid || len(r.ConvertedObjects) > 0 {
				t.Errorf("the answer is %+v, not %q for %q", r, x.want, x.uid)
			}
		})
	}
}

func TestAReviewThatIsTooLarge(t *testing.T) {
	a := post(t, &apiext.Conversion{Log: quiet(), Largest: 1000}, io.LimitReader(spaces{}, 1<<20))
	if want := "at most 1000 bytes are taken"; a.Response.Result.Status != "Failure" || !strings.Contains(a.Response.Result.Message, want) {
		t.Errorf("%+v", a.Response.Result)
	}
}

// spaces never ends.
type spaces struct{}

func (spaces) Read(p []byte) (int, error) { return copy(p, bytes.Repeat([]byte(" "), len(p))), nil }

func TestReviewsArePosted(t *testing.T) {
	w := httptest.NewRecorder()
	(&apiext.Conversion{Log: quiet()}).ServeHTTP(w, httptest.NewRequest(http.MethodGet, apiext.Path, nil))
	if w.Code != http.StatusMethodNotAllowed {
		t.Errorf("status %d", w.Code)
	}
}

// FuzzReview shows that nothing that is posted ends the server, and that every answer is a review.
func FuzzReview(f *testing.F) {
	f.Add([]byte(ask("getambassador.io/v2", `{"apiVersion":"getambassador.io/v3alpha1","kind":"Mapping","metadata":{"annotations":{"chancery.dev/kept-v2":"{}"}},"spec":{"labels":{"a":[{"b":[1]}]}}}`)))
	f.Add([]byte(`{`))
	f.Fuzz(func(t *testing.T, body []byte) {
		a := post(t, &apiext.Conversion{Log: slog.New(slog.NewTextHandler(t.Output(), nil))}, bytes.NewReader(body))
		switch a.Response.Result.Status {
		case "Success":
		case "Failure":
			if a.Response.Result.Message == "" || strings.Contains(a.Response.Result.Message, "fault of Chancery's") {
				t.Errorf("%s: %+v", body, a.Response)
			}
		default:
			t.Errorf("%s: %+v", body, a.Response)
		}
	})
}

// BenchmarkReview is the cost of an object in a review of many, the review's own JSON included.
func BenchmarkReview(b *testing.B) {
	const n = 500
	objects := make([]string, n)
	for i := range objects {
		objects[i] = fmt.Sprintf(`{"apiVersion":"getambassador.io/v2","kind":"Mapping","metadata":{"name":"m%d","namespace":"n","uid":"u"},"spec":{"ambassador_id":"edge","prefix":"/%d/","service":"shop:8080","host":"shop.example.com","tls":true,"timeout_ms":3000,"headers":{"x-a":true},"cors":{"origins":"a,b"},"add_request_headers":{"x-b":"c"}}}`, i, i)
	}
	c, body := &apiext.Conversion{Log: quiet()}, []byte(ask("getambassador.io/v3alpha1", objects...))
	b.ReportAllocs()
	for b.Loop() {
		r := httptest.NewRequest(http.MethodPost, apiext.Path, bytes.NewReader(body))
		w := httptest.NewRecorder()
		if c.ServeHTTP(w, r); w.Code != http.StatusOK {
			b.Fatal(w.Code)
		}
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/n, "ns/object")
}
