// Package roots declares the custom resources as whole objects, with metadata and status, for the generator of the
// CustomResourceDefinitions alone: the compiler works on their specs and must not link Kubernetes' own types.
//
// +groupName=getambassador.io
// +versionName=v3alpha1
package roots

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/chancery-gateway/chancery/snapshot/api/v3alpha1"
)

// Outcome is what became of an object, for its author to read.
type Outcome struct {
	// ObservedGeneration is the generation of the object that the conditions speak of.
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`
	// Conditions say in Kubernetes' own form what became of the object: "Accepted" and "Programmed".
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

// MappingStatus is what became of a Mapping.
type MappingStatus struct {
	Outcome `json:",inline"`
	// State is Running, or Inactive when the Mapping has no effect.
	State string `json:"state,omitempty"`
	// Reason is what is wrong, empty when nothing is.
	Reason string `json:"reason,omitempty"`
}

// HostStatus is what became of a Host.
type HostStatus struct {
	Outcome `json:",inline"`
	// TLSCertificateSource is None or Other: where the certificate comes from.
	TLSCertificateSource string `json:"tlsCertificateSource,omitempty"`
	// State is Initial, Pending, Ready or Error.
	State string `json:"state,omitempty"`
	// PhaseCompleted is for the former ACME client.
	PhaseCompleted string `json:"phaseCompleted,omitempty"`
	// PhasePending is for the former ACME client.
	PhasePending string `json:"phasePending,omitempty"`
	// ErrorReason is what is wrong when State is Error.
	ErrorReason string `json:"errorReason,omitempty"`
	// ErrorTimestamp is for the former ACME client.
	ErrorTimestamp *metav1.Time `json:"errorTimestamp,omitempty"`
	// ErrorBackoff is for the former ACME client.
	ErrorBackoff *metav1.Duration `json:"errorBackoff,omitempty"`
}

// AuthService calls out to authenticate and authorise requests.
//
// +kubebuilder:object:root=true
// +kubebuilder:resource:categories=ambassador-crds
// +kubebuilder:storageversion
// +kubebuilder:subresource:status
// +kubebuilder:printcolumn:name="Programmed",type=string,JSONPath=`.status.conditions[?(@.type=="Programmed")].status`
// +kubebuilder:printcolumn:name="Service",type=string,JSONPath=`.spec.auth_service`
// +kubebuilder:printcolumn:name="Protocol",type=string,JSONPath=`.spec.proto`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
type AuthService struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec   v3alpha1.AuthServiceSpec `json:"spec,omitempty"`
	Status *Outcome                 `json:"status,omitempty"`
}

// ConsulResolver finds the endpoints of a service in Consul.
//
// +kubebuilder:object:root=true
// +kubebuilder:resource:categories=ambassador-crds
// +kubebuilder:storageversion
// +kubebuilder:subresource:status
// +kubebuilder:printcolumn:name="Programmed",type=string,JSONPath=`.status.conditions[?(@.type=="Programmed")].status`
// +kubebuilder:printcolumn:name="Address",type=string,JSONPath=`.spec.address`
// +kubebuilder:printcolumn:name="Datacenter",type=string,JSONPath=`.spec.datacenter`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
type ConsulResolver struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec   v3alpha1.ConsulResolverSpec `json:"spec,omitempty"`
	Status *Outcome                    `json:"status,omitempty"`
}

// DevPortal was the setting of the developer portal; it has no effect.
//
// +kubebuilder:object:root=true
// +kubebuilder:resource:categories=ambassador-crds
// +kubebuilder:storageversion
// +kubebuilder:subresource:status
// +kubebuilder:printcolumn:name="Programmed",type=string,JSONPath=`.status.conditions[?(@.type=="Programmed")].status`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
type DevPortal struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec   v3alpha1.DevPortalSpec `json:"spec,omitempty"`
	Status *Outcome               `json:"status,omitempty"`
}

// Host is a host name that is served, with its TLS settings.
//
// +kubebuilder:object:root=true
// +kubebuilder:resource:categories=ambassador-crds
// +kubebuilder:storageversion
// +kubebuilder:subresource:status
// +kubebuilder:printcolumn:name="Hostname",type=string,JSONPath=`.spec.hostname`
// +kubebuilder:printcolumn:name="State",type=string,JSONPath=`.status.state`
// +kubebuilder:printcolumn:name="Phase Completed",type=string,JSONPath=`.status.phaseCompleted`
// +kubebuilder:printcolumn:name="Phase Pending",type=string,JSONPath=`.status.phasePending`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
type Host struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec   v3alpha1.HostSpec `json:"spec,omitempty"`
	Status *HostStatus       `json:"status,omitempty"`
}

// KubernetesEndpointResolver sends to the ready endpoints of a Service.
//
// +kubebuilder:object:root=true
// +kubebuilder:resource:categories=ambassador-crds
// +kubebuilder:storageversion
// +kubebuilder:subresource:status
// +kubebuilder:printcolumn:name="Programmed",type=string,JSONPath=`.status.conditions[?(@.type=="Programmed")].status`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
type KubernetesEndpointResolver struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec   v3alpha1.KubernetesEndpointResolverSpec `json:"spec,omitempty"`
	Status *Outcome                                `json:"status,omitempty"`
}

// KubernetesServiceResolver sends to the cluster address of a Service.
//
// +kubebuilder:object:root=true
// +kubebuilder:resource:categories=ambassador-crds
// +kubebuilder:storageversion
// +kubebuilder:subresource:status
// +kubebuilder:printcolumn:name="Programmed",type=string,JSONPath=`.status.conditions[?(@.type=="Programmed")].status`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
type KubernetesServiceResolver struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec   v3alpha1.KubernetesServiceResolverSpec `json:"spec,omitempty"`
	Status *Outcome                               `json:"status,omitempty"`
}

// Listener is a port on which Envoy listens.
//
// +kubebuilder:object:root=true
// +kubebuilder:resource:categories=ambassador-crds
// +kubebuilder:storageversion
// +kubebuilder:subresource:status
// +kubebuilder:printcolumn:name="Port",type=string,JSONPath=`.spec.port`
// +kubebuilder:printcolumn:name="Protocol",type=string,JSONPath=`.spec.protocol`
// +kubebuilder:printcolumn:name="Stack",type=string,JSONPath=`.spec.protocolStack`
// +kubebuilder:printcolumn:name="StatsPrefix",type=string,JSONPath=`.spec.statsPrefix`
// +kubebuilder:printcolumn:name="Security",type=string,JSONPath=`.spec.securityModel`
// +kubebuilder:printcolumn:name="L7Depth",type=string,JSONPath=`.spec.l7Depth`
// +kubebuilder:printcolumn:name="Programmed",type=string,JSONPath=`.status.conditions[?(@.type=="Programmed")].status`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
type Listener struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec   v3alpha1.ListenerSpec `json:"spec,omitempty"`
	Status *Outcome              `json:"status,omitempty"`
}

// LogService sends access logs to a service.
//
// +kubebuilder:object:root=true
// +kubebuilder:resource:categories=ambassador-crds
// +kubebuilder:storageversion
// +kubebuilder:subresource:status
// +kubebuilder:printcolumn:name="Programmed",type=string,JSONPath=`.status.conditions[?(@.type=="Programmed")].status`
// +kubebuilder:printcolumn:name="Service",type=string,JSONPath=`.spec.service`
// +kubebuilder:printcolumn:name="Driver",type=string,JSONPath=`.spec.driver`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
type LogService struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec   v3alpha1.LogServiceSpec `json:"spec,omitempty"`
	Status *Outcome                `json:"status,omitempty"`
}

// Mapping sends matching HTTP and gRPC requests to a service.
//
// +kubebuilder:object:root=true
// +kubebuilder:resource:categories=ambassador-crds
// +kubebuilder:storageversion
// +kubebuilder:subresource:status
// +kubebuilder:printcolumn:name="Source Host",type=string,JSONPath=`.spec.hostname`
// +kubebuilder:printcolumn:name="Source Prefix",type=string,JSONPath=`.spec.prefix`
// +kubebuilder:printcolumn:name="Dest Service",type=string,JSONPath=`.spec.service`
// +kubebuilder:printcolumn:name="State",type=string,JSONPath=`.status.state`
// +kubebuilder:printcolumn:name="Reason",type=string,JSONPath=`.status.reason`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
type Mapping struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec   v3alpha1.MappingSpec `json:"spec,omitempty"`
	Status *MappingStatus       `json:"status,omitempty"`
}

// Module holds the settings of an installation; its name is ambassador.
//
// +kubebuilder:object:root=true
// +kubebuilder:resource:categories=ambassador-crds
// +kubebuilder:storageversion
// +kubebuilder:subresource:status
// +kubebuilder:printcolumn:name="Programmed",type=string,JSONPath=`.status.conditions[?(@.type=="Programmed")].status`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
type Module struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec   v3alpha1.ModuleSpec `json:"spec,omitempty"`
	Status *Outcome            `json:"status,omitempty"`
}

// RateLimitService asks a service whether a request may pass.
//
// +kubebuilder:object:root=true
// +kubebuilder:resource:categories=ambassador-crds
// +kubebuilder:storageversion
// +kubebuilder:subresource:status
// +kubebuilder:printcolumn:name="Programmed",type=string,JSONPath=`.status.conditions[?(@.type=="Programmed")].status`
// +kubebuilder:printcolumn:name="Service",type=string,JSONPath=`.spec.service`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
type RateLimitService struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec   v3alpha1.RateLimitServiceSpec `json:"spec,omitempty"`
	Status *Outcome                      `json:"status,omitempty"`
}

// TCPMapping sends TCP connections to a service.
//
// +kubebuilder:object:root=true
// +kubebuilder:resource:categories=ambassador-crds
// +kubebuilder:storageversion
// +kubebuilder:subresource:status
// +kubebuilder:printcolumn:name="Programmed",type=string,JSONPath=`.status.conditions[?(@.type=="Programmed")].status`
// +kubebuilder:printcolumn:name="Port",type=integer,JSONPath=`.spec.port`
// +kubebuilder:printcolumn:name="Host",type=string,JSONPath=`.spec.host`
// +kubebuilder:printcolumn:name="Service",type=string,JSONPath=`.spec.service`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
type TCPMapping struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec   v3alpha1.TCPMappingSpec `json:"spec,omitempty"`
	Status *Outcome                `json:"status,omitempty"`
}

// TLSContext holds TLS settings.
//
// +kubebuilder:object:root=true
// +kubebuilder:resource:categories=ambassador-crds
// +kubebuilder:storageversion
// +kubebuilder:subresource:status
// +kubebuilder:printcolumn:name="Programmed",type=string,JSONPath=`.status.conditions[?(@.type=="Programmed")].status`
// +kubebuilder:printcolumn:name="Secret",type=string,JSONPath=`.spec.secret`
// +kubebuilder:printcolumn:name="Hosts",type=string,JSONPath=`.spec.hosts`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
type TLSContext struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec   v3alpha1.TLSContextSpec `json:"spec,omitempty"`
	Status *Outcome                `json:"status,omitempty"`
}

// TracingService sends traces to a service.
//
// +kubebuilder:object:root=true
// +kubebuilder:resource:categories=ambassador-crds
// +kubebuilder:storageversion
// +kubebuilder:subresource:status
// +kubebuilder:printcolumn:name="Programmed",type=string,JSONPath=`.status.conditions[?(@.type=="Programmed")].status`
// +kubebuilder:printcolumn:name="Service",type=string,JSONPath=`.spec.service`
// +kubebuilder:printcolumn:name="Driver",type=string,JSONPath=`.spec.driver`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
type TracingService struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec   v3alpha1.TracingServiceSpec `json:"spec,omitempty"`
	Status *Outcome                    `json:"status,omitempty"`
}
