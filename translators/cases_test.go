package translators_test

import (
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/chancery-gateway/chancery/translators"
	"github.com/chancery-gateway/chancery/translators/ir"
	"github.com/chancery-gateway/chancery/translators/simulator"
)

var update = flag.Bool("update", false, "rewrite the expected parts of testdata/cases")

// TestCases compiles every folder of testdata/cases. requests.txt says by hand what requests must meet with; want.txt is
// the whole outcome as text, rewritten by -update and reviewed as text.
func TestCases(t *testing.T) {
	folders, err := filepath.Glob("../testdata/cases/*")
	if err != nil || len(folders) == 0 {
		t.Fatalf("no cases: %v", err)
	}
	for _, folder := range folders {
		t.Run(filepath.Base(folder), func(t *testing.T) {
			input, err := os.ReadFile(filepath.Join(folder, "input.yaml"))
			if err != nil {
				t.Fatal(err)
			}
			r := newCompiler().Compile(load(t, "input.yaml", string(input)))
			checkRequests(t, filepath.Join(folder, "requests.txt"), r.Program)
			golden(t, filepath.Join(folder, "want.txt"), describe(r))
		})
	}
}

func checkRequests(t *testing.T, file string, p *ir.Program) {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	for n, line := range strings.Split(string(text), "\n") {
		if line = strings.TrimSpace(line); line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		ask, want, ok := strings.Cut(line, " => ")
		if !ok {
			t.Fatalf("%s:%d: no =>", file, n+1)
		}
		words := strings.Split(ask, " -H ")
		method, url, _ := strings.Cut(words[0], " ")
		var headers []string
		for _, h := range words[1:] {
			headers = append(headers, strings.Trim(strings.TrimSpace(h), `"`))
		}
		q, err := simulator.ParseRequest(method, url, headers)
		if err != nil {
			t.Fatalf("%s:%d: %v", file, n+1, err)
		}
		trace := simulator.Simulate(p, q)
		if got := outcomes(trace, strings.Contains(want, " path ")); got != want {
			t.Errorf("%s:%d: %s\n got  %s\n want %s\n%s", file, n+1, ask, got, want, trace.Text())
		}
	}
}

// outcomes renders a trace in the form of requests.txt.
func outcomes(tr simulator.Trace, path bool) string {
	var parts []string
	for _, o := range tr.Outcomes {
		if o.Share == 0 {
			continue
		}
		var s string
		switch o.Kind {
		case simulator.Forwarded, simulator.Proxied:
			for i, c := range o.Clusters {
				_, target, dns := strings.Cut(c.Target, "://")
				if !dns {
					_, target, _ = strings.Cut(c.Target, " to ")
				}
				if i > 0 {
					s += " or "
				}
				if len(o.Clusters) > 1 {
					s += fmt.Sprintf("%.4g%% ", c.Share)
				}
				s += target
			}
			if o.Kind == simulator.Proxied {
				s = "tcp " + s
			}
			for _, m := range o.Mirrors {
				s += fmt.Sprintf(" (copy %g%% %s)", m.Share, m.Name)
			}
			if path {
				s += " path " + o.Path
			}
		case simulator.Redirected:
			s = fmt.Sprintf("%d %s", o.Status, o.Location)
		case simulator.NotFound:
			s = "404"
		case simulator.Refused:
			s = "refused"
		default:
			s = fmt.Sprint(o.Status)
		}
		for _, f := range o.Filters {
			if strings.HasPrefix(f.Does, "asks ") {
				s = "asked " + s
			}
		}
		if o.Share < 99.999 {
			s = fmt.Sprintf("%.4g%% %s", o.Share, s)
		}
		parts = append(parts, s)
	}
	return strings.Join(parts, ", ")
}

func golden(t *testing.T, file, got string) {
	t.Helper()
	if *update {
		if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatalf("%v (run the test with -update)", err)
	}
	if d := cmp.Diff(string(want), got); d != "" {
		t.Errorf("%s differs (-want +got):\n%s", file, d)
	}
}

