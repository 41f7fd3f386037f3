package command

import (
	"maps"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/chancery-gateway/chancery/policies/schema"
)

func (a *app) policySchemaCommand() *cobra.Command {
	var kinds []string
	c := &cobra.Command{
		Use:   "schema [NAME]",
		Short: "Print the JSON schemas of what rules are given",
		Long:  "Prints the schema of input (for objects of every kind, or of --kind), of data.chancery.index, or of the input of merge rules.",
		Example: `  chancery policy schema input --kind Mapping
  chancery policy schema index`,
		Args: takes(0, 1, "one NAME"),
		RunE: func(_ *cobra.Command, args []string) error {
			all := schema.All()
			if len(kinds) > 0 {
				all["input"] = schema.Input(kinds, nil)
			}
			if len(args) == 0 {
				return writeJSON(a.out, all)
			}
			s, ok := all[args[0]]
			if !ok {
				return usage("there is no schema %q; right is one of %s", args[0], strings.Join(slices.Sorted(maps.Keys(all)), ", "))
			}
			return writeJSON(a.out, s)
		},
	}
	c.Flags().StringSliceVar(&kinds, "kind", nil, "kinds of objects, such as Mapping,Host")
	return c
}
