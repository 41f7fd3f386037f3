package main

import (
	"encoding/json"
	"testing"

	"github.com/chancery-gateway/chancery/wasm/abi"
	"github.com/chancery-gateway/chancery/wasm/sdk"
)

func TestLimit(t *testing.T) {
	if err := sdk.Configure([]byte(`{"settings":{"limit":5,"prefix":"a"}}`)); err != nil {
		t.Fatal(err)
	}
	value := json.RawMessage(`{"typedExtensionProtocolOptions":{"envoy.extensions.upstreams.http.v3.HttpProtocolOptions":{"commonHttpProtocolOptions":{}}}}`)
	request, err := json.Marshal(abi.Request{Phase: abi.XDS, Unit: "clusters", Items: []abi.Item{
		{Kind: kindCluster, Name: "a", Value: value}, {Kind: kindCluster, Name: "b", Value: value},
	}})
	if err != nil {
		t.Fatal(err)
	}
	var r abi.Response
	if err := json.Unmarshal(sdk.Run(request), &r); err != nil {
		t.Fatal(err)
	}
	if len(r.Operations) != 1 || r.Operations[0].Name != "a" || string(r.Operations[0].Patch[0].Value) != "5" {
		t.Errorf("%+v", r)
	}
}
