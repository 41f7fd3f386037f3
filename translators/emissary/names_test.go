package emissary

import (
	"fmt"
	"os/exec"
	"strconv"
	"testing"
)

func TestCheckFormat(t *testing.T) {
	good := []string{"", "plain", "100%%", "%REQ(X-Foo)%", "%REQ(X-ENVOY-ORIGINAL-PATH?:PATH)%", "%REQ(A):10%", "%START_TIME%", "%START_TIME(%s.%3f)%",
		"%PROTOCOL% and %RESPONSE_CODE%", "%DYNAMIC_METADATA(istio.mixer:status)%", "%DOWNSTREAM_REMOTE_ADDRESS_WITHOUT_PORT%"}
	bad := []string{"50%", "% ", "%foo%", "%REQ%", "%REQ(", "%REQ(A)", "%REQ(A):x%", "%BAD(", "%UNKNOWN%", "a%20b"}
	for _, text := range good {
		if err := checkFormat(text); err != nil {
			t.Errorf("%q: %v", text, err)
		}
	}
	for _, text := range bad {
		if checkFormat(text) == nil {
			t.Errorf("%q is let through", text)
		}
	}
}

// Envoy and our check say the same about formats.
func TestCheckFormatIsEnvoys(t *testing.T) {
	envoy := findEnvoy(t)
	const config = `{"static_resources":{"listeners":[{"name":"l","address":{"socket_address":{"address":"127.0.0.1","port_value":1}},"filter_chains":[{"filters":[{"name":"h",
"typed_config":{"@type":"type.googleapis.com/envoy.extensions.filters.network.http_connection_manager.v3.HttpConnectionManager","stat_prefix":"s",
"http_filters":[{"name":"r","typed_config":{"@type":"type.googleapis.com/envoy.extensions.filters.http.router.v3.Router"}}],
"route_config":{"virtual_hosts":[{"name":"v","domains":["*"],"routes":[{"match":{"prefix":"/"},"direct_response":{"status":200},
"request_headers_to_add":[{"header":{"key":"x","value":%s}}]}]}]}}}]}]}]}}`
	for _, text := range []string{"100%%", "50%", "%REQ(X-Foo)%", "%REQ%", "%UNKNOWN%", "%foo%", "a%20b", "%START_TIME(%s.%3f)%", "%REQ(A):10%", "%REQ(A):x%", "%UPSTREAM_HOST%"} {
		t.Run(text, func(t *testing.T) {
			out, err := exec.Command(envoy, "--mode", "validate", "-l", "error", "--config-yaml", fmt.Sprintf(config, strconv.Quote(text))).CombinedOutput()
			if ours := checkFormat(text); (err == nil) != (ours == nil) {
				t.Errorf("we say %v, Envoy says %v: %s", ours, err, out)
			}
		})
	}
}

func TestCheckHeaderName(t *testing.T) {
	for name, good := range map[string]bool{
		"x-foo": true, "X_Foo.1": true, "host": false, "Host": false, ":path": false, ":authority": false, "": false, "x foo": false, "x:y": false, "é": false,
	} {
		if (checkHeaderName(name) == nil) != good {
			t.Errorf("%q: %v", name, checkHeaderName(name))
		}
	}
}

func TestCheckSubstitution(t *testing.T) {
	for text, good := range map[string]bool{`/a/\1`: true, `\0\2`: true, `\3`: false, `a\\b`: true, `a\`: false, `\x`: false, "$1": true} {
		if (checkSubstitution(text, 2) == nil) != good {
			t.Errorf("%q: %v", text, checkSubstitution(text, 2))
		}
	}
}
