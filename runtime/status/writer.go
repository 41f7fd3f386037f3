package status

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"maps"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"

	"github.com/chancery-gateway/chancery/snapshot"
)

// Options are what a writer works with.
type Options struct {
	// Config leads to the API server.
	Config *rest.Config
	// ID is the ambassador_id whose objects are ours; each has a leader of its own.
	ID string
	// Namespace is where the lease is.
	Namespace string
	// Identity tells replicas apart; default the host name with the process' number.
	Identity string
	// Lease is how long a leader that went silent is waited for; default 15 s.
	Lease time.Duration
	// Rate is the most requests a second; default 400.
	Rate float32
	// PublishAddresses are what the status of Ingresses says, IP addresses and host names. Without any it is what that of a
	// Service says: PublishService ("namespace/name", or a name in Namespace), else one in Namespace that is labelled
	// app.kubernetes.io/component: ambassador-service.
	PublishAddresses []string
	PublishService   string
	// Knative says that Knative's Ingresses are served.
	Knative bool
	Log     *slog.Logger
}

// Writer writes statuses while it is the leader.
type Writer struct {
	options Options
	client  dynamic.Interface
	leading atomic.Bool
	writes  atomic.Int64

	changed chan struct{}

	mu       sync.Mutex
	snapshot *snapshot.Snapshot
	findings []snapshot.Diagnostic
	// wanted is what there is to say, worked out of the two when they have changed.
	wanted map[snapshot.Ref]Outcome
	stale  bool
	// known is what the objects say, as far as this replica read or wrote it. It is empty after taking over.
	known map[snapshot.Ref]Outcome
	// unable are the kinds whose definition had no status when it was last tried.
	unable map[schema.GroupVersionResource]time.Time
	// addresses are the entries for Ingresses, JSON; "" while they are not known.
	addresses string
}

// New returns a writer that has not begun.
func New(o Options) (*Writer, error) {
	if o.Identity == "" {
		host, err := os.Hostname()
		if err != nil {
			return nil, fmt.Errorf("name of this host: %w", err)
		}
		o.Identity = fmt.Sprintf("%s-%d", host, os.Getpid())
	}
	if o.Lease <= 0 {
		o.Lease = 15 * time.Second
	}
	if o.Rate <= 0 {
		o.Rate = 400
	}
	config := rest.CopyConfig(o.Config)
	config.QPS, config.Burst = o.Rate, int(o.Rate)
	client, err := dynamic.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("client of the API server: %w", err)
	}
	return &Writer{options: o, client: client, changed: make(chan struct{}, 1), unable: map[schema.GroupVersionResource]time.Time{}}, nil
}

// Leading reports whether this replica is the one that writes.
func (w *Writer) Leading() bool { return w.leading.Load() }

// Writes returns how many statuses were written so far.
func (w *Writer) Writes() int64 { return w.writes.Load() }

// Observe takes the present state of things and returns at once. What it says replaces what earlier calls said.
func (w *Writer) Observe(s *snapshot.Snapshot, findings []snapshot.Diagnostic) {
	w.mu.Lock()
	w.snapshot, w.findings, w.stale = s, findings, true
	w.mu.Unlock()
	w.wake()
}

func (w *Writer) wake() {
	select {
	case w.changed <- struct{}{}:
	default:
	}
}

const (
	// pause lets what changes together be told together.
	pause = 100 * time.Millisecond
	// again is the time after which writes that failed are tried once more.
	again = 2 * time.Second
	// hands is how many objects are written at the same time.
	hands = 4
)

// lead writes until ctx ends.
func (w *Writer) lead(ctx context.Context) {
	w.mu.Lock()
	w.known = map[snapshot.Ref]Outcome{}
	w.mu.Unlock()
	w.leading.Store(true)
	defer w.leading.Store(false)
	var following sync.WaitGroup
	defer following.Wait()
	ctx, end := context.WithCancel(ctx)
	defer end()
	following.Go(func() { w.follow(ctx) })
	w.recall(ctx)
	retry := time.NewTimer(0)
	defer retry.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-w.changed:
		case <-retry.C:
		}
		if !sleep(ctx, pause) {
			return
		}
		if failed := w.round(ctx); failed > 0 {
			retry.Reset(again)
		}
	}
}

