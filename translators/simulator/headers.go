package simulator

import (
	"strings"

	"github.com/chancery-gateway/chancery/translators/ir"
)

// joined are the headers that Envoy keeps in one place each: several of the same name become one, the non-empty
// ones with commas between.
// Of all other headers each value is matched by itself (both measured on Envoy 1.40, whose inline headers these are).
var joined = set(`accept accept-encoding access-control-request-headers access-control-request-method authorization
	cache-control content-encoding content-type expect grpc-accept-encoding grpc-timeout if-match if-modified-since
	if-none-match if-range if-unmodified-since origin pragma referer user-agent via x-client-trace-id
	x-envoy-attempt-count x-envoy-decorator-operation x-envoy-downstream-service-cluster x-envoy-downstream-service-node
	x-envoy-external-address x-envoy-is-timeout-retry x-envoy-original-host x-envoy-original-path x-forwarded-client-cert
	x-forwarded-for x-forwarded-host x-forwarded-port x-forwarded-proto x-request-id`)

// hopByHop do not outlive the connection; "connection" and "upgrade" stay where a request asks for an upgrade.
var hopByHop = set("connection keep-alive proxy-connection te transfer-encoding upgrade")

// internalOnly are taken from a client that is not known as internal, as no client is by default.
var internalOnly = set(`x-envoy-expected-rq-timeout-ms x-envoy-force-trace x-envoy-hedge-on-per-try-timeout x-envoy-internal
	x-envoy-ip-tags x-envoy-max-retries x-envoy-original-url x-envoy-retriable-header-names x-envoy-retriable-status-codes
	x-envoy-retry-grpc-on x-envoy-retry-on x-envoy-upstream-alt-stat-name x-envoy-upstream-rq-per-try-timeout-ms
	x-envoy-upstream-rq-timeout-alt-response x-envoy-upstream-rq-timeout-ms x-envoy-upstream-stream-duration-ms`)

// edgeOnly are taken from the client where Envoy believes the connection alone (use_remote_address).
var edgeOnly = set("x-envoy-decorator-operation x-envoy-downstream-service-cluster x-envoy-downstream-service-node")

func set(words string) map[string]bool {
	out := map[string]bool{}
	for _, w := range strings.Fields(words) {
		out[w] = true
	}
	return out
}

// sanitize takes off the headers that Envoy does not take from clients.
func sanitize(x *exchange, settings *ir.HTTPSettings) {
	x.upgrade = wantedUpgrade(x)
	for name := range x.headers {
		switch {
		case x.upgrade != "" && (name == "connection" || name == "upgrade"):
		case hopByHop[name], internalOnly[name], settings.UseRemoteAddress && edgeOnly[name],
			name == "x-forwarded-client-cert" && settings.ForwardClientCertDetails != "ALWAYS_FORWARD_ONLY":
			delete(x.headers, name)
		}
	}
}

// wantedUpgrade returns the protocol that an HTTP/1 request asks to upgrade to, or "".
func wantedUpgrade(x *exchange) string {
	for _, connection := range x.header("connection") {
		for token := range strings.SplitSeq(connection, ",") {
			if strings.EqualFold(strings.TrimSpace(token), "upgrade") {
				return strings.ToLower(x.first("upgrade"))
			}
		}
	}
	return ""
}

// forwarded sets x-forwarded-for, x-forwarded-proto, x-request-id and the scheme (Envoy docs: use_remote_address,
// xff_num_trusted_hops).
func forwarded(x *exchange, chain *ir.HTTPChain, settings *ir.HTTPSettings, r Request) {
	proto := "http"
	if r.TLS {
		proto = "https"
	}
	if settings.UseRemoteAddress {
		client := r.Client
		if client == "" {
			client = "127.0.0.1"
		}
		x.headers["x-forwarded-for"] = []string{strings.Join(append(x.header("x-forwarded-for"), client), ",")}
	}
	sent := x.first("x-forwarded-proto")
	if _, there := x.headers["x-forwarded-proto"]; !there || settings.UseRemoteAddress && chain.TrustedHops == 0 {
		sent = proto
		x.headers["x-forwarded-proto"] = []string{proto}
	}
	if _, there := x.headers["x-request-id"]; !there {
		x.headers["x-request-id"] = []string{"00000000-0000-4000-8000-000000000000"}
	}
	x.scheme = proto
	if s := strings.ToLower(sent); s == "http" || s == "https" {
		x.scheme = s
	}
}
