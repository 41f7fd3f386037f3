package policies

import (
	"github.com/open-policy-agent/opa/v1/ast"

	"github.com/chancery-gateway/chancery/policies/engine"
	"github.com/chancery-gateway/chancery/snapshot"
)

// Supply is what comes from outside the snapshot, by --policies: an immutable revision of rules and objects that speak for
// the platform. Two pointers to the same Supply are the same revision.
type Supply struct {
	Modules []engine.Module
	// Objects are Policy, Tenant and PolicyException objects of the operator.
	Objects []*snapshot.Object
	// Data are the data files of bundles; nil for none.
	Data ast.Object
	// Revision is the name that a bundle gives itself; may be "". Digest identifies the content.
	Revision, Digest string
	Findings         []snapshot.Diagnostic
}

// Empty reports whether there is nothing to enforce and nothing to say.
func (s *Supply) Empty() bool {
	return s == nil || len(s.Modules)+len(s.Objects)+len(s.Findings) == 0
}
