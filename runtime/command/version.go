package command

import (
	"encoding/json"
	"fmt"
	"runtime"
	"runtime/debug"

	"github.com/spf13/cobra"

	"github.com/chancery-gateway/chancery/runtime/supervisor"
)

// Version is the release. `make build` sets it by -ldflags.
var Version = "0.1.0-dev"

func (a *app) versionCommand() *cobra.Command {
	var format string
	c := &cobra.Command{
		Use:   "version",
		Short: "Show the version of Chancery, and of the Envoy that it would run",
		Example: `  chancery version
  chancery version --format json`,
		Args: takes(0, 0, ""),
		RunE: func(c *cobra.Command, _ []string) error {
			v := struct {
				Chancery string `json:"chancery"`
				Revision string `json:"revision,omitempty"`
				Go       string `json:"go"`
				Platform string `json:"platform"`
				Envoy    string `json:"envoy"`
			}{Chancery: Version, Go: runtime.Version(), Platform: runtime.GOOS + "/" + runtime.GOARCH, Envoy: "none"}
			if info, ok := debug.ReadBuildInfo(); ok {
				for _, s := range info.Settings {
					if s.Key == "vcs.revision" {
						v.Revision = s.Value
					}
				}
			}
			if path, err := supervisor.Find(a.settings.Envoy); err == nil && path != "" {
				if v.Envoy, err = supervisor.Version(c.Context(), path); err != nil {
					v.Envoy = err.Error()
				} else {
					v.Envoy += " (" + path + ")"
				}
			}
			switch format {
			case "json":
				e := json.NewEncoder(a.out)
				e.SetIndent("", "  ")
				return e.Encode(v)
			case "text":
				fmt.Fprintf(a.out, "chancery %s %s %s\nenvoy    %s\n", v.Chancery, v.Go, v.Platform, v.Envoy)
				return nil
			}
			return usage("--format %q is not known; right is text or json", format)
		},
	}
	c.Flags().StringVar(&format, "format", "text", "text or json")
	return c
}
