package status

import (
	"cmp"
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
	"github.com/chancery-gateway/chancery/translators/ingress"
	"github.com/chancery-gateway/chancery/translators/ir"
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
	observed Observation
	// wanted is what there is to say, worked out of what was observed when that has changed; waiting are the objects whose form no
	// Envoy has answered yet, held those that a round met so, and since when.
	wanted  map[snapshot.Ref]Outcome
	waiting map[snapshot.Ref]bool
	held    map[snapshot.Ref]time.Time
	stale   bool
	// queued are those that were to be written by the last round, which ended before their turn.
	queued map[snapshot.Ref]bool
	// known is what the objects say, as far as this replica read or wrote it. It is empty after taking over. stray are those
	// that were found to say what is not ours to say any more.
	known map[snapshot.Ref]Outcome
	stray map[snapshot.Ref]bool
	// unable are the kinds whose definition had no status when it was last tried.
	unable map[schema.GroupVersionResource]time.Time
	// addresses are the entries for Ingresses, JSON; "" while they are not known.
	addresses string
}

// Observation is the present state of things.
type Observation struct {
	Snapshot *snapshot.Snapshot
	Findings []snapshot.Diagnostic
	// Statuses are what the translation says of Gateway API's objects, Answered what it said in the last configuration that an
	// Envoy has answered as a whole. Both are sorted; statuses that say the same have the same pointer.
	Statuses, Answered []*ir.Status
	// Program is what was linked of it: Ingresses that it has no route of are not served.
	Program *ir.Program
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
func (w *Writer) Observe(o Observation) {
	w.mu.Lock()
	w.observed, w.stale = o, true
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
	// stint is how long a round goes on although something has changed: the next one begins with what is new.
	stint = 500 * time.Millisecond
)

// lead writes until ctx ends.
func (w *Writer) lead(ctx context.Context) {
	w.mu.Lock()
	w.known, w.stray, w.held = map[snapshot.Ref]Outcome{}, map[snapshot.Ref]bool{}, map[snapshot.Ref]time.Time{}
	w.mu.Unlock()
	w.leading.Store(true)
	defer w.leading.Store(false)
	var following sync.WaitGroup
	defer following.Wait()
	ctx, end := context.WithCancel(ctx)
	defer end()
	following.Go(func() { w.follow(ctx) })
	for !w.begun() { // before that it is not known what objects should say
		select {
		case <-ctx.Done():
			return
		case <-w.changed:
		}
	}
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
		if next := w.round(ctx); next > 0 {
			retry.Reset(next)
		}
	}
}

// begun reports whether anything has been observed.
func (w *Writer) begun() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.observed.Snapshot != nil
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
	o := w.observed
	if !w.stale || o.Snapshot == nil {
		return
	}
	w.wanted, w.stale = Outcomes(o.Snapshot, o.Findings, w.options.ID), false
	maps.Copy(w.wanted, ingresses(o, w.options.ID, w.addresses))
	if w.options.Knative {
		maps.Copy(w.wanted, knatives(o.Snapshot, o.Findings, w.options.ID, w.domain(o.Snapshot)))
	}
	var all map[snapshot.Ref]Outcome
	all, w.waiting = gateways(o, w.options.ID, w.addresses)
	maps.Copy(w.wanted, all)
}

// recall notes which objects say already what there is to say: those that the leader before this one wrote.
func (w *Writer) recall(ctx context.Context) {
	for _, k := range byKind {
		if k.GroupKind == snapshot.KindKnativeIngress && !w.options.Knative {
			continue
		}
		resource := k.resource()
		if k.Group == gatewayGroup && !w.present(k, &resource) {
			continue
		}
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
				switch _, _, needed := w.compose(u, r, want, w.observed.Snapshot); {
				case !needed:
					w.known[r] = want
				case want.Foreign:
					w.stray[r] = true
				}
			}
			w.mu.Unlock()
			if o.Continue = list.GetContinue(); o.Continue == "" {
				break
			}
		}
	}
}

// round writes whatever is not said yet, what is wrong first and then what no earlier round came to, and returns after what
// time it should try again; 0 for when something changes. Nobody waits for the statuses of thousands who came before.
func (w *Writer) round(ctx context.Context) (next time.Duration) {
	w.mu.Lock()
	w.look()
	var todo []snapshot.Ref
	for r, want := range w.wanted {
		is, known := w.known[r]
		switch {
		case known && is == want:
			delete(w.held, r)
		case !known && want.Foreign && !w.stray[r]:
			w.known[r] = want // it never was ours
		default:
			if left := w.holds(r); left == 0 {
				todo = append(todo, r)
			} else if next == 0 || left < next {
				next = left
			}
		}
	}
	for r := range w.known {
		if _, there := w.wanted[r]; !there {
			delete(w.known, r)
			delete(w.stray, r)
			delete(w.held, r)
		}
	}
	wanted := w.wanted
	w.mu.Unlock()
	rank := func(r snapshot.Ref) int {
		switch {
		case wanted[r].Fault != "":
			return 0
		case !w.queued[r]:
			return 1
		}
		return 2
	}
	slices.SortFunc(todo, func(a, b snapshot.Ref) int { return cmp.Or(cmp.Compare(rank(a), rank(b)), a.Compare(b)) })
	var count atomic.Int64
	refs := make(chan snapshot.Ref)
	var working sync.WaitGroup
	for range min(hands, len(todo)) {
		working.Go(func() {
			for r := range refs {
				if err := w.write(ctx, r); err != nil && ctx.Err() == nil {
					count.Add(1)
					w.options.Log.Warn("a status cannot be written; it is tried again", "object", r.String(), "error", err)
				}
			}
		})
	}
	begun := time.Now()
	w.queued = nil
	for i, r := range todo {
		if ctx.Err() != nil {
			break
		}
		if len(w.changed) > 0 && time.Since(begun) > stint {
			w.queued = make(map[snapshot.Ref]bool, len(todo)-i)
			for _, left := range todo[i:] {
				w.queued[left] = true
			}
			break
		}
		refs <- r
	}
	close(refs)
	working.Wait()
	if count.Load() > 0 && (next == 0 || next > again) {
		return again
	}
	return next
}

// compose returns the merge patch that lets an object's status say what is wanted.
func (w *Writer) compose(o *unstructured.Unstructured, r snapshot.Ref, want Outcome, s *snapshot.Snapshot) (patch map[string]any, turned, needed bool) {
	if r.GroupKind() == ingress.Kind {
		patch, needed = composeIngress(o, want)
		return patch, false, needed
	}
	if r.GroupKind() == snapshot.KindKnativeIngress {
		patch, needed = composeKnative(o, want, time.Now())
		return patch, false, needed
	}
	if r.Group == gatewayGroup {
		return composeGateway(o, composer{want: want, now: time.Now(), snapshot: s, id: w.options.ID, namespace: o.GetNamespace()})
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
		s := w.observed.Snapshot
		left := w.holds(r)
		w.mu.Unlock()
		if !still || known && is == want || left > 0 { // the next round comes to what changed meanwhile
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
		patch, turned, needed := w.compose(o, r, want, s)
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
			if turned && !want.Foreign { // nothing is said of what is others'
				w.event(ctx, o, said(o, patch, want), want.Refused)
			}
		}
		w.mu.Lock()
		w.known[r] = want
		delete(w.held, r)
		delete(w.stray, r)
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
