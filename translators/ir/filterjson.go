package ir

import (
	"bytes"
	"encoding/json"
	"fmt"
)

// filterConfigs make an empty configuration of each filter that has one.
var filterConfigs = map[string]func() any{
	FilterExtAuthz:   func() any { return new(ExtAuthz) },
	FilterRateLimit:  func() any { return new(RateLimit) },
	FilterRBAC:       func() any { return new(AddressRules) },
	FilterBuffer:     func() any { return new(Buffer) },
	FilterCompressor: func() any { return new(Compressor) },
	FilterLua:        func() any { return new(Lua) },
	FilterGRPCStats:  func() any { return new(GRPCStats) },
}

// routeConfigs make an empty per-route configuration of each filter that has one.
var routeConfigs = map[string]func() any{
	FilterExtAuthz:  func() any { return new(ExtAuthzRoute) },
	FilterRateLimit: func() any { return new(RateLimitRoute) },
}

// RouteFilters are a route's settings by filter name; values are pointers to this package's per-route configurations.
type RouteFilters map[string]any

// UnmarshalJSON reads a filter; its name decides over the type of its configuration. It returns an error for a
// configuration of a filter that has none, and for unknown fields.
func (f *Filter) UnmarshalJSON(text []byte) error {
	var raw struct {
		Name    string          `json:"name"`
		Config  json.RawMessage `json:"config"`
		Origins []Origin        `json:"origins"`
	}
	if err := strict(text, &raw); err != nil {
		return err
	}
	config, err := decodeConfig(filterConfigs, raw.Name, raw.Config)
	if err != nil {
		return err
	}
	*f = Filter{Name: raw.Name, Config: config, Origins: raw.Origins}
	return nil
}

// UnmarshalJSON reads settings; the filter's name decides over their type. It returns an error for settings of a filter
// that has none, and for unknown fields.
func (f *RouteFilters) UnmarshalJSON(text []byte) error {
	var raw map[string]json.RawMessage
	if err := json.Unmarshal(text, &raw); err != nil {
		return err
	}
	*f = nil
	for name, one := range raw {
		config, err := decodeConfig(routeConfigs, name, one)
		if err != nil {
			return err
		}
		if *f == nil {
			*f = RouteFilters{}
		}
		(*f)[name] = config
	}
	return nil
}

func decodeConfig(types map[string]func() any, name string, text json.RawMessage) (any, error) {
	if len(text) == 0 || string(text) == "null" {
		return nil, nil
	}
	empty := types[name]
	if empty == nil {
		return nil, fmt.Errorf("filter %q has no configuration here", name)
	}
	config := empty()
	if err := strict(text, config); err != nil {
		return nil, fmt.Errorf("filter %q: %w", name, err)
	}
	return config, nil
}

func strict(text []byte, into any) error {
	d := json.NewDecoder(bytes.NewReader(text))
	d.DisallowUnknownFields()
	return d.Decode(into)
}
