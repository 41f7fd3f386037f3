package command

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/chancery-gateway/chancery/policies/engine"
	"github.com/chancery-gateway/chancery/policies/supply"
)

// policyStatus is what the diagnostics page says of policies.
type policyStatus struct {
	Digest   string          `json:"digest"`
	Profile  string          `json:"profile"`
	Bundle   string          `json:"bundleRevision,omitempty"`
	Policies []policyInForce `json:"policies"`
	// Revisions are those of --policies that are kept, the newest last.
	Revisions []supply.Revision `json:"revisions,omitempty"`
}

type policyInForce struct {
	ID          string `json:"id"`
	Tenant      string `json:"tenant,omitempty"`
	Package     string `json:"package"`
	Revision    string `json:"revision"`
	Enforcement string `json:"enforcement"`
	Status      string `json:"status"`
	Why         string `json:"why,omitempty"`
}

// policyReport says which policies are in force, and which revisions are kept; nil for none.
func (a *app) policyReport(s *engine.Set) any {
	r := &policyStatus{Profile: engine.ProfileDigest(), Policies: []policyInForce{}}
	if a.watcher != nil {
		r.Revisions = a.watcher.Revisions()
	}
	if s == nil {
		if len(r.Revisions) == 0 {
			return nil
		}
		return r
	}
	r.Digest = s.Digest
	if a.rules != nil {
		r.Bundle = a.rules().Revision
	}
	for _, p := range s.Policies {
		one := policyInForce{ID: p.ID, Tenant: p.Tenant, Package: p.Package, Revision: p.Revision, Enforcement: string(p.Spec.Enforcement), Status: "accepted"}
		switch {
		case p.Broken != nil:
			one.Status, one.Why = "broken", p.Broken.String()
		case p.Quarantined():
			one.Status, one.Why = "quarantined", "over its deadline again and again"
		}
		r.Policies = append(r.Policies, one)
	}
	return r
}

// policyActions does what an operator asks of the rules: POST .../rollback?revision=NAME, "" for the one before.
func (a *app) policyActions() http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.PathValue("action") != "rollback" {
			http.NotFound(w, r)
			return
		}
		if err := a.watcher.Rollback(r.URL.Query().Get("revision")); err != nil {
			http.Error(w, err.Error(), http.StatusConflict)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(a.watcher.Revisions()) // the client went away; nobody is left to be told
	})
}

func (a *app) policyRollbackCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "rollback [REVISION]",
		Short: "Put an earlier revision of the rules back in force, in a running Chancery",
		Long: `Asks the Chancery that runs on this machine (see --health-port and --state-dir) to put a revision of --policies that it
keeps back in force, at once and over a restart, until the rules change again. REVISION is what "chancery status" shows: a
bundle's revision or the begin of a digest; without it the revision before the one in force.

Exit codes: 0 done, 1 there is no such revision, 3 no Chancery answers.`,
		Example: `  chancery policy rollback
  chancery policy rollback 1.4`,
		Args: takes(0, 1, "one REVISION"),
		RunE: func(c *cobra.Command, args []string) error {
			which := ""
			if len(args) > 0 {
				which = args[0]
			}
			text, err := a.operate(c.Context(), "policies/rollback", url.Values{"revision": {which}})
			if err != nil {
				return err
			}
			var all []supply.Revision
			if err := json.Unmarshal(text, &all); err != nil {
				return failure("what answers on port %d is not Chancery", a.settings.HealthPort)
			}
			return writeRevisions(a.out, all)
		},
	}
}

// writePolicies shows the policies in force and the revisions that are kept, for people.
func writePolicies(out io.Writer, report any) error {
	var s policyStatus
	text, err := json.Marshal(report)
	if err == nil {
		err = json.Unmarshal(text, &s)
	}
	if err != nil {
		return err
	}
	wrong := 0
	for _, p := range s.Policies {
		if p.Status != "accepted" {
			wrong++
		}
	}
	fmt.Fprintf(out, "policies: %d in force, %d out of order, set %s\n", len(s.Policies)-wrong, wrong, short(s.Digest))
	for _, p := range s.Policies {
		if p.Status != "accepted" {
			fmt.Fprintf(out, "  %s is %s: %s\n", p.ID, p.Status, p.Why)
		}
	}
	return writeRevisions(out, s.Revisions)
}

func writeRevisions(out io.Writer, all []supply.Revision) error {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	for _, r := range all {
		state := ""
		switch {
		case r.RolledBack:
			state = "in force by rollback"
		case r.InForce:
			state = "in force"
		}
		bundle := r.Bundle
		if bundle == "" {
			bundle = "-"
		}
		fmt.Fprintf(w, "  revision %s\t%s\ttaken %s ago\t%s\n", bundle, short(r.Digest), ago(r.Taken), state)
	}
	return w.Flush()
}
