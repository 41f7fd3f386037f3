// Package simtest lets tests say what becomes of a request under a program:
//
//	simtest.Expect(t, program, "GET https://shop.example/cart", simtest.To("cart", 70), simtest.To("cart-canary", 30))
//	simtest.Expect(t, program, "GET http://shop.example/", simtest.Redirect(301, "https://shop.example/"))
//	simtest.Expect(t, program, "POST https://shop.example/ -H 'x-tenant: a'", simtest.NotFound())
package simtest

import (
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/chancery-gateway/chancery/translators/ir"
	"github.com/chancery-gateway/chancery/translators/simulator"
)

// Check is one expectation about a trace: it returns what is wrong, or "".
type Check func(t *simulator.Trace) string

// Expect simulates the request ("METHOD URL", then any number of -H 'name: value') and reports every check that fails,
// with the whole trace.
func Expect(t testing.TB, p *ir.Program, request string, checks ...Check) {
	t.Helper()
	r, err := Parse(request)
	if err != nil {
		t.Errorf("%s: %v", request, err)
		return
	}
	ExpectRequest(t, p, r, checks...)
}

// ExpectRequest is Expect for a request that one line cannot say.
func ExpectRequest(t testing.TB, p *ir.Program, r simulator.Request, checks ...Check) {
	t.Helper()
	trace := simulator.Simulate(p, r)
	failed := false
	for _, check := range checks {
		if wrong := check(&trace); wrong != "" {
			t.Errorf("%s: %s", r, wrong)
			failed = true
		}
	}
	if failed {
		t.Log(trace.Text())
	}
}

// Parse reads "METHOD URL -H 'name: value' ...".
func Parse(request string) (simulator.Request, error) {
	line, rest, _ := strings.Cut(request, " -H ")
	fields := strings.Fields(line)
	if len(fields) != 2 {
		return simulator.Request{}, fmt.Errorf("want METHOD URL, have %q", line)
	}
	var headers []string
	if rest != "" {
		for h := range strings.SplitSeq(rest, " -H ") {
			headers = append(headers, strings.Trim(strings.TrimSpace(h), `'"`))
		}
	}
	return simulator.ParseRequest(fields[0], fields[1], headers)
}

// tolerance for shares, in percent.
const tolerance = 0.001

// To wants the clusters whose names contain the text to get the share of all requests, in percent.
func To(cluster string, share float64) Check {
	return func(t *simulator.Trace) string {
		have := 0.0
		for i := range t.Outcomes {
			for _, c := range t.Outcomes[i].Clusters {
				if strings.Contains(c.Name, cluster) {
					have += c.Share
				}
			}
		}
		if math.Abs(have-share) > tolerance {
			return fmt.Sprintf("%g %% go to cluster %q, want %g %%", have, cluster, share)
		}
		return ""
	}
}

// one wants a fact of the outcome that takes all requests.
func one(t *simulator.Trace, fact func(o *simulator.Outcome) string) string {
	if len(t.Outcomes) != 1 {
		return fmt.Sprintf("%d outcomes, want one", len(t.Outcomes))
	}
	return fact(&t.Outcomes[0])
}

// Redirect wants all requests to be redirected with the status to the location.
func Redirect(status uint32, location string) Check {
	return func(t *simulator.Trace) string {
		return one(t, func(o *simulator.Outcome) string {
			if o.Kind != simulator.Redirected || o.Status != status || o.Location != location {
				return fmt.Sprintf("%s %d %q, want redirect %d %q", o.Kind, o.Status, o.Location, status, location)
			}
			return ""
		})
	}
}

// Status wants Envoy itself to answer all requests with the status.
func Status(status uint32) Check {
	return func(t *simulator.Trace) string {
		return one(t, func(o *simulator.Outcome) string {
			if o.Status != status {
				return fmt.Sprintf("%s with status %d, want %d", o.Kind, o.Status, status)
			}
			return ""
		})
	}
}

// NotFound wants no route to take the request.
func NotFound() Check { return kind(simulator.NotFound) }

// Refused wants the connection not to come about.
func Refused() Check { return kind(simulator.Refused) }

func kind(want simulator.OutcomeKind) Check {
	return func(t *simulator.Trace) string {
		return one(t, func(o *simulator.Outcome) string {
			if o.Kind != want {
				return fmt.Sprintf("outcome is %q, want %q", o.Kind, want)
			}
			return ""
		})
	}
}

// Path wants every forwarded request to have the path, query string included, at the upstream.
func Path(want string) Check {
	return forwarded("path", want, func(o *simulator.Outcome) string { return o.Path })
}

// Host wants every forwarded request to have the authority at the upstream.
func Host(want string) Check {
	return forwarded("host", want, func(o *simulator.Outcome) string { return o.Host })
}

func forwarded(what, want string, get func(o *simulator.Outcome) string) Check {
	return func(t *simulator.Trace) string {
		seen := false
		for i := range t.Outcomes {
			o := &t.Outcomes[i]
			if o.Kind != simulator.Forwarded {
				continue
			}
			if seen = true; get(o) != want {
				return fmt.Sprintf("upstream %s is %q, want %q", what, get(o), want)
			}
		}
		if !seen {
			return "nothing is forwarded"
		}
		return ""
	}
}

// From wants one of the outcomes to come from the object, written "Kind/namespace/name".
func From(object string) Check {
	return func(t *simulator.Trace) string {
		var have []string
		for i := range t.Outcomes {
			for _, o := range t.Outcomes[i].Origins {
				if o.String() == object {
					return ""
				}
				have = append(have, o.String())
			}
		}
		return fmt.Sprintf("comes from %v, want %s", have, object)
	}
}

// Lost wants a candidate whose name or origin contains the text to have lost for a reason that contains reason.
func Lost(candidate, reason string) Check {
	return func(t *simulator.Trace) string {
		for i := range t.Candidates {
			c := &t.Candidates[i]
			hit := strings.Contains(c.Name, candidate)
			for _, o := range c.Origins {
				hit = hit || strings.Contains(o.String(), candidate)
			}
			if hit && strings.Contains(c.Reason, reason) {
				return ""
			}
		}
		return fmt.Sprintf("no candidate %q lost because of %q", candidate, reason)
	}
}
