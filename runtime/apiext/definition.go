package apiext

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/pem"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"reflect"
	"slices"
	"strings"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/metadata"

	"github.com/chancery-gateway/chancery/snapshot"
)

// Definitions are Emissary's custom resource definitions of several versions, those of them whose conversion strategy is
// Webhook: the strategy None is somebody's decision, and turning it over would give stored objects another meaning.
type Definitions struct {
	Client   dynamic.Interface
	Metadata metadata.Interface
	// Service and Namespace are those of the Service that reviews are sent to. A definition with a URL of its own keeps it.
	Service, Namespace string
	// Selector is a label selector; definitions that it does not select are left alone.
	Selector string
	// ReadOnly leaves writing to somebody else; what they wrote is still looked at.
	ReadOnly bool
	// Bundle reads the authority's certificates anew.
	Bundle func(context.Context) ([]byte, error)
	Log    *slog.Logger

	mu sync.Mutex
	// right holds the resourceVersions of definitions that carry the bundle.
	right  map[string]string
	bundle []byte
}

var definitions = schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"}

// errRenewed says that the authority was renewed meanwhile, so that definitions carry a newer bundle than was asked for.
var errRenewed = errors.New("another replica has just renewed the authority")

// suffix ends the names of our definitions: "mappings.getambassador.io".
const suffix = "." + snapshot.EmissaryGroup

// Publish makes every definition carry the bundle, and writes only those that do not. It fails unless all of them carry
// it. Replicas may do so at the same time: each reads a definition, then the authority, and then writes the definition
// unless somebody else has, so that no replica brings an authority back that another one has replaced.
func (d *Definitions) Publish(ctx context.Context, bundle []byte) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.carry(bundle)
	list, err := d.Metadata.Resource(definitions).List(ctx, metav1.ListOptions{LabelSelector: d.Selector})
	if err != nil {
		return fmt.Errorf("custom resource definitions: %w", err)
	}
	var all []error
	for i := range list.Items {
		item := &list.Items[i]
		if !strings.HasSuffix(item.Name, suffix) || item.DeletionTimestamp != nil || d.right[item.Name] == item.ResourceVersion {
			continue
		}
		if err := d.publish(ctx, item.Name); err != nil {
			all = append(all, fmt.Errorf("custom resource definition %s: %w", item.Name, err))
		}
	}
	if !bytes.Equal(d.bundle, bundle) {
		all = append(all, errRenewed)
	}
	return errors.Join(all...)
}

// carry notes the bundle that definitions are to carry.
func (d *Definitions) carry(bundle []byte) {
	if !bytes.Equal(d.bundle, bundle) {
		d.bundle, d.right = bundle, map[string]string{}
	}
}

// publish makes one definition carry the bundle.
func (d *Definitions) publish(ctx context.Context, name string) error {
	for range 5 {
		// A list of one: permission to list is all that Emissary's role grants.
		list, err := d.Client.Resource(definitions).List(ctx, metav1.ListOptions{FieldSelector: "metadata.name=" + name})
		if err != nil {
			return err
		}
		if len(list.Items) == 0 {
			return nil
		}
		o := &list.Items[0]
		is, want := d.conversion(o)
		if want != nil && !reflect.DeepEqual(is, want) {
			bundle, err := d.Bundle(ctx)
			if err != nil {
				return err
			}
			d.carry(bundle)
			is, want = d.conversion(o)
		}
		switch {
		case want == nil || reflect.DeepEqual(is, want):
			d.right[name] = o.GetResourceVersion()
			return nil
		case d.ReadOnly && carries(is, d.bundle):
			d.right[name] = o.GetResourceVersion()
			return nil
		case d.ReadOnly:
			return errors.New("its conversion webhook does not carry our authority's certificate, and whoever is to write that has not")
		}
		o.Object["spec"].(map[string]any)["conversion"] = want
		if o, err = d.Client.Resource(definitions).Update(ctx, o, metav1.UpdateOptions{FieldManager: "chancery-apiext"}); err == nil {
			d.right[name] = o.GetResourceVersion()
			d.Log.Info("a definition is converted by this service now", "definition", name)
			return nil
		}
		if !apierrors.IsConflict(err) {
			return err
		}
		// Another replica was faster; what is there now counts.
	}
	return errors.New("others keep writing it")
}

// conversion returns how a definition says that its objects are converted, and how it should; nil for as it does.
func (d *Definitions) conversion(o *unstructured.Unstructured) (is, want map[string]any) {
	is, _, _ = unstructured.NestedMap(o.Object, "spec", "conversion")
	versions, _, _ := unstructured.NestedSlice(o.Object, "spec", "versions")
	if is["strategy"] != "Webhook" || len(versions) < 2 {
		return is, nil
	}
	hook, _, _ := unstructured.NestedMap(is, "webhook")
	client, _, _ := unstructured.NestedMap(hook, "clientConfig")
	if client == nil {
		client = map[string]any{}
	}
	client["caBundle"] = base64.StdEncoding.EncodeToString(d.bundle)
	if _, has := client["url"]; !has {
		service, _, _ := unstructured.NestedMap(client, "service")
		if service == nil {
			service = map[string]any{}
		}
		service["name"], service["namespace"], service["path"] = d.Service, d.Namespace, Path
		client["service"] = service
	}
	want = maps.Clone(is)
	want["webhook"] = map[string]any{"clientConfig": client, "conversionReviewVersions": []any{"v1"}}
	return is, want
}

// carries reports whether the first certificate of the bundle is among those that a conversion believes.
func carries(conversion map[string]any, bundle []byte) bool {
	text, _, _ := unstructured.NestedString(conversion, "webhook", "clientConfig", "caBundle")
	believed, err := base64.StdEncoding.DecodeString(text)
	ours, _ := pem.Decode(bundle)
	return err == nil && ours != nil && slices.ContainsFunc(certificates(believed), func(c []byte) bool { return bytes.Equal(c, ours.Bytes) })
}

func certificates(text []byte) (all [][]byte) {
	for {
		block, rest := pem.Decode(text)
		if block == nil {
			return all
		}
		all, text = append(all, block.Bytes), rest
	}
}

// Watch calls changed whenever a definition is there, new or otherwise, until ctx ends.
func (d *Definitions) Watch(ctx context.Context, changed func()) {
	for ctx.Err() == nil {
		if w, err := d.Metadata.Resource(definitions).Watch(ctx, metav1.ListOptions{LabelSelector: d.Selector}); err == nil {
			for e := range w.ResultChan() {
				if o, ok := e.Object.(metav1.Object); ok && strings.HasSuffix(o.GetName(), suffix) {
					changed()
				}
			}
			w.Stop()
		}
		select {
		case <-ctx.Done():
		case <-time.After(time.Second): // the regular looks go on meanwhile
		}
	}
}
