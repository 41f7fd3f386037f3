package emissary

import (
	"errors"
	"fmt"
	"strings"
)

// checkHeaderName refuses what is no RFC 9110 token, and what Envoy does not let routes change ("host" and names with ':').
func checkHeaderName(name string) error {
	if name == "" {
		return errors.New("a header name is missing")
	}
	if name[0] == ':' || strings.EqualFold(name, "host") {
		return fmt.Errorf("header %q cannot be changed here", name)
	}
	return checkToken(name)
}

// checkMatchName is checkHeaderName for conditions, where pseudo headers are fine.
func checkMatchName(name string) error {
	return checkToken(strings.TrimPrefix(name, ":"))
}

func checkToken(name string) error {
	if name == "" {
		return errors.New("a header name is missing")
	}
	for i := 0; i < len(name); i++ {
		if !tokenChar(name[i]) {
			return fmt.Errorf("%q is no header name: character %q", name, rune(name[i]))
		}
	}
	return nil
}

func tokenChar(c byte) bool {
	return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || strings.IndexByte("!#$%&'*+-.^_`|~", c) >= 0
}

// checkHeaderText refuses the characters that no header value may have.
func checkHeaderText(value string) error {
	for i := 0; i < len(value); i++ {
		if c := value[i]; c < ' ' && c != '\t' || c == 0x7f {
			return fmt.Errorf("control character %q in a header value", rune(c))
		}
	}
	return nil
}

// checkFormat checks the %COMMANDS% of a header value or log format (Envoy docs: configuration/advanced/substitution_formatter).
func checkFormat(text string) error {
	for i := 0; i < len(text); i++ {
		if text[i] != '%' {
			continue
		}
		if i+1 < len(text) && text[i+1] == '%' {
			i++
			continue
		}
		end, err := checkCommand(text[i:])
		if err != nil {
			return err
		}
		i += end
	}
	return nil
}

// checkCommand checks one command that starts at text[0] == '%' and returns the index of its closing '%'.
func checkCommand(text string) (int, error) {
	i := 1
	for i < len(text) && (text[i] >= 'A' && text[i] <= 'Z' || text[i] >= '0' && text[i] <= '9' && i > 1 || text[i] == '_') {
		i++
	}
	name := text[1:i]
	if name == "" {
		return 0, fmt.Errorf("%q starts no command: a plain percent sign is written %%%%", clip(text))
	}
	arguments := false
	if i < len(text) && text[i] == '(' {
		end := strings.IndexByte(text[i:], ')')
		if end < 0 {
			return 0, fmt.Errorf("command %q lacks its ')'", clip(text))
		}
		arguments = end > 1
		i += end + 1
	}
	if i < len(text) && text[i] == ':' {
		from := i + 1
		for i = from; i < len(text) && text[i] >= '0' && text[i] <= '9'; i++ {
		}
		if i == from {
			return 0, fmt.Errorf("command %q: after ':' comes the maximum length", clip(text))
		}
	}
	if i >= len(text) || text[i] != '%' {
		return 0, fmt.Errorf("command %q lacks its closing %%", clip(text))
	}
	needs, known := commands[name]
	if !known {
		return 0, fmt.Errorf("no such command of Envoy: %%%s%%", name)
	}
	if needs && !arguments {
		return 0, fmt.Errorf("command %%%s%% needs an argument in parentheses", name)
	}
	return i, nil
}

func clip(text string) string {
	if len(text) > 30 {
		return text[:30] + "..."
	}
	return text
}

