// A translator of phase ir: every route that comes from a Mapping with a label gets a response header with the label's
// value. Label and header are settings.
package main

import (
	"encoding/json"
	"fmt"

	"github.com/chancery-gateway/chancery/wasm/sdk"
)

const (
	kindHost    = "ir/VirtualHost"
	kindMapping = "Mapping.getambassador.io"
)

var settings struct {
	Label  string `json:"label"`
	Header string `json:"header"`
}

func main() {}

func init() {
	sdk.Register(sdk.Translator{
		Configure: func(text json.RawMessage) error { return json.Unmarshal(text, &settings) },
		Translate: translate,
	})
}

type virtualHost struct {
	Routes []struct {
		ResponseHeaders struct {
			Add []header `json:"add"`
		} `json:"responseHeaders"`
		Origins []origin `json:"origins"`
	} `json:"routes"`
}

type header struct {
	Name  string `json:"name"`
	Value string `json:"value"`
}

type origin struct {
	Kind      string `json:"kind"`
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
}

func translate(in *sdk.Input, out *sdk.Output) error {
	labels := map[origin]string{}
	for _, item := range in.Of(kindMapping) {
		var m struct {
			Metadata struct {
				Labels map[string]string `json:"labels"`
			} `json:"metadata"`
		}
		if err := item.Decode(&m); err != nil {
			return err
		}
		if value, ok := m.Metadata.Labels[settings.Label]; ok {
			labels[origin{"Mapping", item.Namespace, item.Name}] = value
		}
	}
	for _, item := range in.Of(kindHost) {
		var host virtualHost
		if err := item.Decode(&host); err != nil {
			return err
		}
		var steps []sdk.Step
		for i, route := range host.Routes {
			value, ok := wanted(labels, route.Origins)
			if !ok {
				continue
			}
			h := header{settings.Header, value}
			if len(route.ResponseHeaders.Add) == 0 {
				steps = append(steps, sdk.Add(sdk.Path("routes", i, "responseHeaders"), map[string]any{"add": []header{h}}))
			} else {
				steps = append(steps, sdk.Add(sdk.Path("routes", i, "responseHeaders", "add", "-"), h))
			}
		}
		out.Patch(item, fmt.Sprintf("routes of Mappings with label %s say so in %s", settings.Label, settings.Header), steps...)
	}
	return nil
}

func wanted(labels map[origin]string, origins []origin) (string, bool) {
	for _, o := range origins {
		if value, ok := labels[o]; ok {
			return value, true
		}
	}
	return "", false
}
