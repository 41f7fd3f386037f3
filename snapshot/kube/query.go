package kube

import (
	"context"
	"fmt"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"

	"github.com/chancery-gateway/chancery/snapshot"
)

// query is one list and watch of one kind. It is the store of a client-go Reflector, which lists again after whatever
// breaks, takes bookmarks, and never lets the store see a list that is not whole.
type query struct {
	source   *Source
	what     *Resource
	resource schema.GroupVersionResource
	fields   string
	// asWritten is set when the API server does not convert between versions.
	asWritten bool

	// context is the query's own.
	context context.Context

	// Guarded by the world's lock. A query that has ended has no cancel any more.
	cancel context.CancelFunc
	units  map[string]*unit
	// inherited units are those of a query that ended; their resourceVersions prove nothing.
	inherited bool
	synced    bool
	trouble   *snapshot.Diagnostic
	// behind is set from when the API server refused to show the kind until it has been listed again.
	behind bool
	// doubted is until when the trouble may be a passing one.
	doubted time.Time
}

// backoff paces the attempts after something broke. It starts fast, since an API server is usually back at once.
var backoff = wait.Backoff{Duration: 100 * time.Millisecond, Factor: 2, Jitter: 0.5, Steps: 8, Cap: 10 * time.Second}

// run lists and watches until ctx ends.
func (q *query) run(ctx context.Context) {
	if q.what.names {
		q.runNames(ctx)
		return
	}
	client := q.source.client.Resource(q.resource)
	list, watcher := client.List, client.Watch
	if ns := q.source.namespaceOf(q.what); ns != "" {
		list, watcher = client.Namespace(ns).List, client.Namespace(ns).Watch
	}
	q.reflect(ctx, &unstructured.Unstructured{}, func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) { return list(ctx, o) }, watcher)
}

// reflect lists and watches objects of a type.
func (q *query) reflect(ctx context.Context, of runtime.Object, list func(context.Context, metav1.ListOptions) (runtime.Object, error),
	watcher func(context.Context, metav1.ListOptions) (watch.Interface, error)) {
	lw := &cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
			l, err := list(ctx, q.selected(o))
			q.answered(ctx, err)
			return l, err
		},
		WatchFuncWithContext: func(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
			w, err := watcher(ctx, q.selected(o))
			q.answered(ctx, err)
			return w, err
		},
	}
	logger := klog.FromContext(ctx)
	cache.NewReflectorWithOptions(cache.ToListWatcherWithWatchListSemantics(lw, q.source.client), of, q, cache.ReflectorOptions{
		Logger: &logger, Name: q.resource.String(), TypeDescription: q.resource.String(), Backoff: &backoff,
	}).RunWithContext(ctx)
}

// selected adds the selectors to the options.
func (q *query) selected(o metav1.ListOptions) metav1.ListOptions {
	var fields []string
	if q.fields != "" {
		fields = append(fields, q.fields)
	}
	if f := q.source.options.FieldSelector; f != "" && !q.what.Cluster {
		fields = append(fields, f)
	}
	o.FieldSelector = strings.Join(fields, ",")
	if !q.what.unlabelled {
		o.LabelSelector = q.source.options.LabelSelector
	}
	return o
}

// answered notes what became of a request.
func (q *query) answered(ctx context.Context, err error) {
	if ctx.Err() != nil {
		return
	}
	w := q.source.world
	switch {
	case err == nil:
		q.source.reachable(nil)
		w.mu.Lock()
		defer w.mu.Unlock()
		if q.trouble != nil {
			q.trouble = nil
			if q.what.builtIn && !q.behind {
				q.source.rediscover() // another kind may have been read in its place
			}
			q.source.poke()
		}
	case apierrors.IsForbidden(err):
		q.report(codeForbidden, false, 3*time.Second, fmt.Sprintf("%s may not be read: %v", q.resource.GroupResource(), err))
	case apierrors.IsNotFound(err) && q.what.builtIn:
		q.report(codeUnreadable, false, 3*time.Second, fmt.Sprintf("%s are not served: %v", q.resource.GroupResource(), err))
	case apierrors.IsNotFound(err):
		q.source.rediscover() // the kind may be gone
	case apierrors.IsResourceExpired(err) || apierrors.IsGone(err):
		// The reflector knows what to do.
	case apierrors.IsTooManyRequests(err):
		// It was asked ten times by now. It is busy, or cannot read what it has stored, for want of a conversion webhook for
		// example, and its message says so.
		q.report(codeUnreadable, true, q.doubt(), fmt.Sprintf("%s cannot be read: %v", q.resource.GroupResource(), err))
	case apierrors.ReasonForError(err) != metav1.StatusReasonUnknown && !apierrors.IsServiceUnavailable(err) && !apierrors.IsTimeout(err) && !apierrors.IsUnauthorized(err):
		q.report(codeUnreadable, false, q.doubt(), fmt.Sprintf("%s cannot be read: %v", q.resource.GroupResource(), err))
	default:
		q.source.reachable(err) // among these a token that has expired: nothing is known, so nothing may go
	}
}

