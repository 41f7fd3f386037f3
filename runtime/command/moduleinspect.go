package command

import (
	"fmt"
	"io"
	"os"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/chancery-gateway/chancery/runtime/modules"
	"github.com/chancery-gateway/chancery/wasm"
	"github.com/chancery-gateway/chancery/wasm/abi"
	"github.com/chancery-gateway/chancery/wasm/source"
	"github.com/chancery-gateway/chancery/wasm/trust"
)

func (a *app) moduleInspectCommand() *cobra.Command {
	var format string
	c := &cobra.Command{
		Use:   "inspect MODULE",
		Short: "Show what a module is and what it asks for, without running it",
		Long:  `Prints name, version, digest, ABI, what the module reads and writes, its limits, imports and exports, and whether it can be metered.`,
		Example: `  chancery module inspect module.wasm
  chancery module inspect module.wasm --format json`,
		Args: oneModule,
		RunE: func(_ *cobra.Command, args []string) error {
			if format != "text" && format != "json" {
				return usage("--format %q is not known; right is text or json", format)
			}
			_, info, err := openModule(args[0])
			if err != nil {
				return err
			}
			if format == "json" {
				unmetered := ""
				if info.Unmetered != nil {
					unmetered = info.Unmetered.Error()
				}
				return writeJSON(a.out, map[string]any{"digest": info.Digest, "manifestDigest": info.ManifestDigest, "size": info.Size, "manifest": info.Manifest,
					"imports": info.Interface.Imports, "exports": info.Interface.Exports, "metered": info.Unmetered == nil, "unmetered": unmetered})
			}
			return writeInfo(a.out, info)
		},
	}
	c.Flags().StringVar(&format, "format", "text", "text or json")
	return c
}

func writeInfo(out io.Writer, i *wasm.Info) error {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	m := i.Manifest
	fmt.Fprintf(w, "%s %s\n", m.Name, m.Version)
	if m.Description != "" {
		fmt.Fprintf(w, "%s\n", m.Description)
	}
	phases := make([]string, len(m.Phases))
	for k, p := range m.Phases {
		phases[k] = string(p)
	}
	fmt.Fprintf(w, "\ndigest\t%s\nsize\t%d bytes\nABI\t%s\nphases\t%s\nreads\t%s\n", i.Digest, i.Size, m.ABI, strings.Join(phases, ", "), strings.Join(m.Reads, ", "))
	for _, s := range m.Writes {
		fmt.Fprintf(w, "writes\t%s\n", scopeText(s))
	}
	l := m.Limits
	fmt.Fprintf(w, "limits\t%s\n", strings.Join([]string{limit(l.Pages, wasm.DefaultPages, "pages"), limit(l.Fuel, wasm.DefaultFuel, "fuel"),
		limit(l.Milliseconds, wasm.DefaultMilliseconds, "ms"), limit(l.InputBytes, wasm.DefaultInputBytes, "bytes in"), limit(l.OutputBytes, wasm.DefaultOutputBytes, "bytes out")}, ", "))
	if len(m.Settings) > 0 {
		fmt.Fprintf(w, "settings\t%s\n", m.Settings)
	}
	for _, im := range i.Interface.Imports {
		fmt.Fprintf(w, "import\t%s.%s\n", im.Module, im.Name)
	}
	if i.Unmetered != nil {
		fmt.Fprintf(w, "guard\tnone: %s; only \"interpreter\": true runs it\n", i.Unmetered)
	} else {
		fmt.Fprintf(w, "guard\tfuel\n")
	}
	return w.Flush()
}

func limit[T int | int64 | uint32](v, def T, unit string) string {
	if v == 0 {
		return fmt.Sprintf("%d %s (default)", def, unit)
	}
	return fmt.Sprintf("%d %s", v, unit)
}

func scopeText(s abi.Scope) string {
	text := s.Kind
	if s.NamePrefix != "" {
		text += " named " + s.NamePrefix + "*"
	}
	if len(s.Fields) > 0 {
		text += ", fields " + strings.Join(s.Fields, " ")
	}
	ops := make([]string, len(s.Operations))
	for i, o := range s.Operations {
		ops[i] = string(o)
	}
	if len(ops) == 0 {
		ops = []string{"all operations"}
	}
	return text + ": " + strings.Join(ops, ", ")
}

