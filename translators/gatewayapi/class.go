package gatewayapi

import (
	"slices"

	gw "sigs.k8s.io/gateway-api/apis/v1"

	"github.com/chancery-gateway/chancery/snapshot"
	"github.com/chancery-gateway/chancery/snapshot/api"
	"github.com/chancery-gateway/chancery/translators/ir"
)

// Controllers are the names under which GatewayClasses are answered.
var Controllers = []string{"chancery.dev/gateway-controller", "getambassador.io/gateway-controller"}

// annotationID picks the installation, as on other objects without the field ambassador_id.
const annotationID = "getambassador.io/ambassador-id"

// Ours returns the controllerName of a GatewayClass that the installation with this ambassador_id answers, "" for another's.
func Ours(class *snapshot.Object, id string) string {
	spec, ok := class.Spec.(*gw.GatewayClassSpec)
	if !ok || !slices.Contains(Controllers, string(spec.ControllerName)) {
		return ""
	}
	if own, has := class.Annotations[annotationID]; has && own != id || !has && id != "default" {
		return ""
	}
	return string(spec.ControllerName)
}

// class says what became of a GatewayClass.
func (l *lowering) class(spec *gw.GatewayClassSpec) bool {
	if Ours(l.o, l.f.options.AmbassadorID) == "" {
		return false
	}
	s := l.status()
	accepted := yes(string(gw.GatewayClassConditionStatusAccepted), string(gw.GatewayClassReasonAccepted), "the class is served")
	if spec.ParametersRef != nil {
		accepted = no(accepted.Type, string(gw.GatewayClassReasonInvalidParameters), "parameters are not supported: settings are those of the installation")
		l.fail(codeClass, "spec.parametersRef", accepted.Message, "leave parametersRef out")
	}
	s.Conditions = []ir.Condition{accepted,
		yes(string(gw.GatewayClassConditionStatusSupportedVersion), string(gw.GatewayClassReasonSupportedVersion), "the version of the object is read")}
	return true
}

// controller returns the controllerName of the class that a Gateway names, if it is served; there says whether there is such a class.
func (f *FrontEnd) controller(class gw.ObjectName, v *snapshot.View) (name string, there bool) {
	o := v.Get(api.KindGatewayClass, "", string(class))
	if o == nil {
		return "", false
	}
	if name = Ours(o, f.options.AmbassadorID); name == "" || o.Spec.(*gw.GatewayClassSpec).ParametersRef != nil {
		return "", true
	}
	return name, true
}
