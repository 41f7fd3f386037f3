package ir

import (
	"bytes"
	"encoding/json"
	"reflect"
	"testing"
)

func TestWriteJSONSaysTheSame(t *testing.T) {
	weight := uint32(3)
	origin := []Origin{{Group: "g", Kind: "Mapping", Namespace: "n", Name: "<a>&"}}
	for name, p := range map[string]*Program{
		"empty":   {Version: Version},
		"no list": {Version: Version, RouteConfigs: []*RouteConfig{{Name: "r"}, {Name: "s", VirtualHosts: []*VirtualHost{{Name: "v"}}}}},
		"full": {Version: Version, Bootstrap: &Bootstrap{AdminPort: 8001}, Listeners: []*Listener{{Name: "l", Chains: []*FilterChain{{Name: "c"}}}, {Name: "m"}},
			RouteConfigs: []*RouteConfig{{Name: "r", Origins: origin, VirtualHosts: []*VirtualHost{
				{Name: "v", Domains: []string{"a", "b"}, HTTP3Port: 443, Origins: origin, Routes: []*Route{{Name: "x", Origins: origin}, {Name: "y", Forward: &Forward{Retry: &RetryPolicy{NumRetries: &weight}}}}}}}},
			Clusters: []*Cluster{{Name: "c"}}, EndpointSets: []*EndpointSet{{Name: "e"}}, Secrets: []*Secret{{Name: "s", Key: []byte("never shown")}}},
	} {
		var got bytes.Buffer
		if err := p.WriteJSON(&got); err != nil {
			t.Fatal(err)
		}
		plain, err := json.Marshal(p)
		if err != nil {
			t.Fatal(err)
		}
		var a, b any
		if err := json.Unmarshal(got.Bytes(), &a); err != nil {
			t.Fatalf("%s: %v\n%s", name, err, got.Bytes())
		}
		if err := json.Unmarshal(plain, &b); err != nil {
			t.Fatal(err)
		}
		if !reflect.DeepEqual(a, b) {
			t.Errorf("%s:\n%s\n%s", name, got.Bytes(), plain)
		}
		if bytes.Contains(got.Bytes(), []byte("never")) {
			t.Errorf("%s shows a key", name)
		}
	}
}

type full struct{}

func (full) Write([]byte) (int, error) { return 0, bytes.ErrTooLarge }

func TestWriteJSONFails(t *testing.T) {
	if err := (&Program{Version: Version}).WriteJSON(full{}); err == nil {
		t.Error("a writer's error is lost")
	}
}
