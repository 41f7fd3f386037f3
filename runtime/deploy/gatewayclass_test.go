package deploy_test

import (
	"os"
	"testing"

	"github.com/chancery-gateway/chancery/snapshot"
	"github.com/chancery-gateway/chancery/snapshot/api"
	"github.com/chancery-gateway/chancery/snapshot/manifest"
	"github.com/chancery-gateway/chancery/translators/gatewayapi"
)

// TestGatewayClassIsOurs: the class that users apply is one that an installation with the defaults answers.
func TestGatewayClassIsOurs(t *testing.T) {
	text, err := os.ReadFile("gatewayclass.yaml")
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range manifest.Documents("gatewayclass.yaml", text) {
		if d.Err != nil {
			t.Fatal(d.Err)
		}
		o, found := api.Decode(d.JSON, snapshot.Source{}, nil)
		if o == nil || len(found) > 0 {
			t.Fatal(found)
		}
		if o.Name != "chancery" || gatewayapi.Ours(o, "default") != gatewayapi.Controllers[0] {
			t.Errorf("%v is not ours", o.Ref)
		}
	}
}
