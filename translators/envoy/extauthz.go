package envoy

import (
	"net/http"
	"strings"

	accesslogv3 "github.com/envoyproxy/go-control-plane/envoy/config/accesslog/v3"
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	authzv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/ext_authz/v3"
	hcmv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/http_connection_manager/v3"
	matcherv3 "github.com/envoyproxy/go-control-plane/envoy/type/matcher/v3"
	typev3 "github.com/envoyproxy/go-control-plane/envoy/type/v3"
	"google.golang.org/protobuf/types/known/structpb"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/chancery-gateway/chancery/translators/ir"
)

// extAuthz builds the filter that asks a service about every request. Where there is nobody to ask, it refuses all
// requests, but those of routes that it is disabled for.
func extAuthz(c *ir.ExtAuthz, present func(string) bool, f *faults) *authzv3.ExtAuthz {
	if shut(c, present) {
		return &authzv3.ExtAuthz{
			TransportApiVersion: corev3.ApiVersion_V3,
			Services:            &authzv3.ExtAuthz_GrpcService{GrpcService: grpcService(unavailable, 1)},
			StatusOnError:       &typev3.HttpStatus{Code: typev3.StatusCode_InternalServerError},
			FilterEnabled:       &corev3.RuntimeFractionalPercent{DefaultValue: &typev3.FractionalPercent{}},
			DenyAtDisable:       &corev3.RuntimeFeatureFlag{DefaultValue: wrapperspb.Bool(true), RuntimeKey: "chancery.ext_authz.closed"},
		}
	}
	if c.TimeoutMillis <= 0 {
		f.add(codeValue, "timeout", "%d ms leave no time to answer", c.TimeoutMillis)
	}
	out := &authzv3.ExtAuthz{
		TransportApiVersion: corev3.ApiVersion_V3,
		ClearRouteCache:     true,
		FailureModeAllow:    c.FailureModeAllow,
	}
	if c.StatusOnError != 0 {
		out.StatusOnError = &typev3.HttpStatus{Code: typev3.StatusCode(c.StatusOnError)}
	}
	if b := c.Body; b != nil {
		out.WithRequestBody = &authzv3.BufferSettings{MaxRequestBytes: b.MaxBytes, AllowPartialMessage: b.Partial}
	}
	if c.GRPC {
		out.Services = &authzv3.ExtAuthz_GrpcService{GrpcService: grpcService(c.Cluster, c.TimeoutMillis)}
		return out
	}
	out.AllowedHeaders = names(c.RequestHeaders)
	answer := names(c.AnswerHeaders)
	service := &authzv3.HttpService{
		ServerUri: &corev3.HttpUri{
			Uri: c.URI, HttpUpstreamType: &corev3.HttpUri_Cluster{Cluster: c.Cluster}, Timeout: millis(c.TimeoutMillis),
		},
		PathPrefix:            c.PathPrefix,
		AuthorizationResponse: &authzv3.AuthorizationResponse{AllowedUpstreamHeaders: answer, AllowedClientHeaders: answer},
	}
	if len(c.AddHeaders) > 0 {
		add := &authzv3.AuthorizationRequest{}
		for i := range c.AddHeaders {
			h := &c.AddHeaders[i]
			changeable("authorization_request.headers_to_add", h.Name, f)
			printable("authorization_request.headers_to_add", h, f)
			add.HeadersToAdd = append(add.HeadersToAdd, &corev3.HeaderValue{Key: h.Name, Value: h.Value})
		}
		service.AuthorizationRequest = add
	}
	out.Services = &authzv3.ExtAuthz_HttpService{HttpService: service}
	return out
}

// shut reports whether there is nobody to ask.
func shut(c *ir.ExtAuthz, present func(string) bool) bool {
	return c.Closed != "" || c.Cluster == "" || !present(c.Cluster)
}

func extAuthzRoute(c *ir.ExtAuthzRoute) *authzv3.ExtAuthzPerRoute {
	if c.Disabled {
		return &authzv3.ExtAuthzPerRoute{Override: &authzv3.ExtAuthzPerRoute_Disabled{Disabled: true}}
	}
	return &authzv3.ExtAuthzPerRoute{Override: &authzv3.ExtAuthzPerRoute_CheckSettings{
		CheckSettings: &authzv3.CheckSettings{ContextExtensions: c.Context}}}
}

// names matches names of headers or media types as they are, without regard to case.
func names(list []string) *matcherv3.ListStringMatcher {
	if len(list) == 0 {
		return nil
	}
	out := &matcherv3.ListStringMatcher{}
	for _, n := range list {
		out.Patterns = append(out.Patterns, &matcherv3.StringMatcher{MatchPattern: &matcherv3.StringMatcher_Exact{Exact: n}, IgnoreCase: true})
	}
	return out
}

// grpcService names a service of the program that speaks gRPC.
func grpcService(cluster string, timeoutMillis int64) *corev3.GrpcService {
	return &corev3.GrpcService{
		TargetSpecifier: &corev3.GrpcService_EnvoyGrpc_{EnvoyGrpc: &corev3.GrpcService_EnvoyGrpc{ClusterName: cluster}},
		Timeout:         millis(timeoutMillis),
	}
}

// closedReply gives the refusals of a filter with nobody to ask the body that Emissary gives them.
func closedReply(list []*ir.Filter, present func(string) bool) *hcmv3.LocalReplyConfig {
	for _, x := range list {
		c, is := x.Config.(*ir.ExtAuthz)
		if !is || !shut(c, present) {
			continue
		}
		who := ""
		for _, o := range x.Origins {
			who += " " + o.Namespace + "/" + o.Name
		}
		return &hcmv3.LocalReplyConfig{Mappers: []*hcmv3.ResponseMapper{{
			Filter: &accesslogv3.AccessLogFilter{FilterSpecifier: &accesslogv3.AccessLogFilter_ResponseFlagFilter{
				ResponseFlagFilter: &accesslogv3.ResponseFlagFilter{Flags: []string{"UAEX"}}}},
			BodyFormatOverride: &corev3.SubstitutionFormatString{
				Format: &corev3.SubstitutionFormatString_JsonFormat{JsonFormat: &structpb.Struct{Fields: map[string]*structpb.Value{
					"message":     structpb.NewStringValue(strings.ReplaceAll("the AuthService"+who+" is misconfigured; see its diagnostics", "%", "%%")),
					"request_id":  structpb.NewStringValue("%REQ(X-REQUEST-ID)%"),
					"status_code": structpb.NewNumberValue(http.StatusInternalServerError),
				}}}},
		}}}
	}
	return nil
}