// doubt is how long a kind that cannot be read may be readable in a moment: a conversion webhook that starts beside us takes its time,
// and without a kind that traffic hangs on, routes would be closed.
func (q *query) doubt() time.Duration {
	if q.essential() {
		return 2 * time.Minute
	}
	return 30 * time.Second
}

// report notes a kind that the API server refuses to show. At the start it counts as known to be empty after a while: one
// kind must not keep all others from working, but an API server that has just started knows no permissions either, and
// a conversion webhook may take longer than we do. resumes is set where the query goes on from where it was, as after a
// 429, and does not list again.
func (q *query) report(code *snapshot.Code, resumes bool, doubt time.Duration, message string) {
	w := q.source.world
	w.mu.Lock()
	defer w.mu.Unlock()
	severity := snapshot.Warning
	if q.essential() {
		severity = snapshot.Error
	}
	if q.trouble == nil || q.trouble.Code != code {
		q.trouble = &snapshot.Diagnostic{
			Severity: severity, Code: code, Object: snapshot.Ref{Group: q.what.Group, Kind: q.what.Kind},
			APIVersion: q.resource.GroupVersion().String(), Message: message, Help: code.Cure,
		}
		q.source.poke()
		if q.what.builtIn {
			q.source.rediscover() // another kind may be read in its place
		}
		q.behind = q.behind || !resumes || !q.synced
		if !q.synced {
			q.doubted = time.Now().Add(doubt)
			q.source.log.Warn("the first snapshot waits for a kind that the API server does not show", "kind", q.resource.GroupResource().String(), "for", doubt, "error", message)
			time.AfterFunc(doubt+time.Millisecond, q.source.poke)
		}
	}
}

// essential reports whether what Envoy is to do hangs on the kind.
func (q *query) essential() bool {
	return q.what.builtIn && q.what.with == (snapshot.GroupKind{}) || q.what.Group == snapshot.EmissaryGroup
}

// settled reports whether the query needs no more waiting for. The world's lock is held.
func (q *query) settled() bool {
	return q.synced || q.trouble != nil && time.Now().After(q.doubted)
}

// runNames is run for kinds of which only the names are watched.
func (q *query) runNames(ctx context.Context) {
	client := q.source.metadata.Resource(q.resource)
	list, watcher := client.List, client.Watch
	if ns := q.source.namespaceOf(q.what); ns != "" {
		list, watcher = client.Namespace(ns).List, client.Namespace(ns).Watch
	}
	q.reflect(ctx, &metav1.PartialObjectMetadata{}, func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) { return list(ctx, o) }, watcher)
}

// key returns the key of what the reflector hands over.
func key(obj any) (string, metav1.Object) {
	o, _ := obj.(metav1.Object)
	return o.GetNamespace() + "/" + o.GetName(), o
}

// unit makes the unit of what the reflector hands over.
func (q *query) unit(o metav1.Object) *unit {
	if u, whole := o.(*unstructured.Unstructured); whole {
		return decode(u, q.asWritten)
	}
	return &unit{version: o.GetResourceVersion(), content: &content{query: q, namespace: o.GetNamespace(), name: o.GetName()}}
}

// Add implements cache.ReflectorStore.
func (q *query) Add(obj any) error { return q.Update(obj) }

// Update implements cache.ReflectorStore.
func (q *query) Update(obj any) error {
	k, u := key(obj)
	now := q.unit(u)
	w := q.source.world
	w.mu.Lock()
	defer w.mu.Unlock()
	if q.cancel == nil {
		return nil
	}
	w.set(q.units[k], now)
	q.units[k] = now
	q.source.poke()
	return nil
}

// Delete implements cache.ReflectorStore.
func (q *query) Delete(obj any) error {
	k, _ := key(obj)
	w := q.source.world
	w.mu.Lock()
	defer w.mu.Unlock()
	if q.cancel == nil {
		return nil
	}
	w.set(q.units[k], nil)
	delete(q.units, k)
	q.source.poke()
	return nil
}

// Replace implements cache.ReflectorStore: the list is all there is. Objects of a known resourceVersion are not read again.
func (q *query) Replace(list []any, _ string) error {
	w := q.source.world
	w.mu.Lock()
	before, inherited := q.units, q.inherited
	w.mu.Unlock()
	now := make(map[string]*unit, len(list))
	for _, obj := range list {
		k, u := key(obj)
		if was := before[k]; was != nil && !inherited && was.version == u.GetResourceVersion() {
			now[k] = was
		} else {
			now[k] = q.unit(u)
		}
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if q.cancel == nil {
		return nil
	}
	for k, was := range before {
		if now[k] == nil {
			w.set(was, nil)
		}
	}
	for k, is := range now {
		if is != before[k] {
			w.set(before[k], is)
		}
	}
	if q.behind && q.what.builtIn {
		q.source.rediscover() // nothing needs to be read in its place any more
	}
	q.units, q.inherited, q.synced, q.behind, q.trouble = now, false, true, false, nil
	q.source.poke()
	return nil
}

// Resync implements cache.ReflectorStore; the reflector is not asked for it.
func (q *query) Resync() error { return nil }
