package ingress

import (
	"encoding/json"
	"strings"

	"github.com/chancery-gateway/chancery/snapshot"
)

// The kinds that are read.
var (
	Kind      = snapshot.GroupKind{Group: "networking.k8s.io", Kind: "Ingress"}
	KindClass = snapshot.GroupKind{Group: "networking.k8s.io", Kind: "IngressClass"}
)

const (
	// classAnnotation is the older way to name a class; its value "ambassador" needs no IngressClass.
	classAnnotation = "kubernetes.io/ingress.class"
	annotatedClass  = "ambassador"
	// defaultAnnotation makes an IngressClass that of new Ingresses that name none.
	defaultAnnotation = "ingressclass.kubernetes.io/is-default-class"
	idAnnotation      = "getambassador.io/ambassador-id"
)

// controllers are the names under which an IngressClass is ours.
var controllers = map[string]bool{"chancery.dev/ingress-controller": true, "getambassador.io/ingress-controller": true}

// Ours reports whether an Ingress is for the installation with this ambassador_id: it bears the annotation of the class
// "ambassador", or its IngressClass has a controller of ours, and both are for that id. The API server fills in the default class
// of an Ingress that names none when it is created; for one that never was in a cluster this is made up for.
func Ours(o *snapshot.Object, id string, v *snapshot.View) bool {
	if !isFor(o, id) {
		return false
	}
	annotated, has := o.Annotations[classAnnotation]
	if strings.EqualFold(annotated, annotatedClass) {
		return true
	}
	if name := className(o); name != "" {
		c := v.Get(KindClass, "", name)
		return c != nil && ofUs(c, id)
	}
	if has || o.UID != "" {
		return false
	}
	for c := range v.List(KindClass) {
		if c.Annotations[defaultAnnotation] == "true" && ofUs(c, id) {
			return true
		}
	}
	return false
}

// className returns spec.ingressClassName.
func className(o *snapshot.Object) string {
	var doc struct {
		Spec struct {
			IngressClassName string `json:"ingressClassName"`
		} `json:"spec"`
	}
	if json.Unmarshal(o.Raw, &doc) != nil {
		return "" // the finding is that of whoever reads the whole
	}
	return doc.Spec.IngressClassName
}

// ofUs reports whether an IngressClass is this installation's.
func ofUs(c *snapshot.Object, id string) bool {
	var doc struct {
		Spec struct {
			Controller string `json:"controller"`
		} `json:"spec"`
	}
	return json.Unmarshal(c.Raw, &doc) == nil && controllers[strings.ToLower(doc.Spec.Controller)] && isFor(c, id)
}

// isFor reports whether the annotation of an object without field for it, "default" where it is missing, names this ambassador_id.
func isFor(o *snapshot.Object, id string) bool {
	is := o.Annotations[idAnnotation]
	if is == "" {
		is = "default"
	}
	return is == id
}
