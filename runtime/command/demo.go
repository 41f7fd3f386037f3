package command

import (
	"context"
	"fmt"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/chancery-gateway/chancery/runtime/demo"
	"github.com/chancery-gateway/chancery/runtime/gateway"
)

// demoCommand is what `make run` starts: backends, a certificate, and serve.
func (a *app) demoCommand() *cobra.Command {
	var dir string
	c := &cobra.Command{
		Use:    "demo PATH...",
		Short:  "Serve manifests with the quickstart's backends and certificate",
		Hidden: true,
		Args:   needPaths,
		RunE: func(c *cobra.Command, paths []string) error {
			if err := demo.WriteCertificate(dir, "default", "quickstart-certificate", []string{"account.localhost"}); err != nil {
				return failure("the quickstart's certificate: %w", err)
			}
			ctx, cancel := context.WithCancelCause(c.Context())
			defer cancel(nil)
			up, backends := make(chan struct{}), make(chan error, 1)
			// The backends end after Envoy, which still talks to them while it drains.
			own, end := context.WithCancel(context.WithoutCancel(ctx))
			go func() { backends <- demo.Serve(own, demo.Backends, up) }()
			select {
			case <-up:
			case err := <-backends:
				end()
				return &status{exitUsage, err}
			}
			err := a.serve(ctx, append(paths, dir), func(at gateway.Addresses) { a.greet(paths[0], at) })
			end()
			if failed := <-backends; err == nil && failed != nil {
				err = failure("%w", failed)
			}
			return err
		},
	}
	c.Flags().StringVar(&dir, "certificate-dir", filepath.Join(".cache", "quickstart"), "where the certificate is written")
	return c
}

func (a *app) greet(path string, at gateway.Addresses) {
	fmt.Fprintf(a.out, `
Chancery and Envoy are up, serving %[1]s.

  http://shop.localhost:8080       clear text; one request in five goes to the canary
  https://account.localhost:8443   TLS with a certificate made just now
  http://%[2]s/ambassador/v0/diag/   diagnostics; ?json=true for programs; also /metrics

Try:

  curl http://shop.localhost:8080/cart
      shop v1 got GET /cart for shop.localhost          (in one of five: shop v2 (canary))
  curl -k https://account.localhost:8443/
      account got GET / for account.localhost
  curl -i http://shop.localhost:8080/old/
      HTTP/1.1 302 Found, location: http://shop.localhost:8080/new/

Edit a file in %[1]s and ask again. Ctrl-C ends everything.

`, path, at.Health)
}
