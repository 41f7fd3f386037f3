package consul

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"os"
	"slices"
	"strings"
	"time"

	consul "github.com/hashicorp/consul/api"

	"github.com/chancery-gateway/chancery/snapshot"
)

// watch asks for one service again and again. Its fields are guarded by the source's lock.
type watch struct {
	want   want
	source *Source
	cancel context.CancelFunc
	// answered is closed with the first answer, or when there can be none.
	answered chan struct{}

	objects  []*snapshot.Object
	troubles []trouble
}

// trouble is what is wrong with a watch.
type trouble struct {
	severity   snapshot.Severity
	code       *snapshot.Code
	path, text string
}

// heard reports whether there was an answer.
func (w *watch) heard() bool {
	select {
	case <-w.answered:
		return true
	default:
		return false
	}
}

// start begins a watch; the source's lock is held.
func (s *Source) start(ctx context.Context, key want) *watch {
	ctx, cancel := context.WithCancel(ctx)
	w := &watch{want: key, source: s, cancel: cancel, answered: make(chan struct{})}
	s.watches[key] = w
	client, err := connect(key.address)
	if err != nil {
		w.troubles = []trouble{{snapshot.Error, codeResolver, "spec.address", err.Error()}}
		close(w.answered)
		s.news[key.service] = true
		return w
	}
	s.running.Go(func() { w.run(ctx, client) })
	return w
}

// connect returns a client of the agent. Token, TLS and the like are those of Consul's own environment variables (Consul
// documentation, "Consul CLI": environment variables).
func connect(address string) (*consul.Client, error) {
	expanded, err := expand(address)
	if err != nil {
		return nil, err
	}
	if strings.TrimSpace(expanded) == "" {
		return nil, errors.New("the address of the Consul agent is missing")
	}
	if scheme, _, found := strings.Cut(expanded, "://"); found && scheme != "http" && scheme != "https" && scheme != "unix" {
		return nil, fmt.Errorf("%q is no address of a Consul agent: unknown scheme %q", expanded, scheme)
	}
	config := consul.DefaultConfig()
	config.Address = expanded
	config.Transport.ResponseHeaderTimeout = waitTime + waitTime/8 // Consul adds up to a sixteenth to the wait
	client, err := consul.NewClient(config)
	if err != nil {
		return nil, fmt.Errorf("%q is no address of a Consul agent: %w", expanded, err)
	}
	return client, nil
}

// expand puts environment variables in place of $NAME and ${NAME}.
func expand(text string) (string, error) {
	missing := ""
	out := os.Expand(text, func(name string) string {
		value, set := os.LookupEnv(name)
		if !set {
			missing = name
		}
		return value
	})
	if missing != "" {
		return "", fmt.Errorf("environment variable %s, which %q names, is not set", missing, text)
	}
	return out, nil
}

const (
	// waitTime is how long Consul holds a question to which there is no new answer.
	waitTime = 5 * time.Minute
	// resolveTime is how long it does so while instances have host names, which are resolved again then.
	resolveTime = 30 * time.Second
	// least is the least time between two questions about one service: Consul asks its clients to limit themselves.
	least = 50 * time.Millisecond
	// briefly and longest are the least and the most that is waited after an error.
	briefly, longest = 100 * time.Millisecond, 10 * time.Second
)

// run asks until the context ends: blocking queries, each with the index of the last answer (Consul documentation,
// "Blocking Queries").
func (w *watch) run(ctx context.Context, client *consul.Client) {
	var index uint64
	pause, wait := briefly, waitTime
	for ctx.Err() == nil {
		begun := time.Now()
		o := (&consul.QueryOptions{Datacenter: w.want.datacenter, WaitIndex: index, WaitTime: wait}).WithContext(ctx)
		entries, meta, err := client.Health().Service(w.want.name, "", true, o)
		if ctx.Err() != nil {
			return
		}
		if err != nil {
			w.silent(err)
			index = 0 // whoever answers next may count otherwise
			sleep(ctx, time.Duration(float64(pause)*(0.75+rand.Float64()/2)))
			pause = min(2*pause, longest)
			continue
		}
		pause = briefly
		if index == 0 || meta.LastIndex != index || wait == resolveTime {
			wait = waitTime
			if w.hear(ctx, entries) {
				wait = resolveTime
			}
		}
		if meta.LastIndex < index {
			index = 0 // Consul's state was restored or lost: its count starts anew
		} else {
			index = max(meta.LastIndex, 1)
		}
		sleep(ctx, least-time.Since(begun))
	}
}

// hear takes an answer. It reports whether instances have host names.
func (w *watch) hear(ctx context.Context, entries []*consul.ServiceEntry) (names bool) {
	objects, troubles, names := endpoints(ctx, w.want.service, entries)
	s := w.source
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.watches[w.want] != w {
		return false
	}
	first := !w.heard()
	same := slices.EqualFunc(w.objects, objects, func(a, b *snapshot.Object) bool { return a.Ref == b.Ref && a.Hash == b.Hash })
	if !first && same && slices.Equal(w.troubles, troubles) {
		return names
	}
	if len(w.troubles) > 0 && w.troubles[0].code == codeSilent {
		s.options.Logger.Info("Consul answers again", "resolver", w.want.resolver.String(), "service", w.want.name)
	}
	w.objects, w.troubles = objects, troubles
	if first {
		close(w.answered)
	}
	s.news[w.want.service] = true
	s.poke()
	return names
}

// silent notes a question that was not answered.
func (w *watch) silent(err error) {
	s := w.source
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.watches[w.want] != w {
		return
	}
	severity, state := snapshot.Error, "no endpoint of it is known"
	if w.heard() {
		severity, state = snapshot.Warning, "what it said last stays in force"
	}
	now := []trouble{{severity, codeSilent, "spec.address", fmt.Sprintf("no answer about service %q: %s; %s", w.want.name, reason(err), state)}}
	if slices.Equal(w.troubles, now) {
		return
	}
	if len(w.troubles) == 0 || w.troubles[0].code != codeSilent {
		s.options.Logger.Warn("Consul does not answer", "resolver", w.want.resolver.String(), "service", w.want.name, "error", err)
	}
	w.troubles = now
	s.poke()
}

// reason is an error's text without what differs from one attempt to the next.
func reason(err error) string {
	var refused consul.StatusError
	if errors.As(err, &refused) {
		body := strings.TrimSpace(refused.Body)
		return fmt.Sprintf("%d %s: %s", refused.Code, http.StatusText(refused.Code), body[:min(len(body), 200)])
	}
	text := err.Error()
	if i := strings.LastIndex(text, `": `); i >= 0 {
		text = text[i+3:] // behind the URL, which has the index
	}
	if before, after, found := strings.Cut(text, "->"); found { // "read tcp 127.0.0.1:50000->127.0.0.1:8500: connection reset"
		text = before[:strings.LastIndexByte(before, ' ')+1] + after
	}
	return text
}

func sleep(ctx context.Context, d time.Duration) {
	if d <= 0 {
		return
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-timer.C:
	}
}
