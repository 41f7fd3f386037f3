package command

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/chancery-gateway/chancery/runtime/gateway"
	"github.com/chancery-gateway/chancery/runtime/settings"
	state "github.com/chancery-gateway/chancery/runtime/status"
	"github.com/chancery-gateway/chancery/snapshot/kube"
)

func (a *app) entrypointCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "entrypoint",
		Short: "Watch a Kubernetes cluster, serve xDS, and run an Envoy",
		Long: `Does what serve does, with the objects of a Kubernetes cluster: the one that KUBECONFIG leads to, or the one whose pod
this is. It takes the place of Emissary-ingress' entrypoint, with the same environment variables, ports and probes. What
became of a Mapping or Host is written to its status by one of the replicas.`,
		Example: `  chancery entrypoint
  KUBECONFIG=~/.kube/config chancery entrypoint --envoy none
  AMBASSADOR_ID=internal AMBASSADOR_SINGLE_NAMESPACE=yes AMBASSADOR_NAMESPACE=gateways chancery entrypoint`,
		Args:        takes(0, 0, ""),
		Annotations: map[string]string{settingsHelp: "all"},
		RunE: func(c *cobra.Command, _ []string) error {
			return a.entrypoint(c.Context(), func(at gateway.Addresses) {
				fmt.Fprintf(a.err, "ready: health on %s, xDS on %s\n", at.Health, at.ADS)
			})
		},
	}
}

// entrypoint runs the gateway over a cluster until ctx ends.
func (a *app) entrypoint(ctx context.Context, ready func(gateway.Addresses)) error {
	s := a.settings
	log := newLogger(a.err, s.LogLevel, s.LogFormat)
	config, err := clusterConfig()
	if err != nil {
		return usage("entrypoint needs a Kubernetes cluster: %w; set KUBECONFIG, or use \"chancery serve PATH...\" with manifests in files", err)
	}
	o := kube.Options{Config: config, Knative: s.Knative, LabelSelector: s.LabelSelector, FieldSelector: s.FieldSelector, Logger: log}
	// Who is no object of the cluster may name Secrets too.
	o.AllSecrets = s.Policies != "" || s.Modules != "" || s.AcceptSnapshots || len(a.configDirs()) > 0
	if s.SingleNamespace {
		o.Namespace = s.Namespace
	}
	if s.CertsSingleNamespace {
		o.SecretNamespace = s.Namespace
	}
	source, err := kube.New(o)
	if err != nil {
		return &status{exitUsage, err}
	}
	sum := sha256.Sum256([]byte(config.Host + "\x00" + s.AmbassadorID + "\x00" + o.Namespace))
	g := gateway.Options{
		Source: source, Snapshots: true, StateDir: filepath.Join(s.StateDir, "cluster-"+hex.EncodeToString(sum[:6])), Log: log, Ready: ready,
	}
	if s.UpdateStatus {
		writer, err := state.New(state.Options{Config: config, ID: s.AmbassadorID, Namespace: ownNamespace(s), Log: log,
			PublishService: s.PublishService, PublishAddresses: list(s.PublishAddresses), Knative: s.Knative})
		if err != nil {
			return failure("statuses: %w", err)
		}
		g.Observe = func(o gateway.Observation) {
			writer.Observe(state.Observation{Snapshot: o.Result.Snapshot, Findings: o.Findings, Statuses: o.Result.Statuses, Answered: o.Answered, Program: o.Result.Program})
		}
		writing, end := context.WithCancel(context.WithoutCancel(ctx))
		ended := make(chan error, 1)
		go func() { ended <- writer.Run(writing) }()
		defer func() {
			end() // and gives the lease away, so that another replica need not wait for it
			if err := <-ended; err != nil {
				log.Error("statuses are not written", "error", err)
			}
		}()
	}
	if s.ApiextAddress != "" {
		end, err := a.answerConversions(ctx, config, log)
		if err != nil {
			return err
		}
		defer end()
	}
	if s.WebhookAddress != "" {
		end, err := a.answerReviews(ctx, config, &g)
		if err != nil {
			return err
		}
		defer end()
	}
	return a.gateway(ctx, g)
}

// ownNamespace returns the namespace that the program runs in: the pod's, unless somebody says otherwise.
func ownNamespace(s *settings.Settings) string {
	for _, o := range s.Origins() {
		if o.Name == "namespace" && o.Source == "default" {
			if ns := serviceAccountNamespace(); ns != "" {
				return ns
			}
		}
	}
	return s.Namespace
}

// serviceAccountNamespace returns the pod's namespace, "" outside of pods. Source: Kubernetes documentation, "Accessing the
// Kubernetes API from a Pod".
func serviceAccountNamespace() string {
	text, err := os.ReadFile("/var/run/secrets/kubernetes.io/serviceaccount/namespace")
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(text))
}

// clusterConfig returns the access to the cluster: that of the kubeconfig file where there is one, else the pod's own.
func clusterConfig() (*rest.Config, error) {
	rules := clientcmd.NewDefaultClientConfigLoadingRules()
	config, err := clientcmd.NewNonInteractiveDeferredLoadingClientConfig(rules, nil).ClientConfig()
	if clientcmd.IsEmptyConfig(err) || errors.Is(err, rest.ErrNotInCluster) {
		return nil, errors.New("there is no kubeconfig file, and this is no pod")
	}
	if err != nil {
		return nil, err
	}
	config.UserAgent = "chancery/" + Version
	return config, nil
}
