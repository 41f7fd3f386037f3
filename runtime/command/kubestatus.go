package command

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"strings"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/discovery/cached/memory"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/restmapper"
)

func (a *app) kubestatusCommand() *cobra.Command {
	var namespace, fields, labels, update string
	c := &cobra.Command{
		Use:   "kubestatus KIND [NAME]",
		Short: "Print or set the status of objects of a cluster",
		Long: `Prints the status of each object, one line of JSON behind its name; with --update sets it to what the file holds. It is
there for scripts that were written for Emissary-ingress; entrypoint writes statuses by itself.`,
		Example: `  chancery kubestatus mapping -n shop
  chancery kubestatus mapping quote -n shop -u status.json`,
		Args: takes(1, 2, "KIND, and perhaps NAME"),
		RunE: func(c *cobra.Command, args []string) error {
			o := metav1.ListOptions{FieldSelector: fields, LabelSelector: labels}
			if len(args) == 2 {
				o.FieldSelector = strings.Trim(o.FieldSelector+",metadata.name="+args[1], ",")
			}
			return a.kubestatus(c.Context(), args[0], namespace, o, update)
		},
	}
	c.Flags().StringVarP(&namespace, "namespace", "n", "", "namespace of the objects; all namespaces without it")
	c.Flags().StringVarP(&fields, "field-selector", "f", "", "objects that match these fields only")
	c.Flags().StringVarP(&labels, "label-selector", "l", "", "objects that have these labels only")
	c.Flags().StringVarP(&update, "update", "u", "", "file with the new status, JSON")
	return c
}

func (a *app) kubestatus(ctx context.Context, kind, namespace string, o metav1.ListOptions, update string) error {
	var status map[string]any
	if update != "" {
		text, err := os.ReadFile(update)
		if err != nil {
			return usage("new status: %w", err)
		}
		if err := json.Unmarshal(text, &status); err != nil {
			return usage("new status: %s is no JSON object: %w", update, err)
		}
	}
	config, err := clusterConfig()
	if err != nil {
		return usage("kubestatus needs a Kubernetes cluster: %w; set KUBECONFIG", err)
	}
	client, err := dynamic.NewForConfig(config)
	if err != nil {
		return failure("client of the API server: %w", err)
	}
	discover, err := discovery.NewDiscoveryClientForConfig(config)
	if err != nil {
		return failure("client of the API server: %w", err)
	}
	mapper := restmapper.NewDeferredDiscoveryRESTMapper(memory.NewMemCacheClient(discover))
	wanted := schema.ParseGroupResource(strings.ToLower(kind))
	resource, err := mapper.ResourceFor(wanted.WithVersion(""))
	if meta.IsNoMatchError(err) {
		return usage("the cluster has no kind %q", kind)
	}
	if err != nil {
		return failure("kinds of the cluster: %w", err)
	}
	list, err := client.Resource(resource).Namespace(namespace).List(ctx, o)
	if err != nil {
		return failure("%w", err)
	}
	for i := range list.Items {
		u := &list.Items[i]
		if update != "" {
			u.Object["status"] = status
			if u, err = client.Resource(resource).Namespace(u.GetNamespace()).UpdateStatus(ctx, u, metav1.UpdateOptions{}); err != nil {
				return failure("%s %s: %w", kind, list.Items[i].GetName(), err)
			}
		}
		if err := a.printStatus(u); err != nil {
			return failure("writing the answer: %w", err)
		}
	}
	return nil
}

func (a *app) printStatus(u *unstructured.Unstructured) error {
	text, err := json.Marshal(u.Object["status"])
	if err != nil {
		return err
	}
	name := u.GetName()
	if ns := u.GetNamespace(); ns != "" {
		name += "." + ns
	}
	_, err = fmt.Fprintf(a.out, "%s/%s: %s\n", strings.ToLower(u.GetKind()), name, text)
	return err
}
