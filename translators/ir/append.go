package ir

import (
	"bytes"
	"encoding/json"
	"strconv"
	"unicode/utf8"
)

// object appends JSON to what is there already, byte for byte as an encoding/json.Encoder without HTML escapes does. Routes and
// clusters are most of a program; the frequent parts of them are written by hand, without reflection, the rare ones by
// encoding/json. The first error stays.
type object struct {
	out     []byte
	spare   bytes.Buffer
	encoder *json.Encoder
	err     error
}

func newObject() *object {
	o := &object{}
	o.encoder = json.NewEncoder(&o.spare)
	o.encoder.SetEscapeHTML(false)
	return o
}

// key begins a member; k has its quotes and colon. An element of an array has no key.
func (o *object) key(k string) {
	o.next()
	o.out = append(o.out, k...)
}

// next separates a member or element from the one before it.
func (o *object) next() {
	if c := o.out[len(o.out)-1]; c != '{' && c != '[' {
		o.out = append(o.out, ',')
	}
}

// value appends any value.
func (o *object) value(v any) {
	o.spare.Reset()
	if err := o.encoder.Encode(v); err != nil {
		o.err = err
		return
	}
	o.out = append(o.out, bytes.TrimSuffix(o.spare.Bytes(), []byte("\n"))...)
}

// any appends a member of any type.
func (o *object) any(k string, v any) {
	o.key(k)
	o.value(v)
}

// plain are the bytes that stand for themselves in a JSON string.
var plain = func() (table [256]bool) {
	for c := ' '; c < utf8.RuneSelf; c++ {
		table[c] = c != '"' && c != '\\'
	}
	return table
}()

func (o *object) text(s string) {
	for i := range len(s) {
		if !plain[s[i]] {
			o.value(s)
			return
		}
	}
	o.out = append(append(append(o.out, '"'), s...), '"')
}

func (o *object) string(k, s string) {
	o.key(k)
	o.text(s)
}

// stringIf appends a member that is left out when it is empty; so do the others of this name.
func (o *object) stringIf(k, s string) {
	if s != "" {
		o.string(k, s)
	}
}

func (o *object) int(k string, v int64) {
	o.key(k)
	o.out = strconv.AppendInt(o.out, v, 10)
}

func (o *object) intIf(k string, v int64) {
	if v != 0 {
		o.int(k, v)
	}
}

func (o *object) boolIf(k string, v bool) {
	if v {
		o.key(k)
		o.out = append(o.out, "true"...)
	}
}

// list appends an array of what write appends.
func list[T any](o *object, all []T, write func(*object, *T)) {
	if all == nil {
		o.out = append(o.out, "null"...)
		return
	}
	o.out = append(o.out, '[')
	for i := range all {
		o.next()
		write(o, &all[i])
	}
	o.out = append(o.out, ']')
}

func listIf[T any](o *object, k string, all []T, write func(*object, *T)) {
	if len(all) > 0 {
		o.key(k)
		list(o, all, write)
	}
}

func (o *object) origins(k string, all []Origin) {
	o.key(k)
	list(o, all, (*object).origin)
}

func (o *object) origin(r *Origin) {
	o.out = append(o.out, '{')
	o.stringIf(`"group":`, r.Group)
	o.string(`"kind":`, r.Kind)
	o.stringIf(`"namespace":`, r.Namespace)
	o.string(`"name":`, r.Name)
	o.out = append(o.out, '}')
}

func (o *object) route(r *Route) {
	o.out = append(o.out, '{')
	o.string(`"name":`, r.Name)
	o.key(`"match":`)
	o.match(&r.Match)
	if r.Forward != nil {
		o.key(`"forward":`)
		o.forward(r.Forward)
	}
	if r.Redirect != nil {
		o.key(`"redirect":`)
		o.redirect(r.Redirect)
	}
	if r.Direct != nil {
		o.any(`"direct":`, r.Direct)
	}
	o.headers(`"requestHeaders":`, &r.RequestHeaders)
	o.headers(`"responseHeaders":`, &r.ResponseHeaders)
	if r.CORS != nil {
		o.any(`"cors":`, r.CORS)
	}
	o.boolIf(`"own":`, r.Own)
	if len(r.Filters) > 0 {
		o.any(`"filters":`, r.Filters)
	}
	o.origins(`"origins":`, r.Origins)
	o.out = append(o.out, '}')
}

