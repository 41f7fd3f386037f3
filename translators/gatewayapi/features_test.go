package gatewayapi_test

import (
	"slices"
	"testing"

	"sigs.k8s.io/gateway-api/pkg/features"

	"github.com/chancery-gateway/chancery/translators/gatewayapi"
)

// Every feature of a gateway that there is has been decided about.
func TestFeatures(t *testing.T) {
	not := []string{"GatewayInfrastructure", "UDPRoute"}
	if !slices.IsSorted(gatewayapi.Features) {
		t.Error("the features are not sorted, which the API asks for")
	}
	known := map[string]bool{}
	for f := range features.AllFeatures {
		name := string(f.Name)
		known[name] = true
		mesh := features.MeshCoreFeatures.Has(f) || features.MeshExtendedFeatures.Has(f)
		if _, served := slices.BinarySearch(gatewayapi.Features, name); !served && !mesh && !slices.Contains(not, name) {
			t.Errorf("%s is neither served nor said not to be", name)
		}
	}
	for _, name := range gatewayapi.Features {
		if !known[name] {
			t.Errorf("Gateway API knows no feature %s", name)
		}
	}
}
