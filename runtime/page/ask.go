package page

import (
	"cmp"
	"fmt"
	"net/url"
	"regexp"
	"slices"
	"strings"

	"github.com/chancery-gateway/chancery/snapshot"
	"github.com/chancery-gateway/chancery/snapshot/api/v3alpha1"
	"github.com/chancery-gateway/chancery/translators"
	"github.com/chancery-gateway/chancery/translators/ir"
	"github.com/chancery-gateway/chancery/translators/simulator"
)

// ask is the box in which an author asks about a request.
type ask struct {
	Method, URL, Headers string
	// Problem says why the request cannot be read.
	Problem string
	// Text is the whole answer, Outcome its first words; Good: some of the requests reach a service.
	Text, Outcome string
	Good          bool
	Sources       []source
	// Suspects are findings about objects that ask for such requests.
	Suspects []finding
}

func read(q url.Values) ask {
	return ask{Method: strings.TrimSpace(q.Get("method")), URL: strings.TrimSpace(q.Get("url")), Headers: q.Get("headers")}
}

// answer has the simulator follow the request, where one is asked about.
func answer(s *translators.Result, found []snapshot.Diagnostic, q url.Values) ask {
	a := read(q)
	if a.URL == "" {
		return a
	}
	at := a.URL
	if !strings.Contains(at, "://") {
		at = "http://" + at
	}
	var headers []string
	for _, line := range strings.Split(a.Headers, "\n") {
		if line = strings.TrimSpace(line); line != "" {
			headers = append(headers, line)
		}
	}
	r, err := simulator.ParseRequest(a.Method, at, headers)
	if err != nil {
		a.Problem = err.Error()
		return a
	}
	t := simulator.Simulate(s.Program, r)
	a.Text, a.Suspects = t.Text(), suspects(s.Snapshot, found, r)
	var involved []ir.Origin
	for _, o := range t.Outcomes {
		a.Good = a.Good || o.Kind == simulator.Forwarded || o.Kind == simulator.Proxied
		involved = append(involved, o.Origins...)
	}
	for _, c := range t.Candidates {
		involved = append(involved, c.Origins...)
	}
	slices.SortFunc(involved, ir.Origin.Compare)
	a.Sources = sources(slices.Compact(involved))
	switch {
	case a.Good:
		a.Outcome = "A service gets this request."
	case len(t.Outcomes) > 0 && t.Outcomes[0].Kind == simulator.Redirected:
		a.Outcome = fmt.Sprintf("This request is redirected: %d to %s.", t.Outcomes[0].Status, t.Outcomes[0].Location)
	case len(t.Outcomes) > 0 && t.Outcomes[0].Status > 0:
		a.Outcome = fmt.Sprintf("No service gets this request: it is answered %d. %s", t.Outcomes[0].Status, t.Outcomes[0].Reason)
	case len(t.Outcomes) > 0:
		a.Outcome = "No service gets this request: " + t.Outcomes[0].Reason
	}
	return a
}

// mostSuspects bounds the findings beside an answer.
const mostSuspects = 10

// suspects returns the findings, remarks left out, about Mappings and Hosts that ask for such requests: what is refused has no
// route, so the simulator does not know of it.
func suspects(s *snapshot.Snapshot, found []snapshot.Diagnostic, r simulator.Request) []finding {
	var about []snapshot.Diagnostic
	for _, d := range found {
		o := s.Get(d.Object.GroupKind(), d.Object.Namespace, d.Object.Name)
		if o == nil || d.Severity == snapshot.Info {
			continue
		}
		switch spec := o.Spec.(type) {
		case *v3alpha1.MappingSpec:
			if takesHost(cmp.Or(spec.Hostname, spec.DeprecatedHost), spec.Hostname == "" && spec.DeprecatedHostRegex, r.Host) && takesPath(spec, r.Path) {
				about = append(about, d)
			}
		case *v3alpha1.HostSpec:
			if takesHost(spec.Hostname, false, r.Host) {
				about = append(about, d)
			}
		}
	}
	slices.SortStableFunc(about, func(a, b snapshot.Diagnostic) int { return cmp.Compare(a.Severity, b.Severity) })
	return rows(about[:min(len(about), mostSuspects)])
}

// takesHost reports whether a host as it is written in a Mapping or Host takes the request's, whose port does not matter here.
func takesHost(pattern string, regex bool, host string) bool {
	host, pattern = strings.ToLower(withoutPort(host)), strings.ToLower(pattern)
	if regex {
		return matches(pattern, host)
	}
	pattern = withoutPort(pattern)
	switch {
	case pattern == "" || pattern == "*":
		return true
	case strings.HasPrefix(pattern, "*"):
		return strings.HasSuffix(host, pattern[1:])
	case strings.HasSuffix(pattern, "*"):
		return strings.HasPrefix(host, pattern[:len(pattern)-1])
	}
	return host == pattern
}

// matches reports whether the expression matches all of the text. One that cannot be read, which is what the finding is about,
// matches what begins as it does.
func matches(expression, text string) bool {
	matched, err := regexp.MatchString("^(?:"+expression+")$", text)
	if err != nil {
		begin := expression
		if i := strings.IndexAny(begin, `\.+*?()|[]{}^$`); i >= 0 {
			begin = begin[:i]
		}
		return strings.HasPrefix(text, begin)
	}
	return matched
}

func withoutPort(host string) string {
	if i := strings.LastIndexByte(host, ':'); i > strings.LastIndexByte(host, ']') {
		return host[:i]
	}
	return host
}

// takesPath reports whether the Mapping's prefix takes the path.
func takesPath(m *v3alpha1.MappingSpec, path string) bool {
	path, _, _ = strings.Cut(path, "?")
	prefix := m.Prefix
	if m.CaseSensitive != nil && !*m.CaseSensitive && !m.PrefixRegex {
		path, prefix = strings.ToLower(path), strings.ToLower(prefix)
	}
	switch {
	case m.PrefixRegex:
		return matches(prefix, path)
	case m.PrefixExact:
		return path == prefix
	}
	return strings.HasPrefix(path, prefix)
}
