package emissary

import (
	"fmt"
	"math"
	"net/netip"
	"slices"
	"strings"

	"github.com/chancery-gateway/chancery/translators/ir"
)

// filters returns the HTTP filters of a listener in Emissary's order: those that the Module turns on, CORS,
// authentication, rate limits.
func (l *lowering) filters() []*ir.Filter {
	out := append(slices.Clone(l.set.filters), &ir.Filter{Name: ir.FilterCORS, Origins: l.origins()})
	if x := l.authFilter(); x != nil {
		out = append(out, x)
	}
	if x := l.rateLimitFilter(); x != nil {
		out = append(out, x)
	}
	return out
}

// filters reads the keys that turn filters on, in the order in which these stand.
func (r *reader) filters() {
	put := func(name string, config any) {
		r.s.filters = append(r.s.filters, &ir.Filter{Name: name, Config: config, Origins: r.s.http.Origins})
	}
	if r.present("enable_grpc_http11_bridge") {
		put(ir.FilterGRPCBridge, nil)
	}
	if r.present("enable_grpc_web") {
		put(ir.FilterGRPCWeb, nil)
	}
	if stats := r.object("grpc_stats"); stats != nil {
		put(ir.FilterGRPCStats, stats.grpcStats())
	}
	var script string
	if r.text("lua_scripts", &script); script != "" {
		put(ir.FilterLua, &ir.Lua{Script: script})
	}
	if gzip := r.object("gzip"); gzip != nil {
		put(ir.FilterCompressor, gzip.gzip())
	}
	if buffer := r.object("buffer"); buffer != nil {
		if n, ok := buffer.number("max_request_bytes", 1, math.MaxUint32); ok {
			put(ir.FilterBuffer, &ir.Buffer{MaxRequestBytes: uint32(n)})
		} else if _, there := buffer.values["max_request_bytes"]; !there {
			r.invalid("buffer.max_request_bytes", "a number of bytes is needed", "")
		}
		buffer.unknown()
	}
	if rules := r.addressRules(); rules != nil {
		put(ir.FilterRBAC, rules)
	}
}

// present reads a key whose mere presence turns something on, as in Emissary: a value of false is told about.
func (r *reader) present(key string) bool {
	v, there := r.get(key)
	if there && v == false {
		r.l.warn(codeModuleValue, r.path+"."+key, "is on: its mere presence counts, as in Emissary", "remove the key")
	}
	return there
}

func (r *reader) grpcStats() *ir.GRPCStats {
	out := &ir.GRPCStats{}
	r.flag("all_methods", &out.AllMethods)
	r.flag("upstream_stats", &out.UpstreamStats)
	var services []struct {
		Name    string   `json:"name"`
		Methods []string `json:"method_names"`
	}
	if r.decode("services", &services) {
		for i, s := range services {
			if s.Name == "" || len(s.Methods) == 0 {
				r.invalid(fmt.Sprintf("services[%d]", i), "name and method_names are needed", "")
				continue
			}
			out.Services = append(out.Services, ir.GRPCService{Name: s.Name, Methods: s.Methods})
		}
		out.AllMethods = false
	}
	r.unknown()
	return out
}

// Names of Envoy's gzip settings (Envoy docs: compression.gzip.compressor.v3.Gzip).
var (
	gzipLevels = []string{
		"DEFAULT", "BEST", "SPEED", "DEFAULT_COMPRESSION", "BEST_SPEED", "COMPRESSION_LEVEL_1", "COMPRESSION_LEVEL_2", "COMPRESSION_LEVEL_3", "COMPRESSION_LEVEL_4",
		"COMPRESSION_LEVEL_5", "COMPRESSION_LEVEL_6", "COMPRESSION_LEVEL_7", "COMPRESSION_LEVEL_8", "COMPRESSION_LEVEL_9", "BEST_COMPRESSION",
	}
	gzipStrategies = []string{"DEFAULT", "FILTERED", "HUFFMAN", "RLE", "DEFAULT_STRATEGY", "FIXED", "HUFFMAN_ONLY"}
	// gzipOld are the names that Emissary's documentation has from an older Envoy.
	gzipOld = map[string]string{"BEST": "BEST_COMPRESSION", "SPEED": "BEST_SPEED", "HUFFMAN": "HUFFMAN_ONLY"}
)

