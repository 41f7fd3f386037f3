package xds

import (
	"slices"
	"strings"
	"time"

	"github.com/chancery-gateway/chancery/translators/ir"
)

// maxUnanswered bounds what is remembered of responses that a client never answers.
const maxUnanswered = 1024

// subscription is what one stream knows of one type.
type subscription struct {
	typeURL  string
	wildcard bool
	names    map[string]struct{}
	// sent is what the client holds once it has taken all responses: as sent, or as it said when it reconnected (then
	// with name and version only).
	sent map[string]*ir.Resource
	// seen is the list up to which changes have been marked, era the number of its publication; dirty are the names whose
	// resource may differ from sent, each with the era in which it was marked first; forced are those of them that are to be sent
	// even if it does not.
	seen   []*ir.Resource
	era    uint64
	dirty  map[string]uint64
	forced map[string]struct{}
	// flying are the names in responses without an answer, with the number of the newest; held are those that wait for clusters;
	// departing those that are not served any more. order holds the number of the last response with each endpoint set.
	flying    map[string]uint64
	held      map[string]hold
	departing map[string]*departure
	order     map[string]uint64
	// answered is set when the client needs no answer for the mere fact that it asked.
	answered bool
	// named is set once a state-of-the-world client has listed names: from then on an empty list means none, not all.
	named bool
	// listed are the names of the last request (state of the world), to see at a glance that nothing changed; nil where
	// there may be more to it.
	listed []string

	nonce      string
	unanswered []response
	// acked holds the last acknowledged resources, but for clusters and endpoints; refused the refusals that stand, by name.
	acked   map[string]*ir.Resource
	refused map[string]refusal
	// fitted is what an older client is served, by name; lacking lists what it does without, nil for unknown.
	fitted  map[string]fitted
	lacking []Lack

	sentVersion, ackedVersion string
	sentAt, ackedAt           time.Time
}

// response is one that was sent and not answered yet.
type response struct {
	number         uint64
	nonce, version string
	resources      []*ir.Resource
	removed        []string
	// fresh are the clusters in it that the client did not have.
	fresh   []warming
	at      time.Time
	overdue bool
}

// refusal is a NACK of one version of one resource.
type refusal struct {
	version string
	nack    NACK
}

func newSubscription(typeURL string) *subscription {
	return &subscription{
		typeURL: typeURL,
		names:   map[string]struct{}{}, sent: map[string]*ir.Resource{}, dirty: map[string]uint64{}, forced: map[string]struct{}{},
		flying: map[string]uint64{}, held: map[string]hold{}, departing: map[string]*departure{}, order: map[string]uint64{},
		acked: map[string]*ir.Resource{}, refused: map[string]refusal{},
	}
}

func (s *subscription) wants(name string) bool {
	if s.wildcard {
		return true
	}
	_, ok := s.names[name]
	return ok
}

// touch marks a name for comparison; force sends it in any case.
func (s *subscription) touch(name string, force bool) {
	if !s.wants(name) {
		return
	}
	if _, ok := s.dirty[name]; !ok {
		s.dirty[name] = s.era
	}
	if force {
		s.forced[name] = struct{}{}
	}
}

// mark brings the subscription up to a published list.
func (s *subscription) mark(list []*ir.Resource) {
	differences(s.seen, list, func(old, new *ir.Resource) {
		if new == nil {
			s.touch(old.Name, false)
		} else {
			s.touch(new.Name, false)
		}
	})
	s.seen = list
}

// restart makes the next mark compare every name: a wildcard was added.
func (s *subscription) restart() {
	s.seen = nil
	for name := range s.sent {
		s.touch(name, false)
	}
}

func (s *subscription) forget(name string) {
	delete(s.names, name)
	delete(s.dirty, name)
	delete(s.forced, name)
	delete(s.departing, name)
	s.drop(name)
}

// drop notes that the client does not hold a resource any more.
func (s *subscription) drop(name string) {
	delete(s.sent, name)
	delete(s.acked, name)
	delete(s.refused, name)
	s.unfit(name)
	delete(s.held, name)
	delete(s.order, name)
	delete(s.flying, name)
}

// land notes that a response is not under way any more.
func (s *subscription) land(r response) {
	for _, res := range r.resources {
		if s.flying[res.Name] == r.number {
			delete(s.flying, res.Name)
		}
	}
}

// dropWildcard ends the wildcard subscription; what is not subscribed by name is forgotten.
func (s *subscription) dropWildcard() {
	s.wildcard = false
	for name := range s.sent {
		if !s.wants(name) {
			s.forget(name)
		}
	}
	for name := range s.dirty {
		if !s.wants(name) {
			s.forget(name)
		}
	}
}

