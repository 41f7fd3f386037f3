package kube_test

import (
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/chancery-gateway/chancery/snapshot"
	"github.com/chancery-gateway/chancery/snapshot/kube"
)

// deaf leaves the first questions for a definition as a whole without an answer.
type deaf struct {
	http.RoundTripper
	left *atomic.Int64
}

func (d deaf) RoundTrip(r *http.Request) (*http.Response, error) {
	whole := !strings.Contains(r.Header.Get("Accept"), "PartialObjectMetadata")
	if whole && strings.HasSuffix(r.URL.Path, "/mappings.getambassador.io") && d.left.Add(-1) >= 0 {
		return nil, http.ErrHandlerTimeout
	}
	return d.RoundTripper.RoundTrip(r)
}

// What could not be learnt of a definition is asked for again: without it objects would be taken for converted that are not.
func TestDefinitionsAreAskedForAgain(t *testing.T) {
	c, client, ns := bed(t)
	client.Apply(fmt.Sprintf("{apiVersion: getambassador.io/v2, kind: Mapping, metadata: {name: m, namespace: %s}, spec: {host: old.example.com, prefix: /, service: q}}", ns))
	var left atomic.Int64
	left.Store(1)
	config := c.Config()
	config.Wrap(func(next http.RoundTripper) http.RoundTripper { return deaf{next, &left} })
	w := start(t, kube.Options{Config: config, Namespace: ns})
	w.until("the Mapping of v2 is read as it was written", func(s *snapshot.Snapshot) bool {
		m := mapping(s, ns, "m")
		return m != nil && m.Hostname == "old.example.com"
	})
	if left.Load() >= 0 {
		t.Error("the definition was not asked for")
	}
}
