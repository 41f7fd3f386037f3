package command

import (
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/chancery-gateway/chancery/runtime/trace"
	"github.com/chancery-gateway/chancery/snapshot"
	"github.com/chancery-gateway/chancery/translators"
	"github.com/chancery-gateway/chancery/translators/simulator"
)

func (a *app) explainCommand() *cobra.Command {
	var object, format string
	c := &cobra.Command{
		Use:   "explain PATH... -- [METHOD] URL [-H 'name: value']...",
		Short: "Follow one request, or one object, through the compiled program",
		Long: `With a URL: which listener, filter chain, virtual host and route take the request, where it goes with
which share, which objects that came from, and why nearer candidates lost. No Envoy is needed.

With --object: every listener, virtual host, route and cluster that one object became.`,
		Example: `  chancery explain manifests/ -- GET http://shop.example.com/cart
  chancery explain manifests/ -- POST https://api.example.com:8443/v1 -H 'x-user: anna'
  chancery explain manifests/ --object Mapping/default/shop
  chancery explain manifests/ --object host/shop --format json`,
		Args: func(c *cobra.Command, args []string) error {
			dash := c.ArgsLenAtDash()
			switch {
			case object == "" && dash < 0:
				return usage("explain needs a request after \"--\", or --object KIND/NAMESPACE/NAME; see %q", c.CommandPath()+" --help")
			case object != "" && dash >= 0 && len(args) > dash:
				return usage("explain follows a request or an object, not both")
			case dash == 0 || len(args) == 0:
				return needPaths(c, nil)
			}
			return nil
		},
		RunE: func(c *cobra.Command, args []string) error {
			if format != "text" && format != "json" {
				return usage("--format %q is not known; right is text or json", format)
			}
			paths := args
			var request simulator.Request
			if dash := c.ArgsLenAtDash(); dash >= 0 {
				paths = args[:dash]
				if object == "" {
					var err error
					if request, err = parseRequest(args[dash:]); err != nil {
						return err
					}
				}
			}
			defer collectRarely()()
			r, _, err := a.compilePaths(c.Context(), paths)
			if err != nil {
				return err
			}
			if object != "" {
				return a.explainObject(r, object, format)
			}
			if n := r.Errors(); n > 0 {
				fmt.Fprintf(a.err, "note: %d of the input's findings are errors; see \"chancery check\"\n", n)
			}
			t := simulator.Simulate(r.Program, request)
			if format == "json" {
				err = writeJSON(a.out, t)
			} else {
				if _, err = io.WriteString(a.out, t.Text()); err == nil {
					var involved []snapshot.Ref
					for _, o := range t.Outcomes {
						involved = append(involved, o.Origins...)
					}
					err = a.explainPolicies(involved)
				}
			}
			if err != nil {
				return failure("writing the answer: %w", err)
			}
			return verdict(r.Diagnostics, false)
		},
	}
	c.Flags().StringVar(&object, "object", "", "follow this object: KIND/NAMESPACE/NAME or KIND/NAME")
	c.Flags().StringVar(&format, "format", "text", "text or json")
	return c
}

// parseRequest reads what stands behind "--": method, URL and -H headers in any order, as curl takes them.
func parseRequest(args []string) (simulator.Request, error) {
	var words, headers []string
	for i := 0; i < len(args); i++ {
		switch arg := args[i]; {
		case arg == "-H" || arg == "--header":
			i++
			if i == len(args) {
				return simulator.Request{}, usage("%s needs a value such as 'x-user: anna'", arg)
			}
			headers = append(headers, args[i])
		case strings.HasPrefix(arg, "-H"):
			headers = append(headers, arg[2:])
		case strings.HasPrefix(arg, "--header="):
			headers = append(headers, strings.TrimPrefix(arg, "--header="))
		case strings.HasPrefix(arg, "-"):
			return simulator.Request{}, usage("after \"--\" only -H is an option, not %q", arg)
		default:
			words = append(words, arg)
		}
	}
	method, url := "", ""
	switch len(words) {
	case 1:
		url = words[0]
	case 2:
		method, url = words[0], words[1]
	default:
		return simulator.Request{}, usage("after \"--\" comes [METHOD] URL, for example GET http://example.com/shop/")
	}
	r, err := simulator.ParseRequest(method, url, headers)
	if err != nil {
		return r, &status{exitUsage, err}
	}
	return r, nil
}

func (a *app) explainObject(r *translators.Result, name, format string) error {
	found := trace.Find(r.Snapshot, name)
	if len(found) == 0 {
		return usage("there is no object %q in the input; write it as KIND/NAMESPACE/NAME, for example Mapping/default/shop", name)
	}
	for i, o := range found {
		t := trace.Follow(r, o)
		if format == "json" {
			if err := writeJSON(a.out, t); err != nil {
				return failure("writing the answer: %w", err)
			}
			continue
		}
		if i > 0 {
			fmt.Fprintln(a.out)
		}
		if err := t.Write(a.out, terminal(a.out)); err != nil {
			return failure("writing the answer: %w", err)
		}
		if err := a.explainPolicies([]snapshot.Ref{o.Ref}); err != nil {
			return failure("writing the answer: %w", err)
		}
	}
	return verdict(r.Diagnostics, false)
}
