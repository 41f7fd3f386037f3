package kube_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/chancery-gateway/chancery/snapshot"
	"github.com/chancery-gateway/chancery/snapshot/api"
	"github.com/chancery-gateway/chancery/snapshot/api/v3alpha1"
	"github.com/chancery-gateway/chancery/snapshot/kube"
)

// Whoever asks what there would be with an object is given the Secrets that it alone mentions; no snapshot has them for that.
func TestSecretsThatAQuestionMentions(t *testing.T) {
	c, client, ns := bed(t)
	host := `{"apiVersion": "getambassador.io/v3alpha1", "kind": "Host", "metadata": {"name": %q, "namespace": %q}, "spec": {"hostname": "a.example.com", "tlsSecret": {"name": %q}}}`
	client.Apply(fmt.Sprintf(oneSecret, "used", ns, "kubernetes.io/tls", "one") + fmt.Sprintf(oneSecret, "idle", ns, "kubernetes.io/tls", "two") + "---\n" + fmt.Sprintf(host, "h", ns, "used"))
	w := start(t, kube.Options{Config: c.Config(), Namespace: ns})
	w.until("the Host and its Secret", func(s *snapshot.Snapshot) bool {
		return s.Get(v3alpha1.KindHost, ns, "h") != nil && crt(s, ns, "used") == "one"
	})
	ask := func(ctx context.Context, secret string) string {
		o, found := api.Decode(fmt.Appendf(nil, host, "new", ns, secret), snapshot.Source{}, nil)
		if o == nil {
			t.Fatal(found)
		}
		text := ""
		for _, s := range w.Mentioned(ctx, o) {
			text += s.Name + " " + string(s.Spec.(*snapshot.Secret).Data["tls.crt"])
		}
		return text
	}
	for secret, want := range map[string]string{"idle": "idle two", "used": "", "none": ""} {
		if got := ask(t.Context(), secret); got != want {
			t.Errorf("a Host that mentions %s is given %q, not %q", secret, got, want)
		}
	}
	late, cancel := context.WithCancel(t.Context())
	cancel()
	if got := ask(late, "idle"); got != "" {
		t.Errorf("a question that nobody waits for is given %q", got)
	}
	if crt(w.now(), ns, "idle") != "" {
		t.Error("a question let the snapshot have a Secret")
	}
}
