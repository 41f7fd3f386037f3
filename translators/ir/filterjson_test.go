package ir

import (
	"encoding/json"
	"reflect"
	"testing"
)

// TestFilterJSON writes and reads every configuration: what comes back has its type.
func TestFilterJSON(t *testing.T) {
	for _, f := range []Filter{
		{Name: FilterCORS, Origins: []Origin{{Kind: "Listener", Name: "l"}}},
		{Name: FilterExtAuthz, Config: &ExtAuthz{Cluster: "c", Body: &ExtAuthzBody{MaxBytes: 5}, AddHeaders: []HeaderValue{{Name: "a", Value: "b"}}}},
		{Name: FilterRateLimit, Config: &RateLimit{Cluster: "c", Domain: "d"}},
		{Name: FilterRBAC, Config: &AddressRules{Allow: []AddressRange{{Prefix: "10.0.0.0", Bits: 8, Peer: true}}}},
		{Name: FilterBuffer, Config: &Buffer{MaxRequestBytes: 5}},
		{Name: FilterCompressor, Config: &Compressor{Level: "BEST_SPEED"}},
		{Name: FilterLua, Config: &Lua{Script: "x"}},
		{Name: FilterGRPCStats, Config: &GRPCStats{Services: []GRPCService{{Name: "a", Methods: []string{"b"}}}}},
	} {
		text, err := json.Marshal(f)
		if err != nil {
			t.Fatal(err)
		}
		var got Filter
		if err := json.Unmarshal(text, &got); err != nil || !reflect.DeepEqual(got, f) {
			t.Errorf("%s: %+v %v", text, got, err)
		}
	}
	r := Route{Name: "r", Filters: RouteFilters{
		FilterExtAuthz:  &ExtAuthzRoute{Context: map[string]string{"a": "b"}},
		FilterRateLimit: &RateLimitRoute{Descriptors: []RateLimitDescriptor{{Actions: []RateLimitAction{{Kind: RateLimitGeneric, Value: "v"}}}}},
	}}
	text, err := json.Marshal(r)
	if err != nil {
		t.Fatal(err)
	}
	var got Route
	if err := json.Unmarshal(text, &got); err != nil || !reflect.DeepEqual(got, r) {
		t.Errorf("%s: %+v %v", text, got, err)
	}
	for _, bad := range []string{`{"name":"x","config":{}}`, `{"name":"` + FilterBuffer + `","config":{"max":1}}`, `{"name":"` + FilterBuffer + `","confg":{}}`, `[]`} {
		if err := json.Unmarshal([]byte(bad), new(Filter)); err == nil {
			t.Errorf("%s: no error", bad)
		}
	}
	for _, bad := range []string{`{"x":{}}`, `{"` + FilterExtAuthz + `":{"enabled":true}}`, `[]`} {
		if err := json.Unmarshal([]byte(bad), new(RouteFilters)); err == nil {
			t.Errorf("%s: no error", bad)
		}
	}
}
