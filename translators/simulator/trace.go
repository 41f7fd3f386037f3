package simulator

import "github.com/chancery-gateway/chancery/translators/ir"

// Trace is what became of one request, step by step.
type Trace struct {
	Request     Request `json:"request"`
	Listener    *Step   `json:"listener,omitempty"`
	Chain       *Step   `json:"filterChain,omitempty"`
	RouteConfig string  `json:"routeConfig,omitempty"`
	VirtualHost *Step   `json:"virtualHost,omitempty"`
	// Host and Path are the authority and path that the routes were compared with, normalised as Envoy does before.
	Host string `json:"host,omitempty"`
	Path string `json:"path,omitempty"`
	// Outcomes are in the order in which routes were tried; their shares add up to 100. There is always at least one.
	Outcomes []Outcome `json:"outcomes"`
	// Candidates came near and lost, nearest step last; MoreCandidates is the number of those left out.
	Candidates     []Candidate `json:"candidates,omitempty"`
	MoreCandidates int         `json:"moreCandidates,omitempty"`
}

// Step is one thing that was chosen on the way.
type Step struct {
	Name string `json:"name"`
	// Why says what made the choice, for example `server name "*.example.com"`.
	Why     string      `json:"why,omitempty"`
	Origins []ir.Origin `json:"origins,omitempty"`
}

// OutcomeKind says what happens to a share of the requests.
type OutcomeKind string

// The kinds of outcomes.
const (
	// Forwarded goes to Clusters.
	Forwarded OutcomeKind = "forward"
	// Redirected is answered with Status and Location.
	Redirected OutcomeKind = "redirect"
	// Answered gets the route's own direct response.
	Answered OutcomeKind = "direct"
	// NotFound is answered with 404: no virtual host or no route takes the request.
	NotFound OutcomeKind = "not found"
	// Intercepted is answered with Status by Envoy itself before the route's action, for Reason.
	Intercepted OutcomeKind = "intercepted"
	// Refused gets no HTTP answer: no listener or filter chain takes the connection, or TLS does not come about.
	Refused OutcomeKind = "refused"
	// Proxied is passed on as a TCP connection to Clusters.
	Proxied OutcomeKind = "tcp"
)

// Outcome is what happens to a share of the requests like this one.
type Outcome struct {
	// Share is in percent.
	Share float64     `json:"share"`
	Kind  OutcomeKind `json:"kind"`
	// Route is the route's name, Match its condition in words.
	Route string `json:"route,omitempty"`
	Match string `json:"match,omitempty"`
	// Reason says why there is no route's action: for NotFound, Intercepted and Refused.
	Reason   string         `json:"reason,omitempty"`
	Clusters []ClusterShare `json:"clusters,omitempty"`
	// Path and Host are what the upstream sees.
	Path string `json:"path,omitempty"`
	Host string `json:"host,omitempty"`
	// TimeoutMillis is the route's timeout; 0 means none. Set for Forwarded only.
	TimeoutMillis *int64 `json:"timeoutMillis,omitempty"`
	Priority      string `json:"priority,omitempty"`
	// Status, Location and Body are the answer, for all kinds that are answered by Envoy.
	Status   uint32 `json:"status,omitempty"`
	Location string `json:"location,omitempty"`
	Body     string `json:"body,omitempty"`
	// RequestHeaders and ResponseHeaders are the route's changes, with Envoy's %COMMANDS% as they are.
	RequestHeaders  ir.HeaderChanges `json:"requestHeaders,omitzero"`
	ResponseHeaders ir.HeaderChanges `json:"responseHeaders,omitzero"`
	Mirrors         []MirrorShare    `json:"mirrors,omitempty"`
	// Filters act on the requests before the route does, in this order.
	Filters []FilterStep `json:"filters,omitempty"`
	Origins []ir.Origin  `json:"origins,omitempty"`
}

// ClusterShare is the share of all requests, in percent, that goes to a cluster.
type ClusterShare struct {
	Name  string  `json:"name"`
	Share float64 `json:"share"`
	// Target says in words where the cluster's endpoints are, for example "http://shop.default:8080".
	Target string `json:"target,omitempty"`
	// Host is the authority that this cluster sees when it differs from the outcome's (auto host rewrite).
	Host            string           `json:"host,omitempty"`
	RequestHeaders  ir.HeaderChanges `json:"requestHeaders,omitzero"`
	ResponseHeaders ir.HeaderChanges `json:"responseHeaders,omitzero"`
	Origins         []ir.Origin      `json:"origins,omitempty"`
}

// MirrorShare is the share of an outcome's requests, in percent, that is copied to a cluster.
type MirrorShare struct {
	Name    string      `json:"name"`
	Share   float64     `json:"share"`
	Origins []ir.Origin `json:"origins,omitempty"`
}

// Candidate is something that could have been chosen and was not.
type Candidate struct {
	// Kind is "listener", "filter chain", "virtual host" or "route".
	Kind string `json:"kind"`
	Name string `json:"name"`
	// Match is the condition in words.
	Match string `json:"match,omitempty"`
	// Reason says why it lost.
	Reason  string      `json:"reason"`
	Origins []ir.Origin `json:"origins,omitempty"`
}

// maxCandidates bounds the candidates of one kind, so that a trace stays readable under large route tables.
const maxCandidates = 8

func (t *Trace) lose(c Candidate) {
	n := 0
	for i := range t.Candidates {
		if t.Candidates[i].Kind == c.Kind {
			n++
		}
	}
	if n >= maxCandidates {
		t.MoreCandidates++
		return
	}
	t.Candidates = append(t.Candidates, c)
}

// end makes the one outcome of a request that no route takes.
func (t *Trace) end(kind OutcomeKind, status uint32, reason string) Trace {
	t.Outcomes = append(t.Outcomes, Outcome{Share: 100, Kind: kind, Status: status, Reason: reason})
	return *t
}

// Share returns the percentage of requests that go to the cluster, over all outcomes.
func (t *Trace) Share(cluster string) float64 {
	sum := 0.0
	for i := range t.Outcomes {
		for _, c := range t.Outcomes[i].Clusters {
			if c.Name == cluster {
				sum += c.Share
			}
		}
	}
	return sum
}
