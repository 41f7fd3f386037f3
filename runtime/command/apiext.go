package command

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"os"
	"strings"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/rest"

	"github.com/chancery-gateway/chancery/runtime/apiext"
	"github.com/chancery-gateway/chancery/runtime/gateway"
	"github.com/chancery-gateway/chancery/runtime/supervisor"
	"github.com/chancery-gateway/chancery/runtime/webhook"
)

// apiextFlags are the flags of apiext. The addresses are those that Emissary has.
type apiextFlags struct {
	selector, address, probes string
}

func (a *app) apiextCommand() *cobra.Command {
	var f apiextFlags
	c := &cobra.Command{
		Use:   "apiext [SERVICE]",
		Short: "Convert Emissary's objects between their versions, for the API server",
		Long: `Answers the API server's conversion reviews, so that objects of getambassador.io can be written and read in the versions
v1, v2 and v3alpha1. It takes the place of Emissary-ingress' apiext: the same ports, probes, Secret and environment
variables, and the same permissions are enough. SERVICE is the Service that leads here, emissary-apiext without a word.

The authority lies in the Secret emissary-ingress-webhook-ca, which the first replica makes and any of them renews. The
certificate goes into each custom resource definition whose conversion strategy is Webhook; others are left alone.

Converting there and back loses nothing: what a version cannot say is kept in the fields that Emissary has for it
("v3StatsName", "v2ExplicitTLS"), or in the annotations chancery.dev/kept-v2 and chancery.dev/kept-v3alpha1.

A replica that is asked to end answers on for 5 s while no new connection comes to it, and loses nothing. One that is killed
loses what is under way on its connections: the API server does not ask twice. Two replicas or more lose nothing else.

  POD_NAMESPACE           the namespace of Service and Secret; else that of the pod, else emissary-system
  DISABLE_CA_MANAGEMENT   somebody else keeps the Secret (tls.crt and tls.key of an authority; previous.crt
                          may hold the one before, so that a change costs nothing)
  DISABLE_CRD_MANAGEMENT  somebody else keeps the definitions

The gateway does the same in its own process: "entrypoint --apiext-address". Its account then needs the ClusterRole
chancery-apiext beside that of install.yaml, and the API server the Service of that name; beside.yaml has both.`,
		Example: `  chancery apiext emissary-apiext
  chancery apiext emissary-apiext --crd-label-selector app.kubernetes.io/part-of=emissary-ingress
  chancery entrypoint --apiext-address 0.0.0.0:9444 --apiext-service chancery-apiext   # the same beside the gateway`,
		Args: func(c *cobra.Command, args []string) error {
			if len(args) > 1 {
				return usage("apiext takes one SERVICE, found %d: %s", len(args), strings.Join(args, " "))
			}
			return nil
		},
		RunE: func(c *cobra.Command, args []string) error {
			service := apiext.Service
			if len(args) > 0 {
				service = args[0]
			}
			return a.apiext(c.Context(), service, &f)
		},
	}
	c.Flags().StringVar(&f.selector, "crd-label-selector", "", "definitions that have these labels only, such as a=b,c=d")
	c.Flags().StringVar(&f.address, "address", "0.0.0.0:8443", "address on which reviews are answered")
	c.Flags().StringVar(&f.probes, "probe-address", "0.0.0.0:8080", "address of /probes/ready and /probes/live")
	return c
}

// apiext answers conversion reviews until ctx ends.
func (a *app) apiext(ctx context.Context, service string, f *apiextFlags) error {
	if _, err := labels.Parse(f.selector); err != nil {
		return usage("--crd-label-selector %q: %w; right is a=b,c=d", f.selector, err)
	}
	config, err := clusterConfig()
	if err != nil {
		return usage("apiext needs a Kubernetes cluster: %w; set KUBECONFIG", err)
	}
	var listeners []net.Listener
	for _, x := range []struct{ what, address, flag string }{{"the webhook's address", f.address, "address"}, {"the address of the probes", f.probes, "probe-address"}} {
		l, err := net.Listen("tcp", x.address)
		if err != nil {
			return &status{exitUsage, &gateway.InUse{What: x.what, Address: x.address, Setting: x.flag, Err: err}}
		}
		defer l.Close()
		listeners = append(listeners, l)
	}
	log := newLogger(a.err, a.settings.LogLevel, a.settings.LogFormat)
	server, err := newApiext(config, service, podNamespace(), f.selector, log)
	if err != nil {
		return failure("client of the API server: %w", err)
	}
	fmt.Fprintf(a.err, "answering conversion reviews on %s, probes on %s\n", listeners[0].Addr(), listeners[1].Addr())
	if err := server.Serve(ctx, listeners[0], listeners[1]); err != nil {
		return failure("%w", err)
	}
	return nil
}

// newApiext returns a server with what Emissary's environment variables say.
func newApiext(config *rest.Config, service, namespace, selector string, log *slog.Logger) (*apiext.Server, error) {
	server, err := apiext.New(config, service, namespace, log)
	if err != nil {
		return nil, err
	}
	server.Definitions.Selector = selector
	server.Definitions.ReadOnly = os.Getenv("DISABLE_CRD_MANAGEMENT") != ""
	server.Authority.ReadOnly = os.Getenv("DISABLE_CA_MANAGEMENT") != ""
	return server, nil
}

// answerConversions answers conversion reviews beside the gateway; end ends that.
func (a *app) answerConversions(ctx context.Context, config *rest.Config, log *slog.Logger) (end func(), err error) {
	s := a.settings
	l, err := net.Listen("tcp", s.ApiextAddress)
	if err != nil {
		return nil, &status{exitUsage, &gateway.InUse{What: "apiext's address", Address: s.ApiextAddress, Setting: "apiext-address", Err: err}}
	}
	server, err := newApiext(config, s.ApiextService, ownNamespace(s), "", log)
	if err != nil {
		return nil, failure("client of the API server: %w", err)
	}
	server.Authority.Name = webhook.Secret // one authority for all that this process answers
	serving, stop := context.WithCancelCause(ctx)
	ended := make(chan error, 1)
	go func() { ended <- server.Serve(serving, l, nil) }()
	return func() {
		stop(supervisor.ErrHurry) // the gateway has taken its time
		if err := <-ended; err != nil {
			log.Error("conversion reviews are not answered", "error", err)
		}
	}, nil
}

// podNamespace returns the namespace of apiext: that of POD_NAMESPACE, else that of the pod, else Emissary's.
func podNamespace() string {
	if ns := os.Getenv("POD_NAMESPACE"); ns != "" {
		return ns
	}
	if ns := serviceAccountNamespace(); ns != "" {
		return ns
	}
	return apiext.Namespace
}
