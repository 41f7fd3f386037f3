package v3alpha1

// DevPortalSpec is for the former developer portal. It is accepted and has no effect. Source: Emissary's DevPortal CRD.
type DevPortalSpec struct {
	// AmbassadorID lists the installations that the object is for; default ["default"].
	AmbassadorID AmbassadorID `json:"ambassador_id,omitzero"`
	// Default marks the default portal.
	Default *bool `json:"default,omitzero"`
	// Content is where the portal's pages come from.
	Content *DevPortalContentSpec `json:"content,omitzero"`
	// Docs are services with documentation.
	Docs []DevPortalDocsSpec `json:"docs,omitzero"`
	// Selector picks what is shown.
	Selector *DevPortalSelectorSpec `json:"selector,omitzero"`
	// NamingScheme says how services are named; default namespace.name.
	// +kubebuilder:validation:Enum={"namespace.name", "name.prefix"}
	NamingScheme string `json:"naming_scheme,omitzero"`
	// Search sets the search.
	Search *DevPortalSearchSpec `json:"search,omitzero"`
	// PreserveServers keeps the servers of the OpenAPI documents.
	PreserveServers *bool `json:"preserve_servers,omitzero"`
}

// DevPortalContentSpec is a Git repository.
type DevPortalContentSpec struct {
	// URL is the repository.
	URL string `json:"url,omitzero"`
	// Branch is the branch.
	Branch string `json:"branch,omitzero"`
	// Dir is the folder.
	Dir string `json:"dir,omitzero"`
}

// DevPortalDocsSpec is one service with documentation.
type DevPortalDocsSpec struct {
	// Service is the service.
	Service string `json:"service,omitzero"`
	// URL is where its documentation is.
	URL string `json:"url,omitzero"`
	// Timeout bounds the fetching, in ms.
	Timeout *Milliseconds `json:"timeout_ms,omitzero"`
}

// DevPortalSelectorSpec picks Mappings.
type DevPortalSelectorSpec struct {
	// MatchNamespaces lists namespaces.
	MatchNamespaces []string `json:"matchNamespaces,omitzero"`
	// MatchLabels lists labels.
	MatchLabels map[string]string `json:"matchLabels,omitzero"`
}

// DevPortalSearchSpec sets the portal's search.
type DevPortalSearchSpec struct {
	// Enabled turns it on.
	Enabled *bool `json:"enabled,omitzero"`
	// Type is title-only (default) or all-content.
	// +kubebuilder:validation:Enum={"title-only", "all-content"}
	Type string `json:"type,omitzero"`
}
