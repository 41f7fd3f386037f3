package kubetest

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"sync"
	"testing"
	"time"

	"go.yaml.in/yaml/v3"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/discovery/cached/memory"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/restmapper"

	"github.com/chancery-gateway/chancery/snapshot"
)

// Client applies manifests, as kubectl does.
type Client struct {
	dynamic.Interface
	t      testing.TB
	mapper *restmapper.DeferredDiscoveryRESTMapper

	mu      sync.Mutex
	applied []*unstructured.Unstructured
}

// NewClient returns a client for the configuration.
func NewClient(t testing.TB, c *rest.Config) *Client {
	t.Helper()
	d, err := dynamic.NewForConfig(c)
	if err != nil {
		t.Fatal(err)
	}
	discover, err := discovery.NewDiscoveryClientForConfig(c)
	if err != nil {
		t.Fatal(err)
	}
	client := &Client{Interface: d, t: t, mapper: restmapper.NewDeferredDiscoveryRESTMapper(memory.NewMemCacheClient(discover))}
	if shared != nil && c.Host == shared.Config().Host {
		t.Cleanup(client.clean)
	}
	return client
}

// clean removes the custom resources that were applied to the cluster that tests share: gateways of all namespaces read them.
func (c *Client) clean() {
	gone := map[types.UID]bool{}
	for _, o := range slices.Backward(c.applied) {
		group := o.GroupVersionKind().Group
		if gone[o.GetUID()] || !slices.Contains([]string{snapshot.EmissaryGroup, "chancery.dev", "gateway.networking.k8s.io"}, group) {
			continue
		}
		gone[o.GetUID()] = true
		m, err := c.mapper.RESTMapping(o.GroupVersionKind().GroupKind(), o.GroupVersionKind().Version)
		if err != nil {
			continue // its definition is gone, and it with that
		}
		_ = c.Resource(m.Resource).Namespace(o.GetNamespace()).Delete(context.Background(), o.GetName(), metav1.DeleteOptions{}) // it may be gone
	}
}

// Objects splits a YAML stream.
func Objects(t testing.TB, stream []byte) []*unstructured.Unstructured {
	t.Helper()
	var out []*unstructured.Unstructured
	for d := yaml.NewDecoder(bytes.NewReader(stream)); ; {
		var o map[string]any
		err := d.Decode(&o)
		if errors.Is(err, io.EOF) {
			return out
		}
		if err != nil {
			t.Fatal(err)
		}
		if len(o) == 0 {
			continue
		}
		text, err := json.Marshal(o)
		if err != nil {
			t.Fatal(err)
		}
		u := &unstructured.Unstructured{}
		if err := u.UnmarshalJSON(text); err != nil {
			t.Fatal(err)
		}
		out = append(out, u)
	}
}

// Of returns the client of an object's kind and namespace.
func (c *Client) Of(o *unstructured.Unstructured) dynamic.ResourceInterface {
	c.t.Helper()
	var m *meta.RESTMapping
	var err error
	for range 100 {
		k := o.GroupVersionKind()
		if m, err = c.mapper.RESTMapping(k.GroupKind(), k.Version); err == nil {
			break
		}
		c.mapper.Reset()
		time.Sleep(50 * time.Millisecond)
	}
	if err != nil {
		c.t.Fatal(err)
	}
	r := c.Resource(m.Resource)
	if m.Scope.Name() != meta.RESTScopeNameNamespace {
		return r
	}
	if o.GetNamespace() == "" {
		o.SetNamespace("default")
	}
	return r.Namespace(o.GetNamespace())
}

// TryApply applies one object by server-side apply and returns the API server's answer.
func (c *Client) TryApply(o *unstructured.Unstructured) (*unstructured.Unstructured, error) {
	c.t.Helper()
	of := c.Of(o)
	text, err := o.MarshalJSON()
	if err != nil {
		c.t.Fatal(err)
	}
	force := true
	answer, err := of.Patch(context.Background(), o.GetName(), types.ApplyPatchType, text, metav1.PatchOptions{FieldManager: "kubetest", Force: &force})
	if err == nil {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.applied = append(c.applied, answer)
	}
	return answer, err
}

