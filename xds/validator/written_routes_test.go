package validator

import (
	"strings"
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	bufferv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/buffer/v3"
	luav3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/lua/v3"
	urimatchv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/path/match/uri_template/v3"
	matcherv3 "github.com/envoyproxy/go-control-plane/envoy/type/matcher/v3"
	typev3 "github.com/envoyproxy/go-control-plane/envoy/type/v3"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/wrapperspb"
)

func headerOption(name, value string) []*corev3.HeaderValueOption {
	return []*corev3.HeaderValueOption{{Header: &corev3.HeaderValue{Key: name, Value: value}}}
}

func regexOf(pattern string) *matcherv3.RegexMatcher { return &matcherv3.RegexMatcher{Regex: pattern} }

func settings(name string, m proto.Message) map[string]*anypb.Any {
	return map[string]*anypb.Any{name: packed(m)}
}

func luaSettings(code string) map[string]*anypb.Any {
	return settings("envoy.filters.http.lua", &luav3.LuaPerRoute{Override: &luav3.LuaPerRoute_SourceCode{SourceCode: &corev3.DataSource{Specifier: &corev3.DataSource_InlineString{InlineString: code}}}})
}

// withLua adds the filter that a route's script needs.
func withLua(put func(*hand)) func(*hand) {
	return func(h *hand) {
		h.filter("envoy.filters.http.lua", &luav3.Lua{})
		put(h)
	}
}

func answerFrom(source *corev3.DataSource) func(*hand) {
	return func(h *hand) {
		h.route.Action = &routev3.Route_DirectResponse{DirectResponse: &routev3.DirectResponseAction{Status: 200, Body: source}}
	}
}

func filename(name string) *corev3.DataSource {
	return &corev3.DataSource{Specifier: &corev3.DataSource_Filename{Filename: name}}
}

