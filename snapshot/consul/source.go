// Package consul adds what Consul knows to the snapshots of another source: the healthy instances of each service that is
// asked for through a ConsulResolver. They become EndpointSlices that no cluster could hold, so that a change of them takes
// the way of endpoints, without a compile.
package consul

import (
	"cmp"
	"context"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/chancery-gateway/chancery/snapshot"
	"github.com/chancery-gateway/chancery/snapshot/api/v3alpha1"
)

// Inner is the source that is added to.
type Inner interface {
	Run(ctx context.Context, deliver func(*snapshot.Snapshot)) error
	Resolve([]snapshot.Diagnostic)
}

// Options tune a Source. Want is required.
type Options struct {
	// Want returns the ConsulResolver by which an object of the snapshot finds its service, and the service's name in Consul;
	// a nil resolver for an object that needs no Consul.
	Want func(s *snapshot.Snapshot, o *snapshot.Object) (resolver *snapshot.Object, service string)
	// First is the most that the first snapshot waits for the first answers, default 5 s; Later the most that a later one
	// waits for those of services that are new in it, default 500 ms.
	First, Later time.Duration
	// MinInterval is the least time between two snapshots that Consul causes; default 100 ms.
	MinInterval time.Duration
	// Logger is told of agents that do not answer; default slog.Default.
	Logger *slog.Logger
}

// Source delivers the inner source's snapshots with the endpoints of Consul in them.
type Source struct {
	Inner
	options Options
	wake    chan struct{} // Consul said something
	running sync.WaitGroup
	// delivering keeps snapshots in order.
	delivering sync.Mutex

	mu sync.Mutex
	// inner is the inner source's last snapshot, outer what was made of it.
	inner, outer *snapshot.Snapshot
	// wants are the objects that need Consul, and what they need.
	wants   map[snapshot.Ref]want
	watches map[want]*watch
	// held are the objects that stand for a service's endpoints in outer.
	held map[service][]*snapshot.Object
	// news are the services whose endpoints changed since outer.
	news map[service]bool
}

// service is a Consul service as one resolver sees it.
type service struct {
	resolver snapshot.Ref
	name     string
}

// want is a service with where to ask for it.
type want struct {
	service
	address, datacenter string
}

// New returns a source over another one.
func New(inner Inner, o Options) *Source {
	o.First = cmp.Or(o.First, 5*time.Second)
	o.Later = cmp.Or(o.Later, 500*time.Millisecond)
	o.MinInterval = cmp.Or(o.MinInterval, 100*time.Millisecond)
	if o.Logger == nil {
		o.Logger = slog.Default()
	}
	return &Source{
		Inner: inner, options: o, wake: make(chan struct{}, 1),
		wants: map[snapshot.Ref]want{}, watches: map[want]*watch{}, held: map[service][]*snapshot.Object{}, news: map[service]bool{},
	}
}

// Run runs the inner source and delivers its snapshots with what Consul says, and another one each time that Consul says
// something else, until the context ends. A snapshot waits a while for services that are new in it.
func (s *Source) Run(ctx context.Context, deliver func(*snapshot.Snapshot)) error {
	ctx, cancel := context.WithCancel(ctx)
	s.running.Go(func() { s.follow(ctx, deliver) })
	err := s.Inner.Run(ctx, func(next *snapshot.Snapshot) {
		s.delivering.Lock()
		defer s.delivering.Unlock()
		unanswered, most := s.take(ctx, next)
		await(ctx, unanswered, most)
		if out, _ := s.next(next); ctx.Err() == nil {
			deliver(out)
		}
	})
	cancel() // and with it every watch
	s.running.Wait()
	return err
}

// await waits for the first answers, most for all of them together.
func await(ctx context.Context, watches []*watch, most time.Duration) {
	late := time.NewTimer(most)
	defer late.Stop()
	for _, w := range watches {
		select {
		case <-ctx.Done():
			return
		case <-late.C:
			return
		case <-w.answered:
		}
	}
}

// follow delivers what Consul says between two snapshots of the inner source.
func (s *Source) follow(ctx context.Context, deliver func(*snapshot.Snapshot)) {
	for ctx.Err() == nil {
		select {
		case <-ctx.Done():
			return
		case <-s.wake:
		}
		s.delivering.Lock()
		s.mu.Lock()
		inner := s.inner
		s.mu.Unlock()
		if inner != nil {
			if out, changed := s.next(inner); changed {
				deliver(out)
			}
		}
		s.delivering.Unlock()
		sleep(ctx, s.options.MinInterval)
	}
}

// take finds out which services the snapshot needs, and starts and ends watches. It returns those that are to be waited
// for, and how long.
func (s *Source) take(ctx context.Context, next *snapshot.Snapshot) (unanswered []*watch, most time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	first := s.inner == nil
	s.note(next)
	needed := map[want]bool{}
	for _, w := range s.wants {
		needed[w] = true
	}
	for k, w := range s.watches {
		if !needed[k] {
			w.cancel()
			delete(s.watches, k)
			s.news[k.service] = true
		}
	}
	for k := range needed {
		if s.watches[k] == nil {
			unanswered = append(unanswered, s.start(ctx, k))
		}
	}
	if first {
		return unanswered, s.options.First
	}
	return unanswered, s.options.Later
}

