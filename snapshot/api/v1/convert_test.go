package v1_test

import (
	"testing"

	"github.com/go-json-experiment/json/jsontext"

	v1 "github.com/chancery-gateway/chancery/snapshot/api/v1"
)

func TestConvert(t *testing.T) {
	const spec = `{"prefix":"/","service":"q","tls":true}`
	if got := string(v1.Convert("Mapping", jsontext.Value(spec))); got != spec {
		t.Errorf("got %s", got)
	}
}
