package v3alpha1

// ModuleSpec holds the defaults of an installation, in the Module named "ambassador". Source: Emissary's Module CRD and
// "The Module resource".
type ModuleSpec struct {
	// AmbassadorID lists the installations that the object is for; default ["default"].
	AmbassadorID AmbassadorID `json:"ambassador_id,omitzero"`
	// Config has no schema in the CRD. Values are as JSON gives them: nil, bool, float64, string, []any, map[string]any.
	// +kubebuilder:validation:Required
	// +kubebuilder:validation:Schemaless
	// +kubebuilder:validation:Type=object
	// +kubebuilder:pruning:PreserveUnknownFields
	Config map[string]any `json:"config,omitzero"`
}
