package v3alpha1

// HostSpec is one host name that is served, with its TLS settings and its rule for clear-text requests. Source of the
// field facts: Emissary's Host CRD and "The Host CRD".
type HostSpec struct {
	// AmbassadorID lists the installations that the object is for; default ["default"].
	AmbassadorID AmbassadorID `json:"ambassador_id,omitzero"`
	// Hostname is the host, a DNS glob, with ":port" where clients send it; default "*".
	Hostname string `json:"hostname,omitzero"`
	// DeprecatedSelector stands for MappingSelector where that is absent.
	DeprecatedSelector *LabelSelector `json:"selector,omitzero"`
	// MappingSelector picks by label the Mappings of this Host.
	MappingSelector *LabelSelector `json:"mappingSelector,omitzero"`
	// AcmeProvider is for the former ACME client; only its privateKeySecret is looked at.
	AcmeProvider *ACMEProviderSpec `json:"acmeProvider,omitzero"`
	// TLSSecret is the certificate that ends TLS; without it the Host has none.
	TLSSecret *SecretReference `json:"tlsSecret,omitzero"`
	// RequestPolicy is what happens to clear-text requests.
	RequestPolicy *RequestPolicy `json:"requestPolicy,omitzero"`
	// PreviewURL has no effect.
	PreviewURL *PreviewURLSpec `json:"previewUrl,omitzero"`
	// TLSContext names a TLSContext of the same namespace with further settings. Not together with TLS.
	TLSContext *LocalObjectReference `json:"tlsContext,omitzero"`
	// TLS holds further settings. Not together with TLSContext.
	TLS *TLSConfig `json:"tls,omitzero"`
}

// ACMEProviderSpec is what an ACME client would need.
type ACMEProviderSpec struct {
	// Authority is the ACME server; "none" is none; default Let's Encrypt.
	Authority string `json:"authority,omitzero"`
	// Email is the account.
	Email string `json:"email,omitzero"`
	// PrivateKeySecret is the account's key.
	PrivateKeySecret *LocalObjectReference `json:"privateKeySecret,omitzero"`
	// Registration is written by the ACME client.
	Registration string `json:"registration,omitzero"`
}

// LocalObjectReference names an object in the same namespace.
type LocalObjectReference struct {
	// Name is the object's name.
	Name string `json:"name,omitzero"`
}

// SecretReference names a Secret.
type SecretReference struct {
	// Name is the Secret's name.
	Name string `json:"name,omitzero"`
	// Namespace is the Secret's namespace; default that of the object that names it.
	Namespace string `json:"namespace,omitzero"`
}

// RequestPolicy is a Host's rule by security of the request.
type RequestPolicy struct {
	// Insecure is the rule for clear-text requests.
	Insecure InsecureRequestPolicy `json:"insecure,omitzero"`
}

// InsecureRequestPolicy is the rule for clear-text requests.
type InsecureRequestPolicy struct {
	// Action is Redirect (default; to https), Reject or Route.
	// +kubebuilder:validation:Enum={"Redirect","Reject","Route"}
	Action string `json:"action,omitzero"`
	// AdditionalPort has no effect.
	AdditionalPort *int64 `json:"additionalPort,omitzero"`
}

// The values of InsecureRequestPolicy.Action.
const (
	InsecureRedirect = "Redirect"
	InsecureReject   = "Reject"
	InsecureRoute    = "Route"
)

// PreviewURLSpec was for the former Service Preview.
type PreviewURLSpec struct {
	// Enabled says whether preview URLs are on.
	Enabled *bool `json:"enabled,omitzero"`
	// Type is the form of the URLs.
	// +kubebuilder:validation:Enum={"Path"}
	Type string `json:"type,omitzero"`
}

// TLSConfig holds TLS settings of a Host; the fields mean the same as those of TLSContextSpec.
type TLSConfig struct {
	// CertChainFile is a file with the certificate chain.
	CertChainFile string `json:"cert_chain_file,omitzero"`
	// PrivateKeyFile is a file with the private key.
	PrivateKeyFile string `json:"private_key_file,omitzero"`
	// CASecret names the Secret whose CA client certificates must come from.
	CASecret string `json:"ca_secret,omitzero"`
	// CACertChainFile is a file with that CA.
	CACertChainFile string `json:"cacert_chain_file,omitzero"`
	// CRLSecret names the Secret with the revocation list.
	CRLSecret string `json:"crl_secret,omitzero"`
	// ALPNProtocols are the protocols to offer, separated by commas.
	ALPNProtocols string `json:"alpn_protocols,omitzero"`
	// CertRequired asks for a client certificate.
	CertRequired *bool `json:"cert_required,omitzero"`
	// MinTLSVersion is the lowest version: v1.0, v1.1, v1.2 or v1.3.
	MinTLSVersion string `json:"min_tls_version,omitzero"`
	// MaxTLSVersion is the highest version.
	MaxTLSVersion string `json:"max_tls_version,omitzero"`
	// CipherSuites are the ciphers of TLS 1.2 and below.
	CipherSuites []string `json:"cipher_suites,omitzero"`
	// ECDHCurves are the key-exchange curves.
	ECDHCurves []string `json:"ecdh_curves,omitzero"`
	// RedirectCleartextFrom has no effect.
	RedirectCleartextFrom *int64 `json:"redirect_cleartext_from,omitzero"`
	// SNI is the server name to send to upstreams.
	SNI string `json:"sni,omitzero"`
}
