package main

import (
	"encoding/json"
	"testing"

	"github.com/chancery-gateway/chancery/wasm/abi"
	"github.com/chancery-gateway/chancery/wasm/sdk"
)

func TestHeader(t *testing.T) {
	if err := sdk.Configure([]byte(`{"settings":{"label":"team","header":"x-team"}}`)); err != nil {
		t.Fatal(err)
	}
	request, err := json.Marshal(abi.Request{Phase: abi.IR, Unit: "vh", Items: []abi.Item{
		{Kind: kindMapping, Namespace: "a", Name: "m", Value: json.RawMessage(`{"metadata":{"labels":{"team":"red"}}}`)},
		{Kind: kindMapping, Namespace: "a", Name: "n", Value: json.RawMessage(`{"metadata":{}}`)},
		{Kind: kindHost, Name: "vh", Value: json.RawMessage(`{"name":"vh","routes":[
			{"name":"one","origins":[{"kind":"Mapping","namespace":"a","name":"n"}]},
			{"name":"two","origins":[{"kind":"Mapping","namespace":"a","name":"m"}]},
			{"name":"three","responseHeaders":{"add":[{"name":"x","value":"y"}]},"origins":[{"kind":"Mapping","namespace":"a","name":"m"}]}]}`)},
	}})
	if err != nil {
		t.Fatal(err)
	}
	var r abi.Response
	if err := json.Unmarshal(sdk.Run(request), &r); err != nil {
		t.Fatal(err)
	}
	if len(r.Operations) != 1 || len(r.Operations[0].Patch) != 2 {
		t.Fatalf("%+v", r)
	}
	for i, want := range []string{"/routes/1/responseHeaders", "/routes/2/responseHeaders/add/-"} {
		if got := r.Operations[0].Patch[i].Path; got != want {
			t.Errorf("step %d is at %s, want %s", i, got, want)
		}
	}
}