// Apply applies every object of a YAML stream, and waits until definitions in it are served.
func (c *Client) Apply(stream string) {
	c.t.Helper()
	for _, o := range Objects(c.t, []byte(stream)) {
		if _, err := c.TryApply(o); err != nil {
			c.t.Fatalf("%s/%s: %v", o.GetKind(), o.GetName(), err)
		}
		if o.GetKind() == "CustomResourceDefinition" {
			c.served(o)
		}
	}
}

func (c *Client) served(o *unstructured.Unstructured) {
	c.t.Helper()
	group, _, _ := unstructured.NestedString(o.Object, "spec", "group")
	plural, _, _ := unstructured.NestedString(o.Object, "spec", "names", "plural")
	versions, _, _ := unstructured.NestedSlice(o.Object, "spec", "versions")
	for _, v := range versions {
		version, _, _ := unstructured.NestedString(v.(map[string]any), "name")
		if served, _, _ := unstructured.NestedBool(v.(map[string]any), "served"); !served {
			continue
		}
		r := c.Resource(schema.GroupVersionResource{Group: group, Version: version, Resource: plural})
		Eventually(c.t, 2*time.Minute, plural+" is served", func(ctx context.Context) bool {
			_, err := r.List(ctx, metav1.ListOptions{Limit: 1})
			return err == nil
		})
	}
}

// Delete deletes every object of a YAML stream, and waits until definitions in it are gone with their objects.
func (c *Client) Delete(stream string) {
	c.t.Helper()
	for _, o := range Objects(c.t, []byte(stream)) {
		of := c.Of(o)
		if err := of.Delete(context.Background(), o.GetName(), metav1.DeleteOptions{}); err != nil {
			c.t.Fatalf("%s/%s: %v", o.GetKind(), o.GetName(), err)
		}
		if o.GetKind() == "CustomResourceDefinition" {
			eventually(context.Background(), c.t, 2*time.Minute, o.GetName()+" is gone", func(ctx context.Context) bool {
				_, err := of.Get(ctx, o.GetName(), metav1.GetOptions{})
				return apierrors.IsNotFound(err)
			})
		}
	}
}

// Allows waits until a user may do something with a resource, in a namespace or ("") in the whole cluster: roles take effect a
// moment after they are applied.
func (c *Client) Allows(user, namespace, verb, group, resource string) {
	c.t.Helper()
	reviews := c.Resource(schema.GroupVersionResource{Group: "authorization.k8s.io", Version: "v1", Resource: "subjectaccessreviews"})
	review := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "authorization.k8s.io/v1", "kind": "SubjectAccessReview", "spec": map[string]any{
		"user": user, "resourceAttributes": map[string]any{"namespace": namespace, "verb": verb, "group": group, "resource": resource}}}}
	Eventually(c.t, 2*time.Minute, fmt.Sprintf("%s may %s %s.%s in %q", user, verb, resource, group, namespace), func(ctx context.Context) bool {
		answer, err := reviews.Create(ctx, review, metav1.CreateOptions{})
		if err != nil {
			return false
		}
		allowed, _, _ := unstructured.NestedBool(answer.Object, "status", "allowed")
		return allowed
	})
}

// PatchStatus merges the status of o into that of the object.
func (c *Client) PatchStatus(o *unstructured.Unstructured) error {
	c.t.Helper()
	of := c.Of(o)
	text, err := json.Marshal(map[string]any{"status": o.Object["status"]})
	if err != nil {
		c.t.Fatal(err)
	}
	_, err = of.Patch(context.Background(), o.GetName(), types.MergePatchType, text, metav1.PatchOptions{}, "status")
	return err
}
