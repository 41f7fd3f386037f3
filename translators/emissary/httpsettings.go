package emissary

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/chancery-gateway/chancery/translators/ir"
)

// connections reads the settings of the HTTP connection manager.
func (r *reader) connections() {
	h := r.s.http
	r.flag("use_remote_address", &h.UseRemoteAddress)
	r.text("server_name", &h.ServerName)
	r.flag("strip_matching_host_port", &h.StripMatchingHostPort)
	r.flag("merge_slashes", &h.MergeSlashes)
	r.flag("reject_requests_with_escaped_slashes", &h.RejectEscapedSlashes)
	r.flag("enable_http10", &h.AcceptHTTP10)
	r.flag("allow_chunked_length", &h.AllowChunkedLength)
	r.flag("preserve_external_request_id", &h.PreserveExternalRequestID)
	r.flag("suppress_envoy_headers", &h.SuppressEnvoyHeaders)
	r.flag("proper_case", &h.ProperCase)
	h.IdleTimeoutMillis = r.millis("listener_idle_timeout_ms")
	if n, ok := r.number("max_request_headers_kb", 1, 8192); ok { // Envoy docs: max_request_headers_kb is at most 8192
		h.MaxRequestHeadersKB = uint32(n)
	}
	if n, ok := r.number("buffer_limit_bytes", 1, math.MaxUint32); ok {
		r.s.bufferLimit = uint32(n)
	}
	if names, ok := r.texts("header_case_overrides"); ok {
		r.headerCase(names)
	}
	h.HeadersWithUnderscoresAction = r.oneOf("headers_with_underscores_action", "ALLOW", "REJECT_REQUEST", "DROP_HEADER")
	h.ForwardClientCertDetails = r.oneOf("forward_client_cert_details", "SANITIZE", "FORWARD_ONLY", "APPEND_FORWARD", "SANITIZE_SET", "ALWAYS_FORWARD_ONLY")
	r.certDetails()
}

func (r *reader) headerCase(names []string) {
	for _, name := range names {
		if err := checkToken(name); err != nil {
			r.invalid("header_case_overrides", err.Error(), "")
			return
		}
	}
	if r.s.http.ProperCase {
		r.invalid("header_case_overrides", "cannot stand beside proper_case, which wins", "keep one of both")
		return
	}
	r.s.http.HeaderCaseOverrides, r.s.headerCase = names, names
}

// oneOf reads a text that is one of the allowed.
func (r *reader) oneOf(key string, allowed ...string) string {
	var value string
	r.text(key, &value)
	if value != "" && !slices.Contains(allowed, value) {
		r.invalid(key, fmt.Sprintf("%q is not allowed", value), strings.Join(allowed, ", "))
		return ""
	}
	return value
}

func (r *reader) certDetails() {
	details := r.object("set_current_client_cert_details")
	if details == nil {
		return
	}
	for _, key := range []string{"subject", "cert", "chain", "dns", "uri"} {
		var on bool
		if details.flag(key, &on); on {
			r.s.http.SetCurrentClientCertDetails = append(r.s.http.SetCurrentClientCertDetails, key)
		}
	}
	details.unknown()
}

// accessLogText is Emissary's default access log line.
const accessLogText = `ACCESS [%START_TIME%] "%REQ(:METHOD)% %REQ(X-ENVOY-ORIGINAL-PATH?:PATH)% %PROTOCOL%" %RESPONSE_CODE% %RESPONSE_FLAGS% ` +
	`%BYTES_RECEIVED% %BYTES_SENT% %DURATION% %RESP(X-ENVOY-UPSTREAM-SERVICE-TIME)% "%REQ(X-FORWARDED-FOR)%" "%REQ(USER-AGENT)%" ` +
	`"%REQ(X-REQUEST-ID)%" "%REQ(:AUTHORITY)%" "%UPSTREAM_HOST%"`

// accessLogFields is Emissary's default set of JSON fields.
var accessLogFields = map[string]string{
	"start_time": "%START_TIME%", "method": "%REQ(:METHOD)%", "path": "%REQ(X-ENVOY-ORIGINAL-PATH?:PATH)%", "protocol": "%PROTOCOL%",
	"response_code": "%RESPONSE_CODE%", "response_flags": "%RESPONSE_FLAGS%", "bytes_received": "%BYTES_RECEIVED%",
	"bytes_sent": "%BYTES_SENT%", "duration": "%DURATION%", "upstream_service_time": "%RESP(X-ENVOY-UPSTREAM-SERVICE-TIME)%",
	"x_forwarded_for": "%REQ(X-FORWARDED-FOR)%", "user_agent": "%REQ(USER-AGENT)%", "request_id": "%REQ(X-REQUEST-ID)%",
	"authority": "%REQ(:AUTHORITY)%", "upstream_host": "%UPSTREAM_HOST%", "upstream_cluster": "%UPSTREAM_CLUSTER%",
	"upstream_local_address": "%UPSTREAM_LOCAL_ADDRESS%", "downstream_local_address": "%DOWNSTREAM_LOCAL_ADDRESS%",
	"downstream_remote_address": "%DOWNSTREAM_REMOTE_ADDRESS%", "requested_server_name": "%REQUESTED_SERVER_NAME%",
	"istio_policy_status": "%DYNAMIC_METADATA(istio.mixer:status)%", "upstream_transport_failure_reason": "%UPSTREAM_TRANSPORT_FAILURE_REASON%",
}

// accessLog reads envoy_log_type, envoy_log_path and envoy_log_format.
func (r *reader) accessLog() {
	log := ir.AccessLog{Type: "file", Path: "/dev/fd/1"}
	r.text("envoy_log_path", &log.Path)
	kind := strings.ToLower(r.oneOf("envoy_log_type", "text", "json", "typed_json", "TEXT", "JSON", "TYPED_JSON"))
	if kind == "json" || kind == "typed_json" {
		log.TypedJSON = kind == "typed_json"
		log.JSON = r.logFields()
	} else {
		log.Format = r.logText() + "\n"
	}
	r.s.http.AccessLogs = []ir.AccessLog{log}
}

func (r *reader) logText() string {
	format := ""
	r.text("envoy_log_format", &format)
	if format == "" {
		return accessLogText
	}
	if err := checkFormat(format); err != nil {
		r.invalid("envoy_log_format", err.Error(), "")
		return accessLogText
	}
	return format
}

func (r *reader) logFields() map[string]string {
	object := r.object("envoy_log_format")
	if object == nil || len(object.values) == 0 {
		return accessLogFields
	}
	fields := map[string]string{}
	for _, key := range sortedKeys(object.values) {
		var text string
		object.text(key, &text)
		if err := checkFormat(text); err != nil {
			object.invalid(key, err.Error(), "")
			return accessLogFields
		}
		fields[key] = text
	}
	return fields
}