var (
	// askers are the kinds of objects that may need Consul.
	askers = []snapshot.GroupKind{v3alpha1.KindMapping, v3alpha1.KindTCPMapping}
	// deciders are the kinds that say what the name of a resolver means.
	deciders = []snapshot.GroupKind{
		v3alpha1.KindModule, v3alpha1.KindConsulResolver, v3alpha1.KindKubernetesServiceResolver, v3alpha1.KindKubernetesEndpointResolver,
	}
)

// note brings wants up to date: for what changed alone, or for everything where the meaning of a resolver's name may have
// changed.
func (s *Source) note(next *snapshot.Snapshot) {
	ask := func(o *snapshot.Object) {
		delete(s.wants, o.Ref)
		if resolver, name := s.options.Want(next, o); resolver != nil {
			if spec, ok := resolver.Spec.(*v3alpha1.ConsulResolverSpec); ok {
				s.wants[o.Ref] = want{service{resolver.Ref, name}, spec.Address, spec.Datacenter}
			}
		}
	}
	var changes []snapshot.Change
	all := s.inner == nil
	if !all {
		changes = next.Changes(s.inner)
		all = slices.ContainsFunc(changes, func(c snapshot.Change) bool { return slices.Contains(deciders, c.Ref().GroupKind()) })
	}
	if all {
		clear(s.wants)
	}
	switch {
	case next.Len(v3alpha1.KindConsulResolver) == 0:
	case all:
		for _, k := range askers {
			for o := range next.List(k) {
				ask(o)
			}
		}
	default:
		for _, c := range changes {
			switch {
			case !slices.Contains(askers, c.Ref().GroupKind()):
			case c.New == nil:
				delete(s.wants, c.Ref())
			default:
				ask(c.New)
			}
		}
	}
}

// next derives the outer snapshot of an inner one and of all that Consul has said.
func (s *Source) next(inner *snapshot.Snapshot) (out *snapshot.Snapshot, changed bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.watches)+len(s.held)+len(s.news) == 0 && s.outer == s.inner {
		changed = inner != s.inner
		s.inner, s.outer = inner, inner
		return inner, changed // nothing is added
	}
	base, since := s.outer, s.inner
	if base == nil {
		base = snapshot.Empty()
		since = base
	}
	var put []*snapshot.Object
	var remove []snapshot.Ref
	for _, c := range inner.Changes(since) {
		if c.New != nil {
			put = append(put, c.New)
		} else {
			remove = append(remove, c.Ref())
		}
	}
	more, gone := s.endpoints()
	findings := inner.Findings()
	if extra := s.findings(inner); len(extra) > 0 {
		findings = snapshot.SortDiagnostics(append(slices.Clone(findings), extra...))
	}
	s.inner = inner
	inner.Forget()
	s.outer, changed = base.Advance(append(put, more...), append(remove, gone...), findings)
	return s.outer, changed
}

// endpoints returns how the objects that stand for endpoints change.
func (s *Source) endpoints() (put []*snapshot.Object, remove []snapshot.Ref) {
	current := map[service]*watch{}
	for k, w := range s.watches {
		current[k.service] = w
	}
	for k := range s.news {
		w := current[k]
		if w != nil && !w.heard() {
			continue // what another agent said before stays until this one has answered
		}
		var now []*snapshot.Object
		if w != nil {
			now = w.objects
		}
		for _, was := range s.held[k] {
			if !slices.ContainsFunc(now, func(o *snapshot.Object) bool { return o.Ref == was.Ref }) {
				remove = append(remove, was.Ref)
			}
		}
		put = append(put, now...)
		if s.held[k] = now; len(now) == 0 {
			delete(s.held, k)
		}
		delete(s.news, k)
	}
	return put, remove
}

// findings says what is wrong with resolvers and services, on the resolver: each sentence once.
func (s *Source) findings(inner *snapshot.Snapshot) []snapshot.Diagnostic {
	var out []snapshot.Diagnostic
	for k, w := range s.watches {
		o := inner.Get(k.resolver.GroupKind(), k.resolver.Namespace, k.resolver.Name)
		if o == nil {
			continue
		}
		for _, t := range w.troubles {
			if d := o.About(t.severity, t.code, t.path, t.text, t.code.Cure); !slices.Contains(out, d) {
				out = append(out, d)
			}
		}
		if !w.heard() && len(w.troubles) == 0 {
			out = append(out, o.About(snapshot.Warning, codeSilent, "spec.address", "no answer about service \""+k.name+"\" yet; no endpoint of it is known", codeSilent.Cure))
		}
	}
	return out
}

// poke asks for a look at whether there is a new snapshot.
func (s *Source) poke() {
	select {
	case s.wake <- struct{}{}:
	default:
	}
}