func sleep(ctx context.Context, d time.Duration) bool {
	select {
	case <-ctx.Done():
		return false
	case <-time.After(d):
		return true
	}
}

// look works out what there is to say. The lock is held.
func (w *Writer) look() {
	if w.stale && w.snapshot != nil {
		w.wanted, w.stale = Outcomes(w.snapshot, w.findings, w.options.ID), false
		maps.Copy(w.wanted, ingresses(w.snapshot, w.options.ID, w.addresses))
		if w.options.Knative {
			maps.Copy(w.wanted, knatives(w.snapshot, w.findings, w.options.ID, w.domain(w.snapshot)))
		}
	}
}

// recall notes which objects say already what there is to say: those that the leader before this one wrote.
func (w *Writer) recall(ctx context.Context) {
	for _, k := range byKind {
		if k.GroupKind == snapshot.KindKnativeIngress && !w.options.Knative {
			continue
		}
		resource := k.resource()
		for o := (metav1.ListOptions{Limit: 500}); ; {
			list, err := w.client.Resource(resource).List(ctx, o)
			if err != nil {
				break // each is asked for when it is its turn
			}
			w.mu.Lock()
			w.look()
			for i := range list.Items {
				u := &list.Items[i]
				r := snapshot.Ref{Group: k.Group, Kind: k.Kind, Namespace: u.GetNamespace(), Name: u.GetName()}
				want, ours := w.wanted[r]
				if !ours || want.UID != "" && want.UID != string(u.GetUID()) {
					continue
				}
				if _, _, needed := w.compose(u, r, want); !needed {
					w.known[r] = want
				}
			}
			w.mu.Unlock()
			if o.Continue = list.GetContinue(); o.Continue == "" {
				break
			}
		}
	}
}

// round writes whatever is not said yet, what is wrong first, and returns how many objects could not be written.
func (w *Writer) round(ctx context.Context) (failed int) {
	w.mu.Lock()
	w.look()
	var todo []snapshot.Ref
	for r, want := range w.wanted {
		if is, known := w.known[r]; !known || is != want {
			todo = append(todo, r)
		}
	}
	for r := range w.known {
		if _, there := w.wanted[r]; !there {
			delete(w.known, r)
		}
	}
	wanted := w.wanted
	w.mu.Unlock()
	slices.SortFunc(todo, func(a, b snapshot.Ref) int {
		if x, y := wanted[a].Fault == "", wanted[b].Fault == ""; x != y {
			if y {
				return -1
			}
			return 1
		}
		return a.Compare(b)
	})
	var count atomic.Int64
	next := make(chan snapshot.Ref)
	var working sync.WaitGroup
	for range min(hands, len(todo)) {
		working.Go(func() {
			for r := range next {
				if err := w.write(ctx, r); err != nil && ctx.Err() == nil {
					count.Add(1)
					w.options.Log.Warn("a status cannot be written; it is tried again", "object", r.String(), "error", err)
				}
			}
		})
	}
	for _, r := range todo {
		if ctx.Err() != nil {
			break
		}
		next <- r
	}
	close(next)
	working.Wait()
	return int(count.Load())
}

// compose returns the merge patch that lets an object's status say what is wanted.
func (w *Writer) compose(o *unstructured.Unstructured, r snapshot.Ref, want Outcome) (patch map[string]any, turned, needed bool) {
	if r.GroupKind() == kindIngress {
		patch, needed = composeIngress(o, want)
		return patch, false, needed
	}
	if r.GroupKind() == snapshot.KindKnativeIngress {
		patch, needed = composeKnative(o, want, time.Now())
		return patch, false, needed
	}
	return compose(o, r, want, time.Now())
}

