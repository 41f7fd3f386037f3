package emissary

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	api "github.com/chancery-gateway/chancery/snapshot/api/v3alpha1"
	"github.com/chancery-gateway/chancery/translators/ir"
)

// addedHeaders checks headers to add, sorted by name. Append defaults to true, as in Emissary.
func (l *lowering) addedHeaders(path string, headers map[string]api.AddedHeader) []ir.HeaderValue {
	if len(headers) == 0 {
		return nil
	}
	out := make([]ir.HeaderValue, 0, len(headers))
	for name, h := range headers {
		out = append(out, ir.HeaderValue{Name: name, Value: h.Value, Append: h.Append == nil || *h.Append})
	}
	slices.SortFunc(out, func(a, b ir.HeaderValue) int { return strings.Compare(a.Name, b.Name) })
	for i := range out {
		at := path + "[" + out[i].Name + "]"
		if err := checkHeaderName(out[i].Name); err != nil {
			l.fail(codeMappingHeader, at, err.Error(), "")
		} else if err := checkHeaderText(out[i].Value); err != nil {
			l.fail(codeMappingHeader, at+".value", err.Error(), "")
		} else if err := checkFormat(out[i].Value); err != nil {
			l.fail(codeMappingHeader, at+".value", err.Error(), "")
		}
	}
	return out
}

func (l *lowering) removedHeaders(path string, names []string) []string {
	for i, name := range names {
		if err := checkHeaderName(name); err != nil {
			l.fail(codeMappingHeader, path+"["+strconv.Itoa(i)+"]", err.Error(), "")
		}
	}
	return names
}

// headerChanges fills in what the route does to headers, with the Module's defaults where the Mapping says nothing.
func (l *lowering) headerChanges(r *ir.Route, spec *api.MappingSpec) {
	r.RequestHeaders = ir.HeaderChanges{Add: l.set.add.request, Remove: l.set.remove.request}
	r.ResponseHeaders = ir.HeaderChanges{Add: l.set.add.response, Remove: l.set.remove.response}
	if spec.AddRequestHeaders != nil {
		r.RequestHeaders.Add = l.addedHeaders("spec.add_request_headers", spec.AddRequestHeaders)
	}
	if spec.AddResponseHeaders != nil {
		r.ResponseHeaders.Add = l.addedHeaders("spec.add_response_headers", spec.AddResponseHeaders)
	}
	if spec.RemoveRequestHeaders != nil {
		r.RequestHeaders.Remove = l.removedHeaders("spec.remove_request_headers", spec.RemoveRequestHeaders)
	}
	if spec.RemoveResponseHeaders != nil {
		r.ResponseHeaders.Remove = l.removedHeaders("spec.remove_response_headers", spec.RemoveResponseHeaders)
	}
}

// cors makes a cross-origin policy.
func (l *lowering) cors(path string, c *api.CORS) *ir.CORS {
	out := &ir.CORS{
		Origins: c.Origins, Methods: strings.Join(c.Methods, ", "), Headers: strings.Join(c.Headers, ", "),
		ExposeHeaders: strings.Join(c.ExposedHeaders, ", "), MaxAge: c.MaxAge, Credentials: c.Credentials,
	}
	for i, origin := range c.Origins {
		if origin == "" || checkHeaderText(origin) != nil {
			l.fail(codeMappingValue, path+".origins["+strconv.Itoa(i)+"]", fmt.Sprintf("%q is no origin", origin), "such as https://example.com, or \"*\" for all")
		}
	}
	for _, field := range []struct{ name, value string }{
		{"methods", out.Methods}, {"headers", out.Headers}, {"exposed_headers", out.ExposeHeaders}, {"max_age", out.MaxAge},
	} {
		if err := checkHeaderText(field.value); err != nil {
			l.fail(codeMappingValue, path+"."+field.name, err.Error(), "")
		}
	}
	return out
}

// retryConditions are what retry_on allows (Emissary docs: "Automatic retries").
var retryConditions = []string{"5xx", "gateway-error", "connect-failure", "retriable-4xx", "refused-stream", "retriable-status-codes"}

// retry makes a retry policy.
func (l *lowering) retry(path string, p *api.RetryPolicy) *ir.RetryPolicy {
	if !slices.Contains(retryConditions, p.RetryOn) {
		l.fail(codeMappingValue, path+".retry_on", fmt.Sprintf("unknown condition %q", p.RetryOn), strings.Join(retryConditions, ", "))
	}
	out := &ir.RetryPolicy{On: p.RetryOn, NumRetries: l.checkNumber(path+".num_retries", p.NumRetries)}
	if p.PerTryTimeout == "" {
		return out
	}
	span, err := time.ParseDuration(p.PerTryTimeout)
	if err != nil || span < 0 {
		l.fail(codeMappingValue, path+".per_try_timeout", fmt.Sprintf("%q is no duration", p.PerTryTimeout), "such as \"0.25s\"")
		return out
	}
	ms := span.Milliseconds()
	out.PerTryTimeoutMillis = &ms
	return out
}
