package command

import (
	"crypto/sha256"
	"fmt"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	policy "github.com/chancery-gateway/chancery/policies/api"
	"github.com/chancery-gateway/chancery/policies/library"
	"github.com/chancery-gateway/chancery/policies/supply"
)

func (a *app) policyDocsCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "docs [PATH...]",
		Short: "Print a table of policies from their METADATA: Chancery's library, or the rules of PATH",
		Example: `  chancery policy docs
  chancery policy docs guardrails/ > GUARDRAILS.md`,
		RunE: func(c *cobra.Command, paths []string) error {
			title, modules := "The library of policies", library.Modules()
			if len(paths) > 0 {
				s, err := a.readPolicies(c.Context(), paths)
				if err != nil {
					return err
				}
				title, modules = "Policies", s.Modules
			}
			_, err := fmt.Fprint(a.out, library.Page(title, modules))
			return err
		},
	}
}

func (a *app) policyCRDsCommand() *cobra.Command {
	return &cobra.Command{
		Use:     "crds",
		Short:   "Print the CustomResourceDefinitions of Policy, PolicyException and Tenant",
		Example: "  chancery policy crds | kubectl apply -f -",
		Args:    takes(0, 0, ""),
		RunE: func(*cobra.Command, []string) error {
			text, err := policy.Definitions()
			if err != nil {
				return failure("%w", err)
			}
			_, err = a.out.Write(text)
			return err
		},
	}
}

func (a *app) policySignCommand() *cobra.Command {
	var key, id string
	c := &cobra.Command{
		Use:   "sign DIR --key FILE",
		Short: "Sign a folder of rules: write its .signatures.json",
		Long: `Signs every file of the folder that rules are made of with a private key (PEM, RSA or EC P-256), in the form of OPA bundles.
Chancery takes only signed rules when it is started with --policy-key.`,
		Example: `  chancery policy sign guardrails/ --key private.pem
  tar -C guardrails -czf bundle.tar.gz .
  chancery check --policies bundle.tar.gz --policy-key public.pem manifests/`,
		Args: needPaths,
		RunE: func(_ *cobra.Command, dirs []string) error {
			if key == "" {
				return usage("sign needs --key")
			}
			text, err := os.ReadFile(key)
			if err != nil {
				return usage("--key: %w", err)
			}
			for _, dir := range dirs {
				signature, err := supply.Sign(dir, string(text), id)
				if err != nil {
					return usage("%s: %w", dir, err)
				}
				at := filepath.Join(dir, ".signatures.json")
				if err := os.WriteFile(at, append(signature, '\n'), 0o644); err != nil {
					return failure("%w", err)
				}
				fmt.Fprintf(a.out, "%s written (sha256 %x)\n", at, sha256.Sum256(signature))
			}
			return nil
		},
	}
	c.Flags().StringVar(&key, "key", "", "file with the private key (PEM)")
	c.Flags().StringVar(&id, "key-id", "chancery", "name of the key, which --policy-key-id must repeat")
	return c
}
