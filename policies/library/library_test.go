package library_test

import (
	"context"
	"testing"

	"github.com/chancery-gateway/chancery/policies/library"
	"github.com/chancery-gateway/chancery/policies/suite"
)

// TestLibrary runs the tests of every library policy; each rule must be covered.
func TestLibrary(t *testing.T) {
	r, err := suite.Run(context.Background(), library.Modules(), suite.Options{})
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range r.Findings {
		t.Error(d)
	}
	for _, o := range r.Tests {
		if o.Result != "pass" {
			t.Errorf("%s: %s.%s: %s %s", o.At, o.Package, o.Name, o.Result, o.Message)
		}
	}
	for _, rule := range r.Rules {
		if !rule.Covered {
			t.Errorf("%s: %s is covered by no test", rule.At, rule.Name)
		}
	}
	if len(r.Tests) < 60 || len(library.Names()) < 14 {
		t.Errorf("%d tests of %d policies", len(r.Tests), len(library.Names()))
	}
}
