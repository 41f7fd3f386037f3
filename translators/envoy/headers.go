package envoy

import (
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"

	"github.com/chancery-gateway/chancery/translators/ir"
)

// headersToAdd builds a list of headers to write. side is "request" or "response".
func headersToAdd(side string, list []ir.HeaderValue, f *faults) []*corev3.HeaderValueOption {
	if len(list) == 0 {
		return nil
	}
	out := make([]*corev3.HeaderValueOption, len(list))
	for i := range list {
		h := &list[i]
		path := side + "_headers_to_add"
		changeable(path, h.Name, f)
		printable(path, h, f)
		format(path, h.Value, f)
		action := corev3.HeaderValueOption_OVERWRITE_IF_EXISTS_OR_ADD
		if h.Append {
			action = corev3.HeaderValueOption_APPEND_IF_EXISTS_OR_ADD
		}
		out[i] = &corev3.HeaderValueOption{
			Header:       &corev3.HeaderValue{Key: h.Name, Value: h.Value},
			AppendAction: action,
			// Envoy drops a header without value unless told to keep it; who writes one wants it.
			KeepEmptyValue: h.Value == "",
		}
	}
	return out
}

func headersToRemove(side string, names []string, f *faults) []string {
	for _, n := range names {
		changeable(side+"_headers_to_remove", n, f)
	}
	return names
}
