package webhook_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/chancery-gateway/chancery/runtime/pipeline"
	"github.com/chancery-gateway/chancery/runtime/webhook"
	"github.com/chancery-gateway/chancery/snapshot"
	"github.com/chancery-gateway/chancery/snapshot/api"
	"github.com/chancery-gateway/chancery/translators"
	"github.com/chancery-gateway/chancery/translators/emissary"
	"github.com/chancery-gateway/chancery/translators/ir"
	"github.com/chancery-gateway/chancery/xds/validator"
)

func object(t testing.TB, format string, args ...any) *snapshot.Object {
	t.Helper()
	o, found := api.Decode(fmt.Appendf(nil, format, args...), snapshot.Source{}, nil)
	if o == nil {
		t.Fatal(found)
	}
	return o
}

const (
	mapping = `{"apiVersion": "getambassador.io/v3alpha1", "kind": "Mapping", "metadata": {"name": "m%d"}, "spec": {"hostname": "*", "prefix": %q, "prefix_regex": %t, "service": "http://127.0.0.1:1"}}`
	any3    = `{"apiVersion": "getambassador.io/v3alpha1", "kind": %q, "metadata": {"name": %q}, "spec": {%s}}`
)

const (
	listenerSpec = `"port": 8080, "protocol": "HTTP", "securityModel": "INSECURE", "hostBinding": {"namespace": {"from": "ALL"}}`
	routed       = `, "requestPolicy": {"insecure": {"action": "Route"}}`
)

// world returns a Listener, an open Host and many Mappings.
func world(t testing.TB, many int) []*snapshot.Object {
	all := []*snapshot.Object{
		object(t, any3, "Listener", "l", listenerSpec),
		object(t, any3, "Host", "h", `"hostname": "*"`+routed),
	}
	for i := range many {
		all = append(all, object(t, mapping, i, fmt.Sprintf("/%d/", i), false))
	}
	return all
}

func newTrial() *webhook.Trial {
	return &webhook.Trial{NewCompiler: func() pipeline.Compiler {
		return translators.New(translators.Options{FrontEnds: []translators.FrontEnd{emissary.New(emissary.Options{AmbassadorID: "default", Namespace: "default", BindAddress: "0.0.0.0", ReadyPort: 8006})}})
	}}
}

func grave(d snapshot.Diagnostic) bool { return d.Severity == snapshot.Error }

func TestTrialSaysWhatACompileWouldSay(t *testing.T) {
	const many = 5000
	all := world(t, many)
	trial := newTrial()
	if _, err := trial.Review(t.Context(), all[2]); !errors.Is(err, webhook.ErrEarly) {
		t.Errorf("before there is a snapshot there is the verdict %v", err)
	}
	trial.Observe(snapshot.Empty().Derive(all, nil, nil))
	out, err := trial.Review(t.Context(), object(t, mapping, 1, "/(", true))
	if err != nil || len(out.Others) != 0 || !slices.ContainsFunc(out.Own, func(d snapshot.Diagnostic) bool { return d.Code.ID == "CH-MAPPING-002" && grave(d) }) {
		t.Errorf("a wrong change gives %+v, %v", out, err)
	}
	for i := range 20 {
		out, err := trial.Review(t.Context(), object(t, mapping, many+i, "/new/", false))
		if err != nil || slices.ContainsFunc(out.Own, grave) || len(out.Others) != 0 || len(out.Effects.Sentences) != 0 || out.Effects.Added != 1 || out.Effects.Changed != 0 || out.Effects.Removed != 0 {
			t.Fatalf("a good one gives %+v, %v", out, err)
		}
	}
	// What is wrong with one object is not said of the next.
	if out, err := trial.Review(t.Context(), all[3]); err != nil || slices.ContainsFunc(out.Own, grave) || out.Effects.Added+out.Effects.Changed+out.Effects.Removed != 0 {
		t.Errorf("the object that was wrong in the trial is wrong for good: %+v, %v", out, err)
	}
	late, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := trial.Review(late, all[3]); err == nil {
		t.Error("a review that came too late has a verdict")
	}
}

