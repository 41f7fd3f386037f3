package kube_test

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/chancery-gateway/chancery/snapshot"
	"github.com/chancery-gateway/chancery/snapshot/api/v3alpha1"
	"github.com/chancery-gateway/chancery/snapshot/kube"
	"github.com/chancery-gateway/chancery/snapshot/kube/kubetest"
)

// safeBuffer is a text that several write.
type safeBuffer struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (b *safeBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.Write(p)
}

func (b *safeBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.String()
}

// TestConversionWebhookThatIsDown: what is stored cannot be read for want of a conversion; what was read last stays in
// force, what the API server says is a finding, and all goes on when the webhook is back.
func TestConversionWebhookThatIsDown(t *testing.T) {
	c, client := alone(t)
	client.Apply(definitions(t))
	var crd *unstructured.Unstructured
	for _, o := range kubetest.Objects(t, []byte(definitions(t))) {
		if o.GetName() == "mappings.getambassador.io" {
			crd = o
		}
	}
	// The definition of a cluster where v2 is what is stored, as Emissary has it.
	apply := func(conversion map[string]any) {
		t.Helper()
		versions, _, _ := unstructured.NestedSlice(crd.Object, "spec", "versions")
		for _, v := range versions {
			version := v.(map[string]any)
			version["storage"] = version["name"] == "v2"
		}
		crd.Object["spec"].(map[string]any)["versions"], crd.Object["spec"].(map[string]any)["conversion"] = versions, conversion
		if _, err := client.TryApply(crd); err != nil {
			t.Fatal(err)
		}
	}
	none := map[string]any{"strategy": "None"}
	apply(none)
	v2 := strings.NewReplacer("v3alpha1", "v2", `hostname: "*", `, "").Replace
	client.Apply(v2(fmt.Sprintf(oneMapping, "m", "default", "/m/")))
	w := start(t, kube.Options{Config: c.Config(), Rescan: time.Second})
	w.until("the Mapping", func(s *snapshot.Snapshot) bool { return mapping(s, "default", "m") != nil })

	apply(map[string]any{"strategy": "Webhook", "webhook": map[string]any{"conversionReviewVersions": []any{"v1"}, "clientConfig": map[string]any{"url": "https://127.0.0.1:1/convert"}}})
	n := w.delivered()
	c.KillAPIServer() // it remembers nothing that was converted before
	if err := c.StartAPIServer(); err != nil {
		t.Fatal(err)
	}
	client.Apply("{apiVersion: v1, kind: Service, metadata: {name: meanwhile, namespace: default}, spec: {ports: [{port: 80}]}}")
	w.until("another kind goes on", func(s *snapshot.Snapshot) bool { return s.Get(snapshot.KindService, "default", "meanwhile") != nil })

	took := kubetest.Eventually(t, patience, "what the API server says of it", func(context.Context) bool { return codes(w.now()) == "CH-KUBE-005 Mapping" })
	t.Logf("told after %s", took) // client-go asks ten times before it says so
	for _, d := range w.now().Findings() {
		if !strings.Contains(d.Message, "conversion webhook") {
			t.Errorf("the finding is %s", d)
		}
	}
	// A source that starts now waits for the kind, since without it routes would be closed, and says for what and how long.
	var log safeBuffer
	late, err := kube.New(kube.Options{Config: c.Config(), Logger: slog.New(slog.NewTextHandler(&log, nil))})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	first := make(chan *snapshot.Snapshot, 1)
	ended := make(chan error, 1)
	defer func() {
		if t.Failed() {
			t.Logf("log of the second source:\n%s", log.String())
		}
	}()
	go func() {
		ended <- late.Run(ctx, func(s *snapshot.Snapshot) {
			select {
			case first <- s:
			default:
			}
		})
	}()
	kubetest.Eventually(t, patience, "it says what it waits for", func(context.Context) bool {
		return strings.Contains(log.String(), "kind=mappings.getambassador.io for=2m0s")
	})

	apply(none)
	select {
	case s := <-first:
		if mapping(s, "default", "m") == nil {
			t.Error("the first snapshot lacks the Mapping")
		}
	case <-time.After(patience):
		t.Error("there is no first snapshot")
	}
	cancel()
	if err := <-ended; err != nil {
		t.Error(err)
	}
	client.Apply(v2(fmt.Sprintf(oneMapping, "late", "default", "/late/")))
	w.until("a Mapping made afterwards", func(s *snapshot.Snapshot) bool { return mapping(s, "default", "late") != nil && codes(s) == "" })
	for _, s := range w.since(n) {
		if s.Len(v3alpha1.KindMapping) == 0 {
			t.Errorf("a snapshot lacks the Mapping")
		}
	}
}