// describe renders what matters of a result as text that a reviewer can read.
func describe(r *translators.Result) string {
	var b strings.Builder
	w := func(format string, args ...any) { fmt.Fprintf(&b, format+"\n", args...) }
	for _, d := range r.Diagnostics {
		w("%s", d)
	}
	p := r.Program
	for _, l := range p.Listeners {
		w("listener %s %s:%d%s%s%s", l.Name, l.Address, l.Port, flagged(l.UDP, "/udp"), flagged(l.ProxyProtocol, " proxy-protocol"), flagged(l.TLSInspector, " tls-inspector"))
		for _, c := range l.Chains {
			w("  chain %s %v %s%s", c.Name, c.Match.ServerNames, c.Match.Transport, certificates(c.TLS))
			if c.HTTP != nil {
				w("    http %s stat %s hops %d%s", c.HTTP.RouteConfig, c.HTTP.StatPrefix, c.HTTP.TrustedHops, filters(c.HTTP))
			}
			if c.TCP != nil {
				w("    tcp %v", c.TCP.Clusters)
			}
		}
	}
	for _, c := range p.RouteConfigs {
		w("routes %s%s", c.Name, map[bool]string{true: " whatever the port"}[c.IgnorePort])
		for _, v := range c.VirtualHosts {
			w("  host %s %v from %v%s", v.Name, v.Domains, v.Origins, map[bool]string{true: fmt.Sprintf(" http3 on %d", v.HTTP3Port)}[v.HTTP3Port != 0])
			for _, route := range v.Routes {
				if strings.Contains(route.Match.Path, "/ambassador/v0/") {
					continue // the probes, on every host
				}
				w("    %s", routeLine(route))
			}
		}
	}
	for _, c := range p.Clusters {
		if c.Host == "127.0.0.1" && c.Port == 8877 {
			continue
		}
		w("cluster %s %s %s:%d%s stat %s connect %d%s%s from %v", c.Name, c.Discovery, c.Host, c.Port, c.EndpointSet, c.StatName, c.ConnectTimeoutMillis,
			flagged(c.HTTP2, " http2"), flagged(c.TLS != nil, " tls"), c.Origins)
	}
	for _, e := range p.EndpointSets {
		w("endpoints %s %v", e.Name, e.Endpoints)
	}
	for _, s := range r.Statuses {
		w("status %s", s.Object)
		w("  %s", strings.Join(append(conditions(s.Conditions), addresses(s.Addresses)...), ", "))
		for _, l := range s.Listeners {
			kinds := make([]string, len(l.SupportedKinds))
			for i, k := range l.SupportedKinds {
				kinds[i] = k.Kind
			}
			w("  listener %s %v routes %d: %s", l.Name, kinds, l.AttachedRoutes, strings.Join(conditions(l.Conditions), ", "))
		}
		for _, p := range s.Parents {
			w("  at %s%s%v: %s", p.Parent.Ref(), flagged(p.Parent.SectionName != "", " "+p.Parent.SectionName)+" ", p.Attached, strings.Join(conditions(p.Conditions), ", "))
		}
	}
	for _, s := range p.Secrets {
		w("secret %s%s%s from %v", s.Name, flagged(len(s.Certificate) > 0, " certificate"), flagged(len(s.CA) > 0, " trust"), s.Origins)
	}
	return b.String()
}

// conditions renders conditions by their reasons; one that is false has a "not" before it.
func conditions(all []ir.Condition) []string {
	out := make([]string, len(all))
	for i, c := range all {
		out[i] = flagged(!c.True, "not ") + c.Type
		if c.Reason != c.Type {
			out[i] += " (" + c.Reason + ")"
		}
	}
	return out
}

func addresses(all []ir.StatusAddress) []string {
	out := make([]string, len(all))
	for i, a := range all {
		out[i] = "address " + a.Value
	}
	return out
}

func flagged(b bool, s string) string {
	if b {
		return s
	}
	return ""
}

func certificates(t *ir.DownstreamTLS) string {
	if t == nil {
		return ""
	}
	return fmt.Sprintf(" tls %v validation %q required %t %+v", t.Certificates, t.Validation, t.RequireClientCertificate, t.Params)
}

// filters renders the filters of a chain but CORS, its logs and tracing.
func filters(h *ir.HTTPChain) string {
	s := ""
	for _, f := range h.Filters {
		if f.Name != ir.FilterCORS {
			config, _ := json.Marshal(f.Config)
			s += fmt.Sprintf("\n      filter %s %s from %v", f.Name, config, f.Origins)
		}
	}
	for _, l := range h.AccessLogs {
		s += fmt.Sprintf("\n      log %s to %s", l.Type, l.Cluster)
	}
	if h.Tracing != nil {
		s += fmt.Sprintf("\n      tracing %s to %s", h.Tracing.Driver, h.Tracing.Cluster)
	}
	return s
}

func routeLine(r *ir.Route) string {
	s := fmt.Sprintf("%s %s", r.Match.PathKind, r.Match.Path)
	for _, h := range r.Match.Headers {
		s += fmt.Sprintf(" [%s %s%s %q]", h.Name, flagged(h.Invert, "not "), h.Kind, h.Value)
	}
	for _, q := range r.Match.Query {
		s += fmt.Sprintf(" [?%s %s %q]", q.Name, q.Kind, q.Value)
	}
	if f := r.Match.Fraction; f != nil {
		s += fmt.Sprintf(" %d/%d", f.Numerator, f.Denominator)
	}
	switch {
	case r.Forward != nil:
		s += " ->"
		for _, c := range r.Forward.Clusters {
			s += " " + c.Cluster
		}
		if f := r.Forward; f.PrefixRewrite != nil {
			s += fmt.Sprintf(" rewrite %q", *f.PrefixRewrite)
		}
		if f := r.Forward; f.HostRewrite != "" {
			s += " host " + f.HostRewrite
		}
		s += fmt.Sprintf(" timeout %d", r.Forward.TimeoutMillis)
	case r.Redirect != nil:
		s += fmt.Sprintf(" redirect %d %s%s%s", r.Redirect.Code, flagged(r.Redirect.HTTPS, "https "), r.Redirect.Scheme, r.Redirect.Host)
	case r.Direct != nil:
		s += fmt.Sprintf(" answer %d", r.Direct.Status)
	}
	if len(r.Filters) > 0 {
		config, _ := json.Marshal(r.Filters)
		s += fmt.Sprintf(" filters %s", config)
	}
	for _, h := range r.RequestHeaders.Add {
		s += fmt.Sprintf(" +%s:%s", h.Name, h.Value)
	}
	return s + fmt.Sprintf(" from %v", r.Origins)
}
