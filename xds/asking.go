package xds

import (
	"context"
	"encoding/json"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"time"

	"github.com/chancery-gateway/chancery/translators/ir"
)

const (
	// askFirst is how long after something has begun to wait an Envoy is asked which clusters are warm; each time after that is twice
	// as long, up to askLast.
	askFirst = 50 * time.Millisecond
	askLast  = time.Second
	// mostAsked bounds the clusters that one round asks about.
	mostAsked = 32
)

// asking is what a stream knows of warm clusters besides what answers tell. mu of the stream guards news and heard.
type asking struct {
	next, pause time.Duration
	since       time.Time
	warmth      uint64
	// busy: a round is under way; heard: it has ended. warm holds the number of the response that brought each cluster, so that one
	// that comes anew is cold again; news is what the last round found.
	busy, heard bool
	warm, news  map[string]uint64
}

// ask finds out which of the new clusters are warm, as long as something waits for them that no order of responses decides.
func (st *stream) ask(now time.Time) {
	a := &st.asking
	if st.server.warm == nil || st.gone == nil || a.busy {
		return
	}
	cold := st.cold()
	if len(cold) == 0 || !st.holds() {
		a.since = time.Time{}
		return
	}
	if a.since.IsZero() || a.warmth != st.warmth {
		a.since, a.warmth, a.next, a.pause = now, st.warmth, askFirst, askFirst
	}
	if until := a.since.Add(a.next); now.Before(until) {
		st.wakeAt(until)
		return
	}
	a.pause = min(2*a.pause, askLast)
	a.next = now.Sub(a.since) + a.pause
	numbers := map[string]uint64{}
	sub := st.subs[ir.TypeCluster]
	for i := range sub.unanswered {
		for _, w := range sub.unanswered[i].fresh {
			if _, is := cold[w.cluster.Name]; is && len(numbers) < mostAsked {
				numbers[w.cluster.Name] = sub.unanswered[i].number
			}
		}
	}
	var names []string
	for name := range numbers {
		names = append(names, name)
	}
	slices.Sort(names)
	a.busy = true
	node := st.status()
	go func() {
		found := map[string]uint64{}
		for _, name := range st.server.warm(st.gone, node, names) {
			found[name] = numbers[name]
		}
		st.mu.Lock()
		a.news, a.heard = found, true
		st.mu.Unlock()
		select {
		case st.wake <- struct{}{}:
		default:
		}
	}()
}

// hear takes up what a round has found.
func (st *stream) hear() {
	a := &st.asking
	if !a.busy {
		return
	}
	st.mu.Lock()
	defer st.mu.Unlock()
	if !a.heard {
		return
	}
	a.busy, a.heard = false, false
	for name, number := range a.news {
		if a.warm == nil {
			a.warm = map[string]uint64{}
		}
		a.warm[name] = number
		st.unsure = true
	}
}

// holds reports whether anything waits for clusters.
func (st *stream) holds() bool {
	for _, sub := range st.subs {
		if len(sub.held) > 0 {
			return true
		}
	}
	return false
}

// forgetWarm forgets the clusters of a response that is answered by now.
func (a *asking) forgetWarm(r *response) {
	for _, w := range r.fresh {
		if a.warm[w.cluster.Name] == r.number {
			delete(a.warm, w.cluster.Name)
		}
	}
}

// WarmAt asks an Envoy at the address of its admin interface. Whatever it does not answer counts as cold.
func WarmAt(ctx context.Context, address string, clusters []string) (warm []string) {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	for _, name := range clusters {
		// A changed cluster that is being warmed is active too, in its old form; but those asked about are new.
		query := url.Values{"resource": {"dynamic_active_clusters"}, "mask": {"version_info"}, "name_regex": {"^" + regexp.QuoteMeta(name) + "$"}}
		r, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+address+"/config_dump?"+query.Encode(), nil)
		if err != nil {
			return warm
		}
		resp, err := http.DefaultClient.Do(r)
		if err != nil {
			return warm
		}
		var dump struct {
			Configs []json.RawMessage `json:"configs"`
		}
		err = json.NewDecoder(resp.Body).Decode(&dump)
		resp.Body.Close()
		if err == nil && resp.StatusCode == http.StatusOK && len(dump.Configs) > 0 {
			warm = append(warm, name)
		}
	}
	return warm
}

// Warm asks which of some new clusters an Envoy has warmed. It may take its time, and tells of none where it does not know.
type Warm func(ctx context.Context, node NodeStatus, clusters []string) []string