func (a *app) moduleVerifyCommand() *cobra.Command {
	var digest string
	var flags specFlags
	c := &cobra.Command{
		Use:   "verify MODULE",
		Short: "Check digest, signature, ABI, imports, grant, and that the module can be metered",
		Long: `Judges a module as Chancery does before it compiles it, without running it. With --module-keys, a signature by one of these keys must
stand in MODULE.sig. With --translator, the grant must hold what the manifest asks for.`,
		Example: `  chancery module verify module.wasm
  chancery module verify module.wasm --sha256 9f86d0... --module-keys keys/`,
		Args: oneModule,
		RunE: func(_ *cobra.Command, args []string) error {
			art, err := readModule(args[0])
			if err != nil {
				return err
			}
			spec, err := flags.spec(args[0])
			if err != nil {
				return err
			}
			if digest != "" {
				d, err := wasm.ParseDigest(digest)
				if err != nil {
					return usage("--sha256: %w", err)
				}
				spec.Digest = &d
			}
			var root *trust.Root
			if a.settings.ModuleKeys != "" {
				if root, err = trust.LoadRoot(a.settings.ModuleKeys, 1); err != nil {
					return usage("--module-keys: %w", err)
				}
			}
			info, err := wasm.Verify(art.Module, art.Signature, spec, root, time.Now())
			if err == nil && flags.translator != "" {
				err = wasm.Permit(info.Manifest, spec)
			}
			if err != nil {
				return refused(fmt.Errorf("%s: %w", args[0], err))
			}
			signed := "not asked for"
			if root != nil {
				signed = "good"
			}
			fmt.Fprintf(a.out, "%s %s is good\n  %s\n  signature %s\n  metering adds %d bytes\n", info.Manifest.Name, info.Manifest.Version, info.Digest, signed, info.Report.After-info.Report.Before)
			return nil
		},
	}
	c.Flags().StringVar(&digest, "sha256", "", "the digest that the module must have")
	flags.add(c)
	return c
}

func (a *app) moduleSignCommand() *cobra.Command {
	var key, generate string
	c := &cobra.Command{
		Use:   "sign MODULE",
		Short: "Sign a module with an ed25519 key, beside the module",
		Long: `Writes MODULE.sig, which holds the module's digest, name, version and manifest digest, signed. Signatures that are there already stay.
--generate makes a new key pair: DIR/NAME.key, which is secret, and DIR/NAME.pub for --module-keys.`,
		Example: `  chancery module sign module.wasm --generate keys/me
  chancery module sign module.wasm --key keys/me.key`,
		Args: oneModule,
		RunE: func(_ *cobra.Command, args []string) error {
			if (key == "") == (generate == "") {
				return usage("module sign needs --key FILE, or --generate PREFIX for a new one")
			}
			if generate != "" {
				private, public, err := trust.GenerateKey()
				if err != nil {
					return failure("%w", err)
				}
				key = generate + ".key"
				if err := writeNew(key, private, 0o600); err != nil {
					return err
				}
				if err := writeNew(generate+".pub", public, 0o644); err != nil {
					return err
				}
				fmt.Fprintf(a.err, "new key in %s, its public half in %s.pub\n", key, generate)
			}
			text, err := os.ReadFile(key)
			if err != nil {
				return usage("--key: %w", err)
			}
			private, err := trust.ParsePrivateKey(text)
			if err != nil {
				return usage("--key %s: %w", key, err)
			}
			art, info, err := openModule(args[0])
			if err != nil {
				return err
			}
			statement := wasm.StatementOf(info)
			statement.NotBefore = time.Now().UTC().Truncate(time.Second)
			signature, err := trust.Sign(private, statement, art.Signature)
			if err != nil {
				return refused(err)
			}
			if err := os.WriteFile(args[0]+source.SignatureSuffix, signature, 0o644); err != nil {
				return failure("%w", err)
			}
			fmt.Fprintf(a.out, "%s\n", args[0]+source.SignatureSuffix)
			return nil
		},
	}
	c.Flags().StringVar(&key, "key", "", "file with the private key (PEM)")
	c.Flags().StringVar(&generate, "generate", "", "make a new key: PREFIX.key and PREFIX.pub")
	return c
}

