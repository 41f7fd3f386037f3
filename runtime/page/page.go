// Package page renders the diagnostics page, /ambassador/v0/diag/: what an author needs to see at once why an object does not
// route, in HTML that needs no script and fetches nothing. Every text on it is somebody's input: html/template escapes it.
package page

import (
	"bytes"
	"context"
	"crypto/sha256"
	_ "embed" // for the template and its style sheet
	"encoding/base64"
	"html/template"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/chancery-gateway/chancery/runtime/modules"
	"github.com/chancery-gateway/chancery/snapshot"
	"github.com/chancery-gateway/chancery/translators"
	"github.com/chancery-gateway/chancery/xds"
	"github.com/chancery-gateway/chancery/xds/validator"
)

// State is what the page shows.
type State struct {
	Version, Hostname, AmbassadorID, Namespace string
	SingleNamespace                            bool
	Uptime                                     time.Duration
	// Ready says whether requests are answered, Why in words.
	Ready bool
	Why   string
	// Process is the state of the Envoy that Chancery runs, EnvoyVersion and EnvoyUptime are "" where it runs none.
	Process, EnvoyVersion, EnvoyUptime, EnvoyState string
	// Stale: what is served is an earlier run's. SinceUpdate is how long ago the configuration was published, "" for never.
	Stale       bool
	SinceUpdate string
	// Result is the last compile; nil before the first.
	Result   *translators.Result
	Findings []snapshot.Diagnostic
	// Nodes are the Envoys that are connected; Validator is nil without one.
	Nodes     []xds.NodeStatus
	Validator *validator.Status
	Policies  []Policy
	Modules   []modules.Report
}

// Policy is one policy in force.
type Policy struct {
	ID, Tenant, Revision, Enforcement, Status, Why string
}

//go:embed page.html
var markup string

//go:embed page.css
var style string

var shape = template.Must(template.New("page").Funcs(template.FuncMap{
	"style": func() template.CSS { return template.CSS(style) }, // our own text, in whole
	"type":  shortType,
	"list":  func(all []string) string { return strings.Join(all, ", ") },
	"short": func(digest string) string { d := strings.TrimPrefix(digest, "sha256:"); return d[:min(12, len(d))] },
	"age":   func(t time.Time) string { return time.Since(t).Round(time.Second).String() },
}).Parse(markup))

// policy lets the browser use the style sheet within the page, send the page's own forms, and nothing else.
var policy = func() string {
	sum := sha256.Sum256([]byte(style))
	return "default-src 'none'; style-src 'sha256-" + base64.StdEncoding.EncodeToString(sum[:]) + "'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
}()

// Handler answers with the page, of the state at that moment.
func Handler(state func(ctx context.Context) State) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var b bytes.Buffer
		if err := shape.Execute(&b, compose(state(r.Context()), r.URL.Query())); err != nil {
			http.Error(w, "the page cannot be made: "+err.Error()+"; ?json=true has the same content", http.StatusInternalServerError)
			return
		}
		h := w.Header()
		h.Set("Content-Type", "text/html; charset=utf-8")
		h.Set("Content-Security-Policy", policy)
		h.Set("X-Content-Type-Options", "nosniff")
		h.Set("Referrer-Policy", "no-referrer")
		h.Set("Cache-Control", "no-store")
		_, _ = w.Write(b.Bytes()) // the client went away; nobody is left to be told
	})
}

// view is the state as the template wants it.
type view struct {
	State
	Query    string
	Host     string
	Errors   int
	Warnings int
	Infos    int
	Listed   findings
	Counts   []count
	Routes   routes
	Ask      ask
	Object   *object
	Stuck    []refusal
}

type count struct {
	What string
	N    int
}

// String counts in words: "1 route", "2 routes".
func (c count) String() string {
	if c.N == 1 {
		return "1 " + c.What
	}
	return strconv.Itoa(c.N) + " " + c.What + "s"
}

// refusal is a resource that an Envoy does not take.
type refusal struct {
	Node, Type, Text string
	Names            []string
	Origins          []snapshot.Ref
}

func compose(s State, q url.Values) *view {
	v := &view{State: s, Query: strings.TrimSpace(q.Get("q")), Host: strings.ToLower(strings.TrimSpace(q.Get("host")))}
	for _, d := range s.Findings {
		switch d.Severity {
		case snapshot.Error:
			v.Errors++
		case snapshot.Warning:
			v.Warnings++
		default:
			v.Infos++
		}
	}
	v.Listed = list(s.Findings, v.Query, q)
	for _, n := range s.Nodes {
		for _, t := range n.Types {
			for _, r := range t.Refused {
				v.Stuck = append(v.Stuck, refusal{n.ID, t.Type, r.Text, r.Names, r.Origins})
			}
		}
	}
	if s.Result == nil || s.Result.Program == nil {
		v.Ask = read(q)
		return v
	}
	p := s.Result.Program
	hosts, rows := 0, 0
	for _, rc := range p.RouteConfigs {
		hosts += len(rc.VirtualHosts)
		for _, h := range rc.VirtualHosts {
			rows += len(h.Routes)
		}
	}
	v.Counts = []count{{"listener", len(p.Listeners)}, {"virtual host", hosts}, {"route", rows}, {"cluster", len(p.Clusters)}, {"endpoint set", len(p.EndpointSets)}, {"secret", len(p.Secrets)}}
	v.Routes = find(p, v.Query, v.Host, q)
	v.Ask = answer(s.Result, s.Findings, q)
	if name := strings.TrimSpace(q.Get("object")); name != "" {
		v.Object = follow(s.Result, name)
	}
	return v
}

// pager leads through a long list.
type pager struct {
	// From and To count from 1; Total is what the search left.
	From, To, Total int
	// Before and After are the links to the pages beside this one, "" for none.
	Before, After string
}

// page reads the number of the page from the query, and returns which part of total things it shows.
func page(q url.Values, key, anchor string, size, total int) (low, high int, p pager) {
	n, err := strconv.Atoi(q.Get(key))
	if last := max(0, total-1) / size; err != nil || n < 1 {
		n = 1
	} else if n > last+1 {
		n = last + 1
	}
	low = (n - 1) * size
	high = min(total, low+size)
	link := func(n int) string {
		to := url.Values{}
		for k, v := range q {
			to[k] = v
		}
		to.Set(key, strconv.Itoa(n))
		return "?" + to.Encode() + "#" + anchor
	}
	p = pager{From: min(low+1, total), To: high, Total: total}
	if n > 1 {
		p.Before = link(n - 1)
	}
	if high < total {
		p.After = link(n + 1)
	}
	return low, high, p
}

// shortType returns the last word of a type URL.
func shortType(url string) string { return url[strings.LastIndexByte(url, '.')+1:] }