func (r *reader) gzip() *ir.Compressor {
	out := &ir.Compressor{}
	small := func(key string, low, high int64, into *uint32) {
		if n, ok := r.number(key, low, high); ok {
			*into = uint32(n)
		}
	}
	small("memory_level", 1, 9, &out.MemoryLevel)
	small("window_bits", 9, 15, &out.WindowBits)
	small("min_content_length", 0, math.MaxUint32, &out.MinContentLength)
	if list, ok := r.texts("content_type"); ok {
		out.ContentTypes = list
	}
	r.flag("disable_on_etag_header", &out.DisableOnETag)
	r.flag("remove_accept_encoding_header", &out.RemoveAcceptEncoding)
	name := func(key, standard string, known []string) string {
		value := r.oneOf(key, known...)
		if old := gzipOld[value]; old != "" {
			return old
		}
		if value == "DEFAULT" {
			return standard
		}
		return value
	}
	out.Level = name("compression_level", "DEFAULT_COMPRESSION", gzipLevels)
	out.Strategy = name("compression_strategy", "DEFAULT_STRATEGY", gzipStrategies)
	r.unknown()
	return out
}

// addressRules reads ip_allow and ip_deny. Both hold where both are set. A list that cannot be read closes the gateway; so
// does a single unreadable range that was to be denied, while one that was to be allowed is left out.
func (r *reader) addressRules() *ir.AddressRules {
	allow, allowFault, allows := r.addressRanges("ip_allow")
	deny, denyFault, denies := r.addressRanges("ip_deny")
	if !allows && !denies {
		return nil
	}
	out := &ir.AddressRules{Allow: allow, Deny: deny}
	switch {
	case denyFault:
		out.Closed = "ip_deny cannot be read"
	case allows && len(allow) == 0:
		out.Closed = "ip_allow has no readable range"
	case !allows && len(deny) == 0:
		return nil // An empty list denies nobody.
	}
	if allowFault || denyFault {
		key := "ip_allow"
		if denyFault {
			key = "ip_deny"
		}
		if out.Closed != "" {
			r.invalid(key, out.Closed+": every request is answered 403", "")
		}
	}
	return out
}

// addressRanges reads a list of {peer: CIDR} and {remote: CIDR}. fault says that something in it is unreadable.
func (r *reader) addressRanges(key string) (list []ir.AddressRange, fault, there bool) {
	v, there := r.get(key)
	if !there {
		return nil, false, false
	}
	items, is := v.([]any)
	if !is {
		r.invalid(key, show(v)+" is not a list", "[{remote: 192.0.2.0/24}]")
		return nil, true, true
	}
	for i, item := range items {
		one, err := addressRange(item)
		if err != nil {
			r.invalid(fmt.Sprintf("%s[%d]", key, i), err.Error(), "{peer: CIDR} or {remote: CIDR}")
			fault = true
			continue
		}
		list = append(list, one)
	}
	return list, fault, true
}

func addressRange(item any) (ir.AddressRange, error) {
	object, is := item.(map[string]any)
	if !is || len(object) != 1 {
		return ir.AddressRange{}, fmt.Errorf("%s is no object with one key", show(item))
	}
	for who, v := range object {
		text, _ := v.(string)
		if who != "peer" && who != "remote" {
			return ir.AddressRange{}, fmt.Errorf("unknown key %q", who)
		}
		if !strings.Contains(text, "/") {
			if a, err := netip.ParseAddr(text); err == nil {
				return ir.AddressRange{Prefix: a.WithZone("").String(), Bits: uint32(a.BitLen()), Peer: who == "peer"}, nil
			}
		}
		p, err := netip.ParsePrefix(text)
		if err != nil {
			return ir.AddressRange{}, fmt.Errorf("%s is no range of addresses", show(v))
		}
		return ir.AddressRange{Prefix: p.Masked().Addr().String(), Bits: uint32(p.Bits()), Peer: who == "peer"}, nil
	}
	return ir.AddressRange{}, nil
}