// write brings one object's status up to date. Only what is ours is touched, and only if nobody else wrote meanwhile.
func (w *Writer) write(ctx context.Context, r snapshot.Ref) error {
	for range 5 {
		w.mu.Lock()
		w.look()
		want, still := w.wanted[r]
		is, known := w.known[r]
		w.mu.Unlock()
		if !still || known && is == want {
			return nil
		}
		resource := byKind[r.GroupKind()].resource()
		if version, err := schema.ParseGroupVersion(want.APIVersion); err == nil && version.Group == r.Group { // no older spelling of the group
			resource.Version = version.Version
		}
		if w.without(resource) {
			return nil
		}
		client := w.client.Resource(resource).Namespace(r.Namespace)
		o, err := client.Get(ctx, r.Name, metav1.GetOptions{})
		if apierrors.IsNotFound(err) || err == nil && want.UID != "" && string(o.GetUID()) != want.UID {
			return nil // it was deleted, which the next round knows
		}
		if err != nil {
			return err
		}
		patch, turned, needed := w.compose(o, r, want)
		if needed {
			text, err := json.Marshal(patch)
			if err != nil {
				return err
			}
			w.writes.Add(1)
			_, err = client.Patch(ctx, r.Name, types.MergePatchType, text, metav1.PatchOptions{FieldManager: "chancery"}, "status")
			switch {
			case apierrors.IsConflict(err):
				continue
			case apierrors.IsNotFound(err):
				if _, err := client.Get(ctx, r.Name, metav1.GetOptions{}); err == nil {
					w.unfit(resource)
				}
				return nil
			case err != nil:
				return err
			}
			if turned {
				w.event(ctx, o, want)
			}
		}
		w.mu.Lock()
		w.known[r] = want
		w.mu.Unlock()
		return nil
	}
	return fmt.Errorf("others keep writing to it")
}

// anew is the time after which a definition that had no status is looked at again.
const anew = 5 * time.Minute

func (w *Writer) without(r schema.GroupVersionResource) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	at, unable := w.unable[r]
	return unable && time.Since(at) < anew
}

func (w *Writer) unfit(r schema.GroupVersionResource) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if _, known := w.unable[r]; !known {
		w.options.Log.Info("the definition of a kind has no status; nothing is written there", "kind", r.String())
	}
	w.unable[r] = time.Now()
}

// event tells of a turn for better or worse, where people look for it: kubectl describe.
func (w *Writer) event(ctx context.Context, o *unstructured.Unstructured, want Outcome) {
	kind, reason, message := "Normal", "Accepted", "is in effect"
	if want.Fault != "" {
		kind, reason, message = "Warning", "Rejected", want.Fault
		if want.Refused {
			reason = "RefusedByEnvoy"
		}
	}
	if len(message) > 1024 { // the API's own limit: Kubernetes API reference, Event v1
		message = join("", message)[:1000] + "…"
	}
	now := time.Now().UTC().Format(time.RFC3339)
	e := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "v1", "kind": "Event",
		"metadata": map[string]any{"generateName": o.GetName() + ".", "namespace": o.GetNamespace()},
		"involvedObject": map[string]any{"apiVersion": o.GetAPIVersion(), "kind": o.GetKind(), "namespace": o.GetNamespace(),
			"name": o.GetName(), "uid": string(o.GetUID())},
		"type": kind, "reason": reason, "message": message, "count": int64(1), "firstTimestamp": now, "lastTimestamp": now,
		"source": map[string]any{"component": "chancery"}, "reportingComponent": "chancery", "reportingInstance": w.options.Identity,
	}}
	resource := schema.GroupVersionResource{Version: "v1", Resource: "events"}
	if _, err := w.client.Resource(resource).Namespace(o.GetNamespace()).Create(ctx, e, metav1.CreateOptions{}); err != nil && ctx.Err() == nil {
		w.options.Log.Debug("an Event cannot be written", "object", o.GetKind()+"/"+o.GetNamespace()+"/"+o.GetName(), "error", err)
	}
}