// writtenRoutes are faults of route configurations (the study's 3.1 and 3.3).
func writtenRoutes() []writtenFault {
	path := func(pattern string) func(*hand) {
		return func(h *hand) {
			h.route.Match.PathSpecifier = &routev3.RouteMatch_SafeRegex{SafeRegex: regexOf(pattern)}
		}
	}
	rewrite := func(pattern, substitution string) func(*hand) {
		return func(h *hand) {
			h.action.RegexRewrite = &matcherv3.RegexMatchAndSubstitute{Pattern: regexOf(pattern), Substitution: substitution}
		}
	}
	weighted := func(names []string, weights ...uint32) func(*hand) {
		return func(h *hand) {
			w := &routev3.WeightedCluster{}
			for i, n := range names {
				w.Clusters = append(w.Clusters, &routev3.WeightedCluster_ClusterWeight{Name: n, Weight: wrapperspb.UInt32(weights[i])})
			}
			h.action.ClusterSpecifier = &routev3.RouteAction_WeightedClusters{WeightedClusters: w}
		}
	}
	return []writtenFault{
		{"route: bad regex", rule, `CH-ENVOY-013 virtual_hosts\[0\].routes\[0\].match.safe_regex.regex`, `missing \]`, path("[a-")},
		{"route: program too large", rule, `regular expression .* needs at least`, `program size of`, path("/(a|b|c|d){1000}")},
		{"route: pattern of a megabyte", rule, `needs at least`, `pattern too large`, path("/" + strings.Repeat("x", 1<<20))},
		{"route: program larger than can be told", asked, `program size of`, `program size of`, path(`/(\pL|\pN|\pS){1,14}b`)},
		{"route: look-ahead", rule, `CH-ENVOY-013`, `invalid perl operator`, path("/(?=a)")},
		{"route: bad regex of a header", rule, `CH-ENVOY-013`, `missing \)`, func(h *hand) {
			h.route.Match.Headers = []*routev3.HeaderMatcher{{Name: "x", HeaderMatchSpecifier: &routev3.HeaderMatcher_StringMatch{StringMatch: &matcherv3.StringMatcher{MatchPattern: &matcherv3.StringMatcher_SafeRegex{SafeRegex: regexOf("(")}}}}}
		}},
		{"route: unknown cluster", rule, `there is no cluster "nope"`, "", func(h *hand) { h.action.ClusterSpecifier = &routev3.RouteAction_Cluster{Cluster: "nope"} }},
		{"route: unknown cluster, which Envoy is to check", rule, `there is no cluster "nope"`, `unknown cluster 'nope'`, func(h *hand) {
			h.routes.ValidateClusters = wrapperspb.Bool(true)
			h.action.ClusterSpecifier = &routev3.RouteAction_Cluster{Cluster: "nope"}
		}},
		{"route: unknown mirror, which Envoy is to check", rule, `there is no cluster "nope"`, `unknown .*cluster`, func(h *hand) {
			h.routes.ValidateClusters = wrapperspb.Bool(true)
			h.action.RequestMirrorPolicies = []*routev3.RouteAction_RequestMirrorPolicy{{Cluster: "nope"}}
		}},
		{"route: unknown mirror", rule, `there is no cluster "nope"`, "", func(h *hand) {
			h.action.RequestMirrorPolicies = []*routev3.RouteAction_RequestMirrorPolicy{{Cluster: "nope"}}
		}},
		{"route: unknown weighted cluster", rule, `there is no cluster "nope"`, "", weighted([]string{"other", "nope"}, 1, 1)},
		{"route: unknown weighted cluster, which Envoy is to check", rule, `there is no cluster "nope"`, `unknown .*cluster`, func(h *hand) {
			h.routes.ValidateClusters = wrapperspb.Bool(true)
			weighted([]string{"other", "nope"}, 1, 1)(h)
		}},
		{"route: all weights zero", asked, `(?i)sum of weights|weights`, `(?i)sum of weights|weights`, weighted([]string{"other", "guilty"}, 0, 0)},
		{"route: weights above 32 bits", asked, `(?i)weights`, `(?i)weights`, weighted([]string{"other", "guilty"}, 1<<31, 1<<31)},
		{"route: no action", rule, `CH-ENVOY-001 .*action: value is required`, `is required`, func(h *hand) { h.route.Action = nil }},
		{"route: prefix and regex rewrite", asked, `(?i)prefix_rewrite|rewrite`, `(?i)rewrite`, func(h *hand) { h.action.PrefixRewrite = "/"; rewrite("a", "b")(h) }},
		{"route: back-off whose maximum is below its base", asked, `(?i)max_interval|interval`, `(?i)interval`, func(h *hand) {
			h.action.RetryPolicy = &routev3.RetryPolicy{RetryOn: "5xx", RetryBackOff: &routev3.RetryPolicy_RetryBackOff{BaseInterval: durationpb.New(time.Second), MaxInterval: durationpb.New(time.Millisecond)}}
		}},
		{"route: back-off without a base", rule, `CH-ENVOY-001 .*base_interval`, `BaseInterval`, func(h *hand) {
			h.action.RetryPolicy = &routev3.RetryPolicy{RetryOn: "5xx", RetryBackOff: &routev3.RetryPolicy_RetryBackOff{}}
		}},
		{"route: negative timeout", asked, `(?i)duration|timeout`, `(?i)duration|timeout`, func(h *hand) { h.action.Timeout = durationpb.New(-time.Second) }},
		{"route: body too long", asked, `(?i)4096|response body`, `(?i)4096|response body`, answerFrom(&corev3.DataSource{Specifier: &corev3.DataSource_InlineString{InlineString: strings.Repeat("x", 4097)}})},
		{"route: absent body file", asked, `/absent/body`, `/absent/body`, answerFrom(filename("/absent/body"))},
		{"route: body file that is a device", rule, `CH-ENVOY-021 .*body.filename: /dev/zero`, notAsked, answerFrom(filename("/dev/zero"))},
		{"route: body file of the kernel's", rule, `CH-ENVOY-021`, notAsked, answerFrom(filename("/tmp/../proc/self/environ"))},
		{"route: body file of the pod's credentials", rule, `CH-ENVOY-021`, `serviceaccount`, answerFrom(filename("/var/run/secrets/kubernetes.io/serviceaccount/token"))},
		{"route: body of no source", rule, `CH-ENVOY-001`, `is required`, answerFrom(&corev3.DataSource{})},
		{"route: status out of range", rule, `CH-ENVOY-001 .*status`, `Status`, func(h *hand) {
			h.route.Action = &routev3.Route_DirectResponse{DirectResponse: &routev3.DirectResponseAction{Status: 99}}
		}},
		{"route: bad URI template", asked, `(?i)path_match_template|pattern|template`, `(?i)path_match_template|pattern|template`, func(h *hand) {
			h.route.Match.PathSpecifier = &routev3.RouteMatch_PathMatchPolicy{PathMatchPolicy: &corev3.TypedExtensionConfig{Name: "envoy.path.match.uri_template.uri_template_matcher", TypedConfig: packed(&urimatchv3.UriTemplateMatchConfig{PathTemplate: "/{a"})}}
		}},
		{"route: upgrade twice", asked, `(?i)upgrade`, `(?i)upgrade`, func(h *hand) {
			h.action.UpgradeConfigs = []*routev3.RouteAction_UpgradeConfig{{UpgradeType: "websocket"}, {UpgradeType: "WebSocket"}}
		}},
		{"route: hash of a header name with a space", rule, `CH-ENVOY-009 .*hash_policy\[0\]`, "", func(h *hand) {
			h.action.HashPolicy = []*routev3.RouteAction_HashPolicy{{PolicySpecifier: &routev3.RouteAction_HashPolicy_Header_{Header: &routev3.RouteAction_HashPolicy_Header{HeaderName: "x a"}}}}
		}},
		{"route: share above the whole", rule, `CH-ENVOY-016 .*runtime_fraction`, "", func(h *hand) {
			h.route.Match.RuntimeFraction = &corev3.RuntimeFractionalPercent{DefaultValue: &typev3.FractionalPercent{Numerator: 101}}
		}},
		{"route: retry_on of an unknown word", rule, `CH-ENVOY-010 .*retry_policy.retry_on: "foo"`, "", func(h *hand) { h.action.RetryPolicy = &routev3.RetryPolicy{RetryOn: "foo"} }},
		{"host: retry_on of an unknown word", rule, `CH-ENVOY-010 virtual_hosts\[0\].retry_policy`, "", func(h *hand) { h.host.RetryPolicy = &routev3.RetryPolicy{RetryOn: "5xx,5XX"} }},
		{"route: substitution without its group", rule, `CH-ENVOY-012 .*substitution`, "", rewrite("(a)", `\7`)},
		{"route: substitution that ends in a backslash", rule, `CH-ENVOY-012`, "", rewrite("(a)", `x\`)},
		{"route: unclosed command", rule, `CH-ENVOY-017 .*request_headers_to_add\[0\].header.value`, `Couldn't find valid command`, func(h *hand) { h.route.RequestHeadersToAdd = headerOption("x", "%BAD(") }},
		{"route: unknown command", asked, `UNKNOWN`, `UNKNOWN`, func(h *hand) { h.route.RequestHeadersToAdd = headerOption("x", "%UNKNOWN%") }},
		{"route: header :path", rule, `CH-ENVOY-009`, `may not be modified`, func(h *hand) { h.route.RequestHeadersToAdd = headerOption(":path", "x") }},
		{"route: header host", rule, `CH-ENVOY-009`, `may not be modified`, func(h *hand) { h.route.RequestHeadersToAdd = headerOption("host", "x") }},
		{"route: header name with a space", rule, `CH-ENVOY-009`, "", func(h *hand) { h.route.RequestHeadersToAdd = headerOption("x a", "x") }},
		{"route: header value with a line break", rule, `CH-ENVOY-001`, `does not match regex|value does not`, func(h *hand) { h.route.RequestHeadersToAdd = headerOption("x", "a\r\nb") }},
		{"route: answer's header name with a space", rule, `CH-ENVOY-009 .*response_headers_to_add`, "", func(h *hand) { h.route.ResponseHeadersToAdd = headerOption("x a", "x") }},
		{"host: header name with a space", rule, `CH-ENVOY-009 virtual_hosts\[0\].request_headers_to_add`, "", func(h *hand) { h.host.RequestHeadersToAdd = headerOption("x a", "x") }},
		{"host: header :path", rule, `CH-ENVOY-009 virtual_hosts\[0\].request_headers_to_add`, `may not be modified`, func(h *hand) { h.host.RequestHeadersToAdd = headerOption(":path", "x") }},
		{"configuration: header host", rule, `CH-ENVOY-009 request_headers_to_add`, `may not be modified`, func(h *hand) { h.routes.RequestHeadersToAdd = headerOption("host", "x") }},
		{"route: removal of :path", rule, `CH-ENVOY-009 .*request_headers_to_remove`, `may not be removed`, func(h *hand) { h.route.RequestHeadersToRemove = []string{":path"} }},
		{"route: match of a header name with a space", rule, `CH-ENVOY-009 .*match.headers\[0\].name`, "", func(h *hand) {
			h.route.Match.Headers = []*routev3.HeaderMatcher{{Name: "x a", HeaderMatchSpecifier: &routev3.HeaderMatcher_PresentMatch{PresentMatch: true}}}
		}},
		{"route: settings of no known extension", rule, `(?i)resolve|no.such`, notAsked, func(h *hand) {
			h.text = func(s string) string {
				return strings.Replace(s, `"match":`, `"typedPerFilterConfig":{"foo":{"@type":"type.googleapis.com/no.such.Message"}},"match":`, 1)
			}
		}},
		{"route: an unknown field", rule, `unknown field`, notAsked, func(h *hand) {
			h.text = func(s string) string { return strings.Replace(s, `"match":`, `"frobnicate":1,"match":`, 1) }
		}},
		// New in 1.40: the message decides which filter reads it, not the name.
		{"route: settings of another filter's message", rule, `settings of type envoy.extensions.filters.http.buffer.v3.BufferPerRoute for the filter "envoy.filters.http.lua"`, "", func(h *hand) {
			h.filter("envoy.filters.http.lua", &luav3.Lua{})
			h.route.TypedPerFilterConfig = settings("envoy.filters.http.lua", &bufferv3.BufferPerRoute{Override: &bufferv3.BufferPerRoute_Disabled{Disabled: true}})
		}},
		{"route: settings of the filter's own message", asked, `(?i)unpack|type`, `(?i)unpack|type`, func(h *hand) {
			h.filter("envoy.filters.http.lua", &luav3.Lua{})
			h.route.TypedPerFilterConfig = settings("envoy.filters.http.lua", &luav3.Lua{DefaultSourceCode: inText("x = 1")})
		}},
		{"route: settings against a protobuf rule", rule, `CH-ENVOY-001 .*typed_per_filter_config\[envoy.filters.http.buffer\]`, `is required`, func(h *hand) {
			h.filter("envoy.filters.http.buffer", &bufferv3.Buffer{MaxRequestBytes: wrapperspb.UInt32(1)})
			h.route.TypedPerFilterConfig = settings("envoy.filters.http.buffer", &bufferv3.BufferPerRoute{})
		}},
		{"route: script that does not parse", asked, `script load error`, `script load error`, withLua(func(h *hand) { h.route.TypedPerFilterConfig = luaSettings("function (") })},
		{"route: script that fails at load", asked, `script load error`, `script load error`, withLua(func(h *hand) { h.route.TypedPerFilterConfig = luaSettings("error('no')") })},
		{"route: script that loops at load", rule, `CH-ENVOY-020 .*source_code`, hangs, withLua(func(h *hand) { h.route.TypedPerFilterConfig = luaSettings("while true do end") })},
		{"route: script that ends the process", rule, `CH-ENVOY-020 .*os.exit`, ends, withLua(func(h *hand) { h.route.TypedPerFilterConfig = luaSettings("os.exit(1)") })},
		{"route: script that loops in disguise", asked, `does not answer`, hangs, withLua(func(h *hand) { h.route.TypedPerFilterConfig = luaSettings("(function() while true do end end)()") })},
		{"route: script that ends the process in disguise", asked, `ends when`, ends, withLua(func(h *hand) { h.route.TypedPerFilterConfig = luaSettings("local o = os; o['exit'](1)") })},
		{"route: script that goes too deep", asked, `(?i)stack overflow|script load error`, `(?i)stack overflow|script load error`, withLua(func(h *hand) {
			h.route.TypedPerFilterConfig = luaSettings("local function f(n) return 1 + f(n) end f(1)")
		})},
		{"route: settings for a filter that is in no chain", rule, `settings for the filter "envoy.filters.http.buffer", which stands in no filter chain`, "", func(h *hand) {
			h.route.TypedPerFilterConfig = settings("envoy.filters.http.buffer", &bufferv3.BufferPerRoute{Override: &bufferv3.BufferPerRoute_Disabled{Disabled: true}})
		}},
		{"host: no domain", rule, `CH-ENVOY-001 virtual_hosts\[0\].domains`, `Domains`, func(h *hand) { h.host.Domains = nil }},
		{"host: domain a*b", rule, `CH-ENVOY-016 virtual_hosts\[0\].domains\[0\]`, "", func(h *hand) { h.host.Domains = []string{"a*b.example.com"} }},
		{"host: domain twice", rule, `CH-ENVOY-004`, `Only unique values for domains`, func(h *hand) { h.host.Domains = []string{"guilty.example.com", "innocent.example.com"} }},
		{"host: domain twice, in another case", rule, `CH-ENVOY-004`, `Only unique values for domains`, func(h *hand) { h.host.Domains = []string{"guilty.example.com", "INNOCENT.example.com"} }},
		{"host: domain twice in itself", rule, `CH-ENVOY-004`, `Only unique values for domains`, func(h *hand) { h.host.Domains = []string{"guilty.example.com", "GUILTY.example.com"} }},
		{"host: two of *", rule, `CH-ENVOY-004`, `(?i)domain`, func(h *hand) {
			h.host.Domains = []string{"*"}
			h.routes.VirtualHosts = append(h.routes.VirtualHosts, &routev3.VirtualHost{Name: "third", Domains: []string{"*"}})
		}},
		{"host: name twice", rule, `CH-ENVOY-015 virtual_hosts\[1\].name`, "", func(h *hand) { h.host.Name = "innocent" }},
		{"configuration: unknown command", asked, `UNKNOWN`, `UNKNOWN`, func(h *hand) { h.routes.RequestHeadersToAdd = headerOption("x", "%UNKNOWN%") }},
		{"configuration: script that does not parse", asked, `script load error`, `script load error`, withLua(func(h *hand) { h.routes.TypedPerFilterConfig = luaSettings("function (") })},
		{"configuration: script that ends the process in disguise", asked, `ends when`, ends, withLua(func(h *hand) { h.routes.TypedPerFilterConfig = luaSettings("local o = os; o['exit'](1)") })},
		{"host: script that does not parse", asked, `script load error`, `script load error`, withLua(func(h *hand) { h.host.TypedPerFilterConfig = luaSettings("function (") })},
		{"host: unknown command", asked, `UNKNOWN`, `UNKNOWN`, func(h *hand) { h.host.ResponseHeadersToAdd = headerOption("x", "%UNKNOWN%") }},
		{"configuration: text that is no UTF-8", rule, `(?i)utf-?8`, notAsked, func(h *hand) {
			h.text = func(s string) string { return strings.Replace(s, "/guilty/", "/\xff/", 1) }
		}},
		{"configuration: a deprecated field", harmless, "", "", func(h *hand) {
			h.action.RetryPolicy = &routev3.RetryPolicy{RetryOn: "5xx", RetryHostPredicate: nil}
			//lint:ignore SA1019 that is the point
			h.action.MaxGrpcTimeout = durationpb.New(time.Second)
		}},
	}
}