// writeNew writes a file that does not exist yet.
func writeNew(path string, content []byte, mode os.FileMode) error {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, mode)
	if err != nil {
		return usage("%w", err)
	}
	if _, err = f.Write(content); err == nil {
		err = f.Close()
	} else {
		f.Close()
	}
	if err != nil {
		return failure("%w", err)
	}
	return nil
}

func (a *app) modulePackCommand() *cobra.Command {
	var manifest string
	c := &cobra.Command{
		Use:     "pack MODULE",
		Short:   "Put a manifest into a module",
		Long:    `Writes the manifest into the module's custom section, in place of one that is there, and shows what Chancery sees of the module.`,
		Example: `  chancery module pack module.wasm --manifest manifest.json`,
		Args:    oneModule,
		RunE: func(_ *cobra.Command, args []string) error {
			art, err := readModule(args[0])
			if err != nil {
				return err
			}
			text, err := os.ReadFile(manifest)
			if err != nil {
				return usage("--manifest: %w", err)
			}
			packed, err := wasm.SetManifest(art.Module, text)
			if err != nil {
				return refused(fmt.Errorf("%s: %w", manifest, err))
			}
			info, err := wasm.Inspect(packed)
			if err != nil {
				return refused(fmt.Errorf("%s: %w", args[0], err))
			}
			if err := os.WriteFile(args[0], packed, 0o644); err != nil {
				return failure("%w", err)
			}
			return writeInfo(a.out, info)
		},
	}
	c.Flags().StringVar(&manifest, "manifest", "manifest.json", "the manifest")
	return c
}

// writeModules shows the state of modules for people.
func writeModules(out io.Writer, all []modules.Report) error {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	for _, r := range all {
		fmt.Fprintf(w, "module %s", r.Name)
		if r.Live != nil {
			fmt.Fprintf(w, " %s, digest %s, phases %s, guard %s, live for %s", r.Live.Version, digestText(r.Live.Digest), strings.Join(r.Live.Phases, " "), r.Live.Guard, ago(r.Live.Since))
		} else {
			fmt.Fprint(w, ": no version is live")
		}
		fmt.Fprintln(w)
		if r.Error != "" {
			fmt.Fprintf(w, "  configuration: %s\n", r.Error)
		}
		if c := r.Candidate; c != nil && c.Reason != "" {
			fmt.Fprintf(w, "  refused at %s: %s %s: %s\n", c.Stage, c.Version, digestText(c.Digest), c.Reason)
			if c.RetryAt != nil {
				fmt.Fprintf(w, "  tried again in %s\n", time.Until(*c.RetryAt).Round(time.Second))
			}
		} else if c != nil && c.Stage != "promoted" {
			fmt.Fprintf(w, "  at %s: %s %s\n", c.Stage, c.Version, digestText(c.Digest))
		}
		if r.Breaker != "" && r.Breaker != "closed" {
			fmt.Fprintf(w, "  suspended after failures (%s)\n", r.Breaker)
		}
		for _, p := range r.Previous {
			fmt.Fprintf(w, "  rollback to %s %s\n", p.Version, digestText(p.Digest))
		}
		n := r.Counts
		fmt.Fprintf(w, "  units: %d called, %d remembered, %d kept, %d skipped, %d blocked; fuel %d, time %s, %d pages\n", n.Calls, n.Remembered, n.Kept, n.Skipped, n.Blocked, n.Fuel, n.Time.Round(time.Microsecond), n.Pages)
		for _, l := range r.Log {
			fmt.Fprintf(w, "  log: %s\n", l)
		}
	}
	return w.Flush()
}

func digestText(d string) string { return short(strings.TrimPrefix(d, "sha256:")) }