// commands are Envoy's substitution commands; true for those that need an argument.
var commands = map[string]bool{
	"REQ": true, "RESP": true, "TRAILER": true, "REQUEST_HEADER": true, "DYNAMIC_METADATA": true, "CLUSTER_METADATA": true,
	"UPSTREAM_METADATA": true, "METADATA": true, "FILTER_STATE": true, "UPSTREAM_FILTER_STATE": true, "ENVIRONMENT": true,
	"START_TIME": false, "START_TIME_LOCAL": false, "EMIT_TIME": false, "EMIT_TIME_LOCAL": false, "DURATION": false, "COMMON_DURATION": true,
	"REQUEST_DURATION": false, "REQUEST_TX_DURATION": false, "RESPONSE_DURATION": false, "RESPONSE_TX_DURATION": false,
	"ROUNDTRIP_DURATION": false, "DOWNSTREAM_HANDSHAKE_DURATION": false, "UPSTREAM_CONNECTION_POOL_READY_DURATION": false,
	"BYTES_RECEIVED": false, "BYTES_RETRANSMITTED": false, "PACKETS_RETRANSMITTED": false, "BYTES_SENT": false,
	"PROTOCOL": false, "UPSTREAM_PROTOCOL": false, "RESPONSE_CODE": false, "RESPONSE_CODE_DETAILS": false, "RESPONSE_FLAGS": false,
	"RESPONSE_FLAGS_LONG": false, "CONNECTION_TERMINATION_DETAILS": false, "GRPC_STATUS": false, "GRPC_STATUS_NUMBER": false,
	"REQUEST_HEADERS_BYTES": false, "RESPONSE_HEADERS_BYTES": false, "RESPONSE_TRAILERS_BYTES": false,
	"UPSTREAM_WIRE_BYTES_SENT": false, "UPSTREAM_WIRE_BYTES_RECEIVED": false, "UPSTREAM_HEADER_BYTES_SENT": false,
	"UPSTREAM_HEADER_BYTES_RECEIVED": false, "UPSTREAM_DECOMPRESSED_HEADER_BYTES_SENT": false, "UPSTREAM_DECOMPRESSED_HEADER_BYTES_RECEIVED": false,
	"DOWNSTREAM_WIRE_BYTES_SENT": false, "DOWNSTREAM_WIRE_BYTES_RECEIVED": false, "DOWNSTREAM_HEADER_BYTES_SENT": false,
	"DOWNSTREAM_HEADER_BYTES_RECEIVED": false, "DOWNSTREAM_DECOMPRESSED_HEADER_BYTES_SENT": false, "DOWNSTREAM_DECOMPRESSED_HEADER_BYTES_RECEIVED": false,
	"UPSTREAM_REQUEST_ATTEMPT_COUNT": false, "UPSTREAM_TLS_CIPHER": false, "UPSTREAM_TLS_VERSION": false, "UPSTREAM_TLS_SESSION_ID": false,
	"UPSTREAM_PEER_ISSUER": false, "UPSTREAM_PEER_SUBJECT": false, "UPSTREAM_PEER_CERT": false, "UPSTREAM_PEER_CERT_V_START": false,
	"UPSTREAM_PEER_CERT_V_END": false, "UPSTREAM_PEER_URI_SAN": false, "UPSTREAM_PEER_DNS_SAN": false, "UPSTREAM_PEER_IP_SAN": false,
	"UPSTREAM_LOCAL_URI_SAN": false, "UPSTREAM_LOCAL_DNS_SAN": false, "UPSTREAM_LOCAL_IP_SAN": false, "UPSTREAM_LOCAL_SUBJECT": false,
	"UPSTREAM_HOST": false, "UPSTREAM_HOST_NAME": false, "UPSTREAM_HOST_NAME_WITHOUT_PORT": false, "UPSTREAM_CLUSTER": false,
	"UPSTREAM_CLUSTER_RAW": false, "UPSTREAM_LOCAL_ADDRESS": false, "UPSTREAM_LOCAL_ADDRESS_WITHOUT_PORT": false, "UPSTREAM_LOCAL_PORT": false,
	"UPSTREAM_REMOTE_ADDRESS": false, "UPSTREAM_REMOTE_ADDRESS_WITHOUT_PORT": false, "UPSTREAM_REMOTE_PORT": false,
	"UPSTREAM_TRANSPORT_FAILURE_REASON": false, "UPSTREAM_CONNECTION_ID": false, "UPSTREAM_HOSTS_ATTEMPTED": false,
	"UPSTREAM_HOSTS_ATTEMPTED_WITHOUT_PORT": false, "UPSTREAM_HOST_NAMES_ATTEMPTED": false, "UPSTREAM_HOST_NAMES_ATTEMPTED_WITHOUT_PORT": false,
	"UPSTREAM_CONNECTION_IDS_ATTEMPTED": false, "UPSTREAM_DETECTED_CLOSE_TYPE": false, "DOWNSTREAM_DETECTED_CLOSE_TYPE": false,
	"DOWNSTREAM_LOCAL_CLOSE_REASON": false, "UPSTREAM_LOCAL_CLOSE_REASON": false,
	"DOWNSTREAM_REMOTE_ADDRESS": false, "DOWNSTREAM_REMOTE_ADDRESS_WITHOUT_PORT": false, "DOWNSTREAM_REMOTE_ADDRESS_ENDPOINT_ID": false, "DOWNSTREAM_REMOTE_PORT": false,
	"DOWNSTREAM_DIRECT_REMOTE_ADDRESS": false, "DOWNSTREAM_DIRECT_REMOTE_ADDRESS_WITHOUT_PORT": false, "DOWNSTREAM_DIRECT_REMOTE_PORT": false,
	"DOWNSTREAM_LOCAL_ADDRESS": false, "DOWNSTREAM_LOCAL_ADDRESS_WITHOUT_PORT": false, "DOWNSTREAM_LOCAL_ADDRESS_ENDPOINT_ID": false, "DOWNSTREAM_LOCAL_PORT": false,
	"DOWNSTREAM_DIRECT_LOCAL_ADDRESS": false, "DOWNSTREAM_DIRECT_LOCAL_ADDRESS_WITHOUT_PORT": false, "DOWNSTREAM_DIRECT_LOCAL_PORT": false,
	"DOWNSTREAM_TLS_CIPHER": false, "DOWNSTREAM_TLS_VERSION": false, "DOWNSTREAM_TLS_SESSION_ID": false, "DOWNSTREAM_TRANSPORT_FAILURE_REASON": false,
	"DOWNSTREAM_PEER_URI_SAN": false, "DOWNSTREAM_PEER_DNS_SAN": false, "DOWNSTREAM_PEER_IP_SAN": false, "DOWNSTREAM_PEER_EMAIL_SAN": false, "DOWNSTREAM_PEER_OTHERNAME_SAN": false,
	"DOWNSTREAM_LOCAL_URI_SAN": false, "DOWNSTREAM_LOCAL_DNS_SAN": false, "DOWNSTREAM_LOCAL_IP_SAN": false, "DOWNSTREAM_LOCAL_EMAIL_SAN": false, "DOWNSTREAM_LOCAL_OTHERNAME_SAN": false,
	"DOWNSTREAM_PEER_SUBJECT": false, "DOWNSTREAM_PEER_ISSUER": false, "DOWNSTREAM_PEER_SERIAL": false, "DOWNSTREAM_LOCAL_SUBJECT": false,
	"DOWNSTREAM_PEER_FINGERPRINT_256": false, "DOWNSTREAM_PEER_FINGERPRINT_1": false, "DOWNSTREAM_PEER_CHAIN_FINGERPRINTS_256": false,
	"DOWNSTREAM_PEER_CHAIN_FINGERPRINTS_1": false, "DOWNSTREAM_PEER_CHAIN_SERIALS": false, "DOWNSTREAM_PEER_CERT": false,
	"DOWNSTREAM_PEER_CERT_V_START": false, "DOWNSTREAM_PEER_CERT_V_END": false, "TLS_JA3_FINGERPRINT": false, "TLS_JA4_FINGERPRINT": false,
	"CONNECTION_ID": false, "REQUESTED_SERVER_NAME": false, "ROUTE_NAME": false, "VIRTUAL_CLUSTER_NAME": false, "VIRTUAL_HOST_NAME": false, "HOSTNAME": false,
	"FILTER_CHAIN_NAME": false, "LISTENER_NAME": false, "ACCESS_LOG_TYPE": false, "UNIQUE_ID": false, "STREAM_ID": false, "TRACE_ID": false, "SPAN_ID": false, "QUERY_PARAM": true, "QUERY_PARAMS": false,
	"PATH": false, "LOCAL_REPLY_BODY": false, "CUSTOM_FLAGS": false, "REQUEST_ID": false, "PER_REQUEST_STATE": true, "COALESCE": true, "SUBSTITUTE": true, "CEL": true, "TYPED_CEL": true,
}
