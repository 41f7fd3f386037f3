package simulator

import (
	"fmt"
	"math"
	"strconv"
	"strings"

	"github.com/chancery-gateway/chancery/translators/ir"
)

// Text renders the trace for people, one fact a line.
func (t *Trace) Text() string {
	w := &page{}
	w.line(0, "%s", t.Request)
	step := func(what string, s *Step) {
		if s != nil {
			w.line(1, "%-13s %s%s%s", what, s.Name, because(s.Why), from(s.Origins))
		}
	}
	step("listener", t.Listener)
	step("filter chain", t.Chain)
	if t.RouteConfig != "" {
		w.line(1, "%-13s %s", "routes", t.RouteConfig)
	}
	step("virtual host", t.VirtualHost)
	if t.Path != "" && (t.Path != t.Request.Path || t.Host != t.Request.Host) {
		w.line(1, "%-13s %s%s (as Envoy normalises it)", "seen as", t.Host, t.Path)
	}
	for i := range t.Outcomes {
		w.outcome(&t.Outcomes[i])
	}
	if len(t.Candidates) > 0 {
		w.line(0, "not chosen:")
	}
	for i := range t.Candidates {
		c := &t.Candidates[i]
		w.line(1, "%s %s%s%s", c.Kind, c.Name, because(c.Match), from(c.Origins))
		w.line(2, "%s", c.Reason)
	}
	if t.MoreCandidates > 0 {
		w.line(1, "and %d more", t.MoreCandidates)
	}
	return w.String()
}

type page struct{ strings.Builder }

func (w *page) line(indent int, format string, args ...any) {
	w.WriteString(strings.Repeat("  ", indent))
	fmt.Fprintf(w, format, args...)
	w.WriteByte('\n')
}

func (w *page) outcome(o *Outcome) {
	what := ""
	switch o.Kind {
	case Forwarded, Proxied:
		what = "forwarded"
		if o.Kind == Proxied {
			what = "proxied as TCP"
		}
	case Redirected:
		what = fmt.Sprintf("redirected: %d to %s", o.Status, o.Location)
	case Answered:
		what = fmt.Sprintf("answered: %d %q", o.Status, o.Body)
		if o.Location != "" {
			what += ", location " + o.Location
		}
	case NotFound, Intercepted:
		what = fmt.Sprintf("answered: %d, %s", o.Status, o.Reason)
	case Refused:
		what = "no answer: " + o.Reason
	}
	w.line(0, "%s %s", percent(o.Share), what)
	if o.Route != "" || o.Match != "" {
		w.line(1, "%-13s %s%s%s", "route", o.Route, because(o.Match), from(o.Origins))
	}
	for _, f := range o.Filters {
		w.line(1, "%-13s %s %s%s", "filter", strings.TrimPrefix(f.Name, "envoy.filters.http."), f.Does, from(f.Origins))
	}
	for _, c := range o.Clusters {
		w.line(1, "%-13s %s %s%s%s", "cluster", percent(c.Share), c.Name, because(c.Target), from(c.Origins))
		if c.Host != "" {
			w.line(2, "host %s", c.Host)
		}
		w.headers(2, "request", c.RequestHeaders)
		w.headers(2, "response", c.ResponseHeaders)
	}
	if o.Kind == Forwarded {
		w.line(1, "%-13s %s%s", "upstream sees", o.Host, o.Path)
		if o.TimeoutMillis != nil && *o.TimeoutMillis > 0 {
			w.line(1, "%-13s %d ms", "timeout", *o.TimeoutMillis)
		} else {
			w.line(1, "%-13s none", "timeout")
		}
		if o.Priority != "" && o.Priority != "default" {
			w.line(1, "%-13s %s", "priority", o.Priority)
		}
	}
	for _, m := range o.Mirrors {
		w.line(1, "%-13s %s of these to %s%s", "mirror", percent(m.Share), m.Name, from(m.Origins))
	}
	w.headers(1, "request", o.RequestHeaders)
	w.headers(1, "response", o.ResponseHeaders)
}

func (w *page) headers(indent int, of string, h ir.HeaderChanges) {
	for _, a := range h.Add {
		verb := "set"
		if a.Append {
			verb = "add"
		}
		w.line(indent, "%-13s %s %s: %s", of, verb, a.Name, a.Value)
	}
	for _, name := range h.Remove {
		w.line(indent, "%-13s remove %s", of, name)
	}
}

func percent(share float64) string {
	return strconv.FormatFloat(math.Round(share*1e4)/1e4, 'f', -1, 64) + " %"
}

func because(why string) string {
	if why == "" {
		return ""
	}
	return " (" + why + ")"
}

// from lists source objects, the first few of them.
func from(origins []ir.Origin) string {
	if len(origins) == 0 {
		return ""
	}
	const shown = 3
	names := make([]string, 0, shown)
	for _, o := range origins[:min(shown, len(origins))] {
		names = append(names, o.String())
	}
	more := ""
	if n := len(origins) - shown; n > 0 {
		more = fmt.Sprintf(" and %d more", n)
	}
	return "  from " + strings.Join(names, ", ") + more
}