func (o *object) match(m *Match) {
	o.out = append(o.out, '{')
	o.string(`"pathKind":`, string(m.PathKind))
	o.string(`"path":`, m.Path)
	o.boolIf(`"ignoreCase":`, m.IgnoreCase)
	listIf(o, `"headers":`, m.Headers, (*object).valueMatch)
	listIf(o, `"query":`, m.Query, (*object).valueMatch)
	o.fractionIf(m.Fraction)
	o.out = append(o.out, '}')
}

func (o *object) fractionIf(f *Fraction) {
	if f == nil {
		return
	}
	o.key(`"fraction":`)
	o.out = append(o.out, '{')
	o.int(`"numerator":`, int64(f.Numerator))
	o.int(`"denominator":`, int64(f.Denominator))
	o.out = append(o.out, '}')
}

func (o *object) valueMatch(m *ValueMatch) {
	o.out = append(o.out, '{')
	o.string(`"name":`, m.Name)
	o.string(`"kind":`, string(m.Kind))
	o.stringIf(`"value":`, m.Value)
	o.boolIf(`"invert":`, m.Invert)
	o.boolIf(`"ignoreCase":`, m.IgnoreCase)
	o.out = append(o.out, '}')
}

func (o *object) headers(k string, h *HeaderChanges) {
	if h.Add == nil && h.Remove == nil {
		return
	}
	o.key(k)
	o.out = append(o.out, '{')
	listIf(o, `"add":`, h.Add, (*object).header)
	listIf(o, `"remove":`, h.Remove, func(o *object, s *string) { o.text(*s) })
	o.out = append(o.out, '}')
}

func (o *object) header(h *HeaderValue) {
	o.out = append(o.out, '{')
	o.string(`"name":`, h.Name)
	o.string(`"value":`, h.Value)
	o.boolIf(`"append":`, h.Append)
	o.out = append(o.out, '}')
}

func (o *object) redirect(r *Redirect) {
	o.out = append(o.out, '{')
	o.boolIf(`"https":`, r.HTTPS)
	o.stringIf(`"scheme":`, r.Scheme)
	o.stringIf(`"host":`, r.Host)
	o.intIf(`"port":`, int64(r.Port))
	o.stringIf(`"path":`, r.Path)
	o.rewrites(r.PrefixRewrite, r.RegexRewrite)
	o.int(`"code":`, int64(r.Code))
	o.out = append(o.out, '}')
}

func (o *object) rewrites(prefix *string, regex *RegexRewrite) {
	if prefix != nil {
		o.string(`"prefixRewrite":`, *prefix)
	}
	if regex != nil {
		o.key(`"regexRewrite":`)
		o.out = append(o.out, '{')
		o.string(`"pattern":`, regex.Pattern)
		o.string(`"substitution":`, regex.Substitution)
		o.out = append(o.out, '}')
	}
}

func (o *object) retry(r *RetryPolicy) {
	o.out = append(o.out, '{')
	o.string(`"on":`, r.On)
	if r.NumRetries != nil {
		o.int(`"numRetries":`, int64(*r.NumRetries))
	}
	if r.PerTryTimeoutMillis != nil {
		o.int(`"perTryTimeoutMillis":`, *r.PerTryTimeoutMillis)
	}
	listIf(o, `"statusCodes":`, r.StatusCodes, func(o *object, c *uint32) { o.out = strconv.AppendUint(o.out, uint64(*c), 10) })
	if r.BackoffMillis != nil {
		o.int(`"backoffMillis":`, *r.BackoffMillis)
	}
	o.out = append(o.out, '}')
}

