package v3alpha1

// TLSContextSpec holds TLS settings for ending and originating TLS. Source of the field facts: Emissary's TLSContext CRD
// and "Transport Layer Security".
type TLSContextSpec struct {
	// AmbassadorID lists the installations that the object is for; default ["default"].
	AmbassadorID AmbassadorID `json:"ambassador_id,omitzero"`
	// Hosts are the server names that the context ends TLS for; none for origination only.
	Hosts []string `json:"hosts,omitzero"`
	// Secret names the Secret with certificate and key, as "name" or "name.namespace". Not together with CertChainFile.
	Secret string `json:"secret,omitzero"`
	// CertChainFile is a file with the certificate chain; it needs PrivateKeyFile.
	CertChainFile string `json:"cert_chain_file,omitzero"`
	// PrivateKeyFile is a file with the private key.
	PrivateKeyFile string `json:"private_key_file,omitzero"`
	// CASecret names the Secret whose CA the peer's certificate must come from.
	CASecret string `json:"ca_secret,omitzero"`
	// CACertChainFile is a file with that CA.
	CACertChainFile string `json:"cacert_chain_file,omitzero"`
	// CRLSecret names the Secret with the revocation list (key crl.pem).
	CRLSecret string `json:"crl_secret,omitzero"`
	// ALPNProtocols are the protocols to offer, separated by commas.
	ALPNProtocols string `json:"alpn_protocols,omitzero"`
	// CertRequired asks for a client certificate.
	CertRequired *bool `json:"cert_required,omitzero"`
	// MinTLSVersion is the lowest version.
	// +kubebuilder:validation:Enum={"v1.0", "v1.1", "v1.2", "v1.3"}
	MinTLSVersion string `json:"min_tls_version,omitzero"`
	// MaxTLSVersion is the highest version.
	// +kubebuilder:validation:Enum={"v1.0", "v1.1", "v1.2", "v1.3"}
	MaxTLSVersion string `json:"max_tls_version,omitzero"`
	// CipherSuites are the ciphers of TLS 1.2 and below.
	CipherSuites []string `json:"cipher_suites,omitzero"`
	// ECDHCurves are the key-exchange curves.
	ECDHCurves []string `json:"ecdh_curves,omitzero"`
	// SecretNamespacing splits a secret's name at its last dot into name and namespace; default the Module's
	// tls_secret_namespacing, which is true.
	SecretNamespacing *bool `json:"secret_namespacing,omitzero"`
	// RedirectCleartextFrom has no effect.
	RedirectCleartextFrom *int64 `json:"redirect_cleartext_from,omitzero"`
	// SNI is the server name to send to upstreams; default the Mapping's host_rewrite.
	SNI string `json:"sni,omitzero"`
}
