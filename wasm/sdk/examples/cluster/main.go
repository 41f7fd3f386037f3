// A translator of phase xds: it closes upstream connections after so many requests, which is an option of Envoy's cluster
// (HttpProtocolOptions.common_http_protocol_options.max_requests_per_connection) that Chancery's own resources do not have.
package main

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/chancery-gateway/chancery/wasm/sdk"
)

const kindCluster = "xds/envoy.config.cluster.v3.Cluster"

var settings = struct {
	Limit  int    `json:"limit"`
	Prefix string `json:"prefix"`
}{Limit: 10_000}

func main() {}

func init() {
	sdk.Register(sdk.Translator{Configure: configure, Translate: translate})
}

func configure(text json.RawMessage) error {
	if len(text) == 0 {
		return nil
	}
	return json.Unmarshal(text, &settings)
}

func translate(in *sdk.Input, out *sdk.Output) error {
	for _, item := range in.Of(kindCluster) {
		if !strings.HasPrefix(item.Name, settings.Prefix) {
			continue
		}
		var cluster struct {
			Options map[string]map[string]json.RawMessage `json:"typedExtensionProtocolOptions"`
		}
		if err := item.Decode(&cluster); err != nil {
			return err
		}
		names := make([]string, 0, len(cluster.Options))
		for name := range cluster.Options {
			names = append(names, name)
		}
		slices.Sort(names) // the order of a map must not reach the output
		var steps []sdk.Step
		for _, name := range names {
			if _, ok := cluster.Options[name]["commonHttpProtocolOptions"]; !ok {
				continue
			}
			steps = append(steps, sdk.Add(sdk.Path("typedExtensionProtocolOptions", name, "commonHttpProtocolOptions", "maxRequestsPerConnection"), settings.Limit))
		}
		out.Patch(item, fmt.Sprintf("connections end after %d requests", settings.Limit), steps...)
	}
	return nil
}