func (o *object) forward(f *Forward) {
	o.out = append(o.out, '{')
	o.key(`"clusters":`)
	list(o, f.Clusters, (*object).weightedCluster)
	o.rewrites(f.PrefixRewrite, f.RegexRewrite)
	o.stringIf(`"hostRewrite":`, f.HostRewrite)
	o.boolIf(`"autoHostRewrite":`, f.AutoHostRewrite)
	o.int(`"timeoutMillis":`, f.TimeoutMillis)
	if f.IdleTimeoutMillis != nil {
		o.int(`"idleTimeoutMillis":`, *f.IdleTimeoutMillis)
	}
	if f.Retry != nil {
		o.key(`"retry":`)
		o.retry(f.Retry)
	}
	o.stringIf(`"priority":`, f.Priority)
	listIf(o, `"upgrades":`, f.Upgrades, func(o *object, s *string) { o.text(*s) })
	if len(f.Mirrors) > 0 {
		o.any(`"mirrors":`, f.Mirrors)
	}
	if len(f.Hash) > 0 {
		o.any(`"hash":`, f.Hash)
	}
	o.out = append(o.out, '}')
}

func (o *object) weightedCluster(c *WeightedCluster) {
	o.out = append(o.out, '{')
	o.string(`"cluster":`, c.Cluster)
	o.intIf(`"weight":`, int64(c.Weight))
	o.headers(`"requestHeaders":`, &c.RequestHeaders)
	o.headers(`"responseHeaders":`, &c.ResponseHeaders)
	o.out = append(o.out, '}')
}

// upstream writes where a cluster's endpoints come from, of which the program and the cluster map say the same.
func (o *object) upstream(c *Cluster) {
	o.string(`"discovery":`, string(c.Discovery))
	o.stringIf(`"host":`, c.Host)
	o.intIf(`"port":`, int64(c.Port))
	if len(c.More) > 0 {
		o.any(`"more":`, c.More)
	}
	o.stringIf(`"endpointSet":`, c.EndpointSet)
}

func (o *object) cluster(c *Cluster) {
	o.out = append(o.out, '{')
	o.string(`"name":`, c.Name)
	o.stringIf(`"statName":`, c.StatName)
	o.upstream(c)
	o.stringIf(`"service":`, c.Service)
	o.stringIf(`"namespace":`, c.Namespace)
	o.int(`"connectTimeoutMillis":`, c.ConnectTimeoutMillis)
	if c.IdleTimeoutMillis != nil {
		o.int(`"idleTimeoutMillis":`, *c.IdleTimeoutMillis)
	}
	if c.MaxConnectionMillis != nil {
		o.int(`"maxConnectionMillis":`, *c.MaxConnectionMillis)
	}
	o.stringIf(`"dnsFamily":`, c.DNSFamily)
	o.boolIf(`"respectDnsTtl":`, c.RespectDNSTTL)
	o.string(`"loadBalancer":`, c.LoadBalancer)
	o.boolIf(`"http2":`, c.HTTP2)
	if len(c.CircuitBreakers) > 0 {
		o.any(`"circuitBreakers":`, c.CircuitBreakers)
	}
	if c.Keepalive != nil {
		o.any(`"keepalive":`, c.Keepalive)
	}
	if len(c.HealthChecks) > 0 {
		o.any(`"healthChecks":`, c.HealthChecks)
	}
	if c.TLS != nil {
		o.any(`"tls":`, c.TLS)
	}
	if len(c.HeaderCase) > 0 {
		o.any(`"headerCase":`, c.HeaderCase)
	}
	if len(c.Origins) > 0 {
		o.origins(`"origins":`, c.Origins)
	}
	o.out = append(o.out, '}')
}

func (o *object) endpointSet(s *EndpointSet) {
	o.out = append(o.out, '{')
	o.string(`"name":`, s.Name)
	listIf(o, `"endpoints":`, s.Endpoints, (*object).endpoint)
	if len(s.Origins) > 0 {
		o.origins(`"origins":`, s.Origins)
	}
	o.out = append(o.out, '}')
}

func (o *object) endpoint(e *Endpoint) {
	o.out = append(o.out, '{')
	o.string(`"address":`, e.Address)
	o.int(`"port":`, int64(e.Port))
	o.stringIf(`"zone":`, e.Zone)
	o.out = append(o.out, '}')
}
