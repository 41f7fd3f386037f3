package command

import (
	"encoding/json"
	"fmt"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/chancery-gateway/chancery/runtime/settings"
)

func (a *app) settingsCommand() *cobra.Command {
	var format string
	c := &cobra.Command{
		Use:   "settings",
		Short: "Show every setting, its value, and where the value came from",
		Long: `Shows every setting with its effective value and its source: a flag, an environment variable,
chancery.yaml with its line, or the default. The first of these that sets it wins.`,
		Example: `  chancery settings
  AMBASSADOR_DRAIN_TIME=30 chancery settings
  chancery settings --config prod.yaml --format json`,
		Args: takes(0, 0, ""),
		RunE: func(*cobra.Command, []string) error {
			for _, line := range settings.Unused() {
				fmt.Fprintln(a.err, "note: "+line)
			}
			origins := a.settings.Origins()
			switch format {
			case "json":
				e := json.NewEncoder(a.out)
				e.SetIndent("", "  ")
				return e.Encode(map[string]any{"settings": origins})
			case "text":
			default:
				return usage("--format %q is not known; right is text or json", format)
			}
			w := tabwriter.NewWriter(a.out, 0, 0, 2, ' ', 0)
			fmt.Fprintln(w, "SETTING\tVALUE\tFROM")
			for _, o := range origins {
				from := o.Source
				if o.Note != "" {
					from += " (" + o.Note + ")"
				}
				value := o.Value
				if value == "" {
					value = `""`
				}
				fmt.Fprintf(w, "%s\t%s\t%s\n", o.Name, value, from)
			}
			return w.Flush()
		},
	}
	c.Flags().StringVar(&format, "format", "text", "text or json")
	return c
}
