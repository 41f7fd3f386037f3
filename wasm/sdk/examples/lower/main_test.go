package main

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/chancery-gateway/chancery/wasm/abi"
	"github.com/chancery-gateway/chancery/wasm/sdk"
)

func run(t *testing.T, items ...abi.Item) abi.Response {
	t.Helper()
	request, err := json.Marshal(abi.Request{Phase: abi.Lower, Unit: "pages", Items: items})
	if err != nil {
		t.Fatal(err)
	}
	var r abi.Response
	if out := sdk.Run(request); len(out) > 0 {
		if err := json.Unmarshal(out, &r); err != nil {
			t.Fatal(err)
		}
	}
	if r.Error != nil {
		t.Fatal(r.Error.Message)
	}
	return r
}

func object(kind, name, spec string) abi.Item {
	return abi.Item{Kind: kind, Namespace: "shop", Name: name, Value: json.RawMessage(`{"spec":` + spec + `}`)}
}

func TestMaintenancePage(t *testing.T) {
	r := run(t, object(kindPage, "noon", `{"hostname":"shop.example.com","body":"Back at noon."}`))
	if len(r.Operations) != 1 || r.Operations[0].Name != "maintenance-noon" || !strings.Contains(string(r.Operations[0].Value), `"status":503`) {
		t.Errorf("%+v", r)
	}
	r = run(t, object(kindPage, "bad", `{"status":42}`))
	if len(r.Operations) != 0 || len(r.Diagnostics) != 1 || r.Diagnostics[0].Path != "spec.status" {
		t.Errorf("%+v", r)
	}
}

func TestRedirectList(t *testing.T) {
	r := run(t, object(kindList, "moved", `{"redirects":[{"from":"/a","to":"https://www.example.com/b"},{"from":"/c","to":"nowhere"}]}`))
	if len(r.Operations) != 1 || r.Operations[0].Name != "redirect-moved-0" || !strings.Contains(string(r.Operations[0].Value), `"path_redirect":"/b"`) {
		t.Errorf("%+v", r.Operations)
	}
	if len(r.Diagnostics) != 1 || r.Diagnostics[0].Path != "spec.redirects[1].to" {
		t.Errorf("%+v", r.Diagnostics)
	}
}