// subscribeDelta applies an incremental request. first says that it is the stream's first of the type.
func (s *subscription) subscribeDelta(q *request, first bool) {
	if first {
		if len(q.subscribe) == 0 && len(q.unsubscribe) == 0 {
			s.wildcard = true // the older way to say "*"
		}
		s.answered = len(q.held) > 0
	}
	for _, name := range q.unsubscribe {
		switch {
		case name == "*":
			s.dropWildcard()
		case s.wildcard:
			// It stays subscribed by the wildcard, so the protocol asks to send it, or its removal, once more.
			delete(s.names, name)
			s.touch(name, true)
		default:
			s.forget(name)
		}
	}
	for _, name := range q.subscribe {
		if name == "*" {
			if !s.wildcard {
				s.wildcard, s.answered = true, first && s.answered
				s.restart()
			}
			continue
		}
		s.names[name] = struct{}{}
		_, held := q.held[name]
		s.touch(name, !first || !held)
	}
	if first {
		for name, version := range q.held {
			if s.wants(name) {
				s.sent[name] = &ir.Resource{Type: s.typeURL, Name: name, Version: version}
				s.touch(name, false)
			}
		}
	}
}

// subscribeWhole applies a state-of-the-world request, whose names are the whole subscription.
func (s *subscription) subscribeWhole(q *request) {
	if s.listed != nil && slices.Equal(s.listed, q.names) {
		return
	}
	s.listed = q.names
	wildcard := slices.Contains(q.names, "*") || len(q.names) == 0 && !s.named
	s.named = s.named || len(q.names) > 0
	next := make(map[string]struct{}, len(q.names))
	for _, name := range q.names {
		if name != "*" {
			next[name] = struct{}{}
		}
	}
	old := s.names
	s.names = next
	for name := range old {
		if _, ok := next[name]; !ok && !wildcard {
			s.forget(name)
		}
	}
	switch {
	case s.wildcard && !wildcard:
		s.dropWildcard()
	case !s.wildcard && wildcard:
		s.wildcard = true
		s.answered = false
		s.restart()
	}
	for name := range next {
		if _, ok := old[name]; !ok {
			_, have := s.sent[name]
			s.touch(name, !have)
		}
	}
}

// dropMissing forgets the names that a state-of-the-world client no longer lists.
func (s *subscription) dropMissing(listed []string) {
	if s.wildcard {
		return
	}
	s.listed = nil
	kept := make(map[string]struct{}, len(listed))
	for _, name := range listed {
		kept[name] = struct{}{}
	}
	for name := range s.names {
		if _, ok := kept[name]; !ok {
			s.forget(name)
		}
	}
}

// answer takes out the response that the client answers, as the last of the result; none when nothing waits for that
// nonce. In the state of the world an answer also stands for the older ones, for a client may leave those out.
func (s *subscription) answer(nonce string, whole bool) []response {
	i := slices.IndexFunc(s.unanswered, func(r response) bool { return r.nonce == nonce })
	if i < 0 {
		return nil
	}
	from := i
	if whole {
		from = 0
	}
	answered := slices.Clone(s.unanswered[from : i+1])
	s.unanswered = slices.Delete(s.unanswered, from, i+1)
	for _, r := range answered {
		s.land(r)
	}
	return answered
}

// took notes an acknowledged response.
func (s *subscription) took(r response, now time.Time) {
	s.ackedVersion, s.ackedAt = r.version, now
	for _, res := range r.resources {
		if s.typeURL != ir.TypeCluster && s.typeURL != ir.TypeEndpoint && s.wants(res.Name) {
			s.acked[res.Name] = res
		}
	}
}

// blamed returns the resources of a refused response that the text names as whole words, or all where it names none.
func blamed(resources []*ir.Resource, text string) []*ir.Resource {
	var named []*ir.Resource
	for _, r := range resources {
		if mentions(text, r.Name) {
			named = append(named, r)
		}
	}
	if len(named) == 0 {
		return resources
	}
	return named
}

func mentions(text, name string) bool {
	if name == "" {
		return false
	}
	for from := 0; ; {
		i := strings.Index(text[from:], name)
		if i < 0 {
			return false
		}
		i += from
		end := i + len(name)
		// A colon or full stop may end the mention: "Error adding/updating cluster(s) NAME: text".
		open := i == 0 || !inName(text[i-1])
		shut := end == len(text) || !inName(text[end]) || strings.IndexByte(":.", text[end]) >= 0 && (end+1 == len(text) || !inName(text[end+1]))
		if open && shut {
			return true
		}
		from = i + 1
	}
}

func inName(c byte) bool {
	return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || strings.IndexByte("_-./:|*%", c) >= 0
}