func TestTrialSaysWhatWouldChange(t *testing.T) {
	base := world(t, 6)
	young := func(o *snapshot.Object) *snapshot.Object { o.Created = time.Now(); return o }
	for _, c := range []struct {
		name string
		with *snapshot.Object // nil for a deletion of what
		what snapshot.Ref
		want []string
	}{
		{"nothing", base[2], snapshot.Ref{}, nil},
		{"a route of its own", object(t, mapping, 9, "/9/", false), snapshot.Ref{}, nil},
		{"a host name of a wildcard", young(object(t, any3, "Host", "shop", `"hostname": "shop.example.com"`+routed)), snapshot.Ref{},
			[]string{"takes over host shop.example.com from Host/default/h"}},
		{"a listener", object(t, any3, "Listener", "l", listenerSpec+`, "l7Depth": 2`), snapshot.Ref{}, []string{"drains "}},
		{"a split", object(t, any3, "Mapping", "n", `"hostname": "*", "prefix": "/3/", "service": "other:80", "weight": 10`), snapshot.Ref{},
			[]string{"shares prefix /3/ on *: 10 % forward to ", " with Mapping/default/m3"}},
		{"a route before all", object(t, any3, "Mapping", "n", `"hostname": "*", "prefix": "/", "service": "other:80", "precedence": 5`), snapshot.Ref{},
			[]string{"shadows prefix /", " more) of ", "Mapping/default/m5"}},
		{"a host that goes", nil, base[1].Ref, []string{"loses host * to Host/default/default-host"}},
		{"a listener that goes", nil, base[0].Ref, []string{"drains listener ", " because the listener is removed", "ends prefix /0/ on * (and 8 more) of Mapping/default/m0, "}},
	} {
		t.Run(c.name, func(t *testing.T) {
			trial := newTrial()
			trial.Observe(snapshot.Empty().Derive(base, nil, nil))
			out, err := trial.Without(t.Context(), c.what)
			if c.with != nil {
				out, err = trial.Review(t.Context(), c.with)
			}
			if err != nil {
				t.Fatal(err)
			}
			said := strings.Join(out.Effects.Sentences, "\n")
			if (len(c.want) == 0) != (said == "") {
				t.Errorf("what is said is %q", said)
			}
			for _, w := range c.want {
				if !strings.Contains(said, w) {
					t.Errorf("what is said is %q, not %q", said, w)
				}
			}
		})
	}
	t.Run("a route behind another", func(t *testing.T) {
		trial := newTrial()
		first := object(t, any3, "Mapping", "first", `"hostname": "*", "prefix": "/", "service": "other:80", "precedence": 5`)
		trial.Observe(snapshot.Empty().Derive(append(slices.Clone(base), first), nil, nil))
		out, err := trial.Review(t.Context(), object(t, mapping, 9, "/9/", false))
		if want := []string{"loses prefix /9/ on * to what stands before it: Mapping/default/first"}; err != nil || !slices.Equal(out.Effects.Sentences, want) {
			t.Errorf("what is said is %q, %v", out.Effects.Sentences, err)
		}
	})
}

// refusing is an Envoy that takes nothing that comes of one object.
type refusing struct{ object snapshot.Ref }

func (r refusing) Judge(_ context.Context, units []*ir.Unit) (validator.Verdicts, error) {
	v := validator.Verdicts{Refused: map[*ir.Unit]string{}}
	for _, u := range units {
		if len(u.Origins) == 1 && u.Origins[0] == r.object {
			v.Refused[u] = "Envoy's own words"
		}
	}
	return v, nil
}

func TestTrialAsksEnvoy(t *testing.T) {
	trial := newTrial()
	trial.Observe(snapshot.Empty().Derive(world(t, 3), nil, nil))
	bad := object(t, mapping, 9, "/9/", false)
	trial.Prove(refusing{bad.Ref})
	out, err := trial.Review(t.Context(), bad)
	if err != nil || !slices.ContainsFunc(out.Own, func(d snapshot.Diagnostic) bool {
		return grave(d) && d.Code.ID == "CH-PROOF-010" && strings.Contains(d.Message, "Envoy's own words") && !webhook.OfOthers(d.Code)
	}) {
		t.Errorf("what Envoy refuses gives %+v, %v", out, err)
	}
	if out, err := trial.Review(t.Context(), object(t, mapping, 8, "/8/", false)); err != nil || slices.ContainsFunc(out.Own, grave) {
		t.Errorf("what Envoy takes gives %+v, %v", out, err)
	}
}

// slow is a compiler that takes its time.
type slow struct {
	pipeline.Compiler
	begun, end chan struct{}
}

func (s slow) Compile(w *snapshot.Snapshot) *translators.Result {
	select {
	case s.begun <- struct{}{}: // the first time
		<-s.end
	case <-s.end:
	}
	return s.Compiler.Compile(w)
}

func TestReviewsDoNotWaitForever(t *testing.T) {
	fast := newTrial()
	s := slow{begun: make(chan struct{}), end: make(chan struct{})}
	trial := &webhook.Trial{NewCompiler: func() pipeline.Compiler { s.Compiler = fast.NewCompiler(); return s }}
	all := world(t, 2)
	trial.Observe(snapshot.Empty().Derive(all, nil, nil))
	first := make(chan error, 1)
	go func() {
		_, err := trial.Review(t.Context(), all[2])
		first <- err
	}()
	<-s.begun
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if out, err := trial.Review(ctx, all[3]); err == nil {
		t.Errorf("a review beside one that hangs gives %+v", out)
	}
	close(s.end)
	if err := <-first; err != nil {
		t.Error(err)
	}
	if _, err := trial.Review(t.Context(), all[3]); err != nil {
		t.Error(err)
	}
}

// BenchmarkReview is the time of one warm review among 5,000 Mappings: of the object alone, and after a change of another.
func BenchmarkReview(b *testing.B) {
	const many = 5000
	all := world(b, many)
	live := snapshot.Empty().Derive(all, nil, nil)
	trial := newTrial()
	trial.Observe(live)
	if _, err := trial.Review(b.Context(), all[2]); err != nil {
		b.Fatal(err)
	}
	b.Run("quiet", func(b *testing.B) {
		for i := range b.N {
			if _, err := trial.Review(b.Context(), object(b, mapping, many, fmt.Sprintf("/new/%d/", i), false)); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("beside changes", func(b *testing.B) {
		for i := range b.N {
			next := live.Derive([]*snapshot.Object{object(b, mapping, 7, fmt.Sprintf("/7/%d/", i), false)}, nil, nil)
			next.Forget()
			trial.Observe(next)
			if _, err := trial.Review(b.Context(), object(b, mapping, many, fmt.Sprintf("/new/%d/", i), false)); err != nil {
				b.Fatal(err)
			}
		}
	})
}
