package command

import "github.com/spf13/cobra"

func (a *app) policyCommand() *cobra.Command {
	c := &cobra.Command{
		Use:   "policy",
		Short: "Test, explain and compare the rules that govern the compile",
		RunE:  func(c *cobra.Command, _ []string) error { return c.Help() },
		Args:  noCommand,
	}
	c.SuggestionsMinimumDistance = 2
	c.AddCommand(a.policyTestCommand(), a.policyCheckCommand(), a.policyBenchCommand(), a.policyDiffCommand(), a.policyExplainCommand(),
		a.policySchemaCommand(), a.policyDocsCommand(), a.policyCRDsCommand(), a.policySignCommand(), a.policyRollbackCommand())
	return c
}
