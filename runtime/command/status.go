package command

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/chancery-gateway/chancery/runtime/gateway"
	"github.com/chancery-gateway/chancery/runtime/report"
)

func (a *app) statusCommand() *cobra.Command {
	var format string
	c := &cobra.Command{
		Use:   "status",
		Short: "Show the Envoys, policies and modules of a running Chancery",
		Long: `Asks the Chancery that runs on this machine (see --health-port) for the Envoys that are connected to it: node
and version, and for each type of resource what was sent, acknowledged, refused with Envoy's words, and how long ago.`,
		Example: `  chancery status
  chancery status --health-port 18877 --format json`,
		Args: takes(0, 0, ""),
		RunE: func(c *cobra.Command, _ []string) error {
			if format != "text" && format != "json" {
				return usage("--format %q is not known; right is text or json", format)
			}
			v, err := a.askOverview(c.Context())
			if err != nil {
				return err
			}
			if format == "json" {
				return writeJSON(a.out, map[string]any{"envoy": v.EnvoyStatus, "nodes": v.Nodes, "errors": v.Errors, "policies": v.Policies, "modules": v.Modules})
			}
			return writeStatus(a.out, v)
		},
	}
	c.Flags().StringVar(&format, "format", "text", "text or json")
	return c
}

func (a *app) askOverview(ctx context.Context) (*gateway.Overview, error) {
	address := a.healthAddress()
	bounded, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	r, err := http.NewRequestWithContext(bounded, http.MethodGet, "http://"+address+"/ambassador/v0/diag/?json=true", nil)
	if err != nil {
		return nil, usage("%w", err)
	}
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		return nil, failure("no Chancery answers on %s: %w; is it running, and is --health-port right?", address, err)
	}
	defer resp.Body.Close()
	var v gateway.Overview
	data, err := io.ReadAll(resp.Body)
	if err != nil || resp.StatusCode != http.StatusOK || json.Unmarshal(data, &v) != nil {
		return nil, failure("what answers on %s is not Chancery: %s", address, resp.Status)
	}
	return &v, nil
}

// healthAddress is where the Chancery of these settings answers.
func (a *app) healthAddress() string {
	return a.settings.DiagnosticsAddress()
}

// operate asks the Chancery that runs on this machine to change what it works with, and returns its answer.
func (a *app) operate(ctx context.Context, action string, query url.Values) ([]byte, error) {
	address := a.healthAddress()
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://"+address+"/ambassador/v0/"+action+"?"+query.Encode(), nil)
	if err != nil {
		return nil, usage("%w", err)
	}
	if word, err := gateway.OperatorToken(a.settings.StateDir); err == nil {
		r.Header.Set("Authorization", "Bearer "+word)
	}
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		return nil, failure("no Chancery answers on %s: %w; is it running, and is --health-port right?", address, err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(io.LimitReader(resp.Body, 1<<20))
	if resp.StatusCode == http.StatusForbidden {
		return nil, failure("%s: %s; is --state-dir that of the running Chancery, and are you its user?", action, strings.TrimSpace(string(text)))
	}
	if err != nil || resp.StatusCode != http.StatusOK {
		return nil, &status{exitErrors, fmt.Errorf("%s: %s", action, strings.TrimSpace(string(text)))}
	}
	return text, nil
}

func writeStatus(out io.Writer, v *gateway.Overview) error {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	e := v.EnvoyStatus
	fmt.Fprintf(w, "chancery %s, %s\n", v.System.Version, report.Count(len(v.Errors), "error"))
	fmt.Fprintf(w, "own envoy: %s", e.Process.State)
	if e.Process.PID != 0 {
		fmt.Fprintf(w, ", pid %d, up %s, restarts %d, ready %t", e.Process.PID, e.Uptime, e.Process.Restarts, e.Ready)
	}
	fmt.Fprintln(w)
	if len(v.Nodes) == 0 {
		fmt.Fprintln(w, "no Envoy is connected")
	}
	for _, n := range v.Nodes {
		protocol := "state of the world"
		if n.Delta {
			protocol = "delta"
		}
		fmt.Fprintf(w, "\nnode %s (%s), Envoy %s, %s, since %s\n", n.ID, n.Cluster, n.Version, protocol, ago(n.Since))
		fmt.Fprintln(w, "  TYPE\tSENT\tVERSION\tACKNOWLEDGED\tAGO\tREFUSED")
		for _, t := range n.Types {
			fmt.Fprintf(w, "  %s\t%d\t%s\t%s\t%s\t%d\n", t.Type[strings.LastIndexByte(t.Type, '.')+1:], t.Sent, short(t.SentVersion), short(t.AckedVersion), ago(t.AckedAt), len(t.Refused))
		}
		for _, t := range n.Types {
			for _, r := range t.Refused {
				fmt.Fprintf(w, "  refused: %s: %s\n", strings.Join(r.Names, ", "), r.Text)
			}
			for _, l := range t.Lacks {
				fmt.Fprintf(w, "  too old: %s\n", l.Text)
			}
		}
	}
	if err := w.Flush(); err != nil {
		return err
	}
	if v.Policies != nil {
		fmt.Fprintln(out)
		if err := writePolicies(out, v.Policies); err != nil {
			return err
		}
	}
	if len(v.Modules) == 0 {
		return nil
	}
	fmt.Fprintln(out)
	return writeModules(out, v.Modules)
}

func ago(t time.Time) string {
	if t.IsZero() {
		return "never"
	}
	return time.Since(t).Round(time.Second).String()
}

func short(version string) string { return version[:min(len(version), 12)] }
