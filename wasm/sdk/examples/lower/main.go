// A translator of phase lower: two kinds that Chancery does not know become things that it does.
//
// A MaintenancePage answers every request of a host, or of a path on it, with a text:
//
//	apiVersion: pages.example.com/v1
//	kind: MaintenancePage
//	spec: {hostname: shop.example.com, prefix: /, status: 503, body: "Back at noon."}
//
// A RedirectList sends old paths to new ones:
//
//	apiVersion: pages.example.com/v1
//	kind: RedirectList
//	spec: {hostname: shop.example.com, redirects: [{from: /old, to: https://www.example.com/new, code: 301}]}
package main

import (
	"fmt"
	"net/url"
	"strings"

	"github.com/chancery-gateway/chancery/wasm/sdk"
)

const (
	kindPage = "MaintenancePage.pages.example.com"
	kindList = "RedirectList.pages.example.com"
)

func main() {}

func init() {
	sdk.Register(sdk.Translator{Translate: translate, Validate: translate})
}

type page struct {
	Spec struct {
		Hostname string `json:"hostname"`
		Prefix   string `json:"prefix"`
		Status   int    `json:"status"`
		Body     string `json:"body"`
	} `json:"spec"`
}

type list struct {
	Spec struct {
		Hostname  string     `json:"hostname"`
		Redirects []redirect `json:"redirects"`
	} `json:"spec"`
}

type redirect struct {
	From string `json:"from"`
	To   string `json:"to"`
	Code int    `json:"code"`
}

func translate(in *sdk.Input, out *sdk.Output) error {
	for _, item := range in.Of(kindPage) {
		if err := lowerPage(item, out); err != nil {
			return err
		}
	}
	for _, item := range in.Of(kindList) {
		if err := lowerList(item, out); err != nil {
			return err
		}
	}
	return nil
}

func lowerPage(item sdk.Item, out *sdk.Output) error {
	p := page{}
	p.Spec.Hostname, p.Spec.Prefix, p.Spec.Status = "*", "/", 503
	if err := item.Decode(&p); err != nil {
		return err
	}
	if p.Spec.Status < 200 || p.Spec.Status > 599 {
		out.Error(item, "spec.status", fmt.Sprintf("%d is no status of a response", p.Spec.Status), "use a number from 200 to 599")
		return nil
	}
	if !strings.HasPrefix(p.Spec.Prefix, "/") {
		out.Error(item, "spec.prefix", fmt.Sprintf("%q does not start with a slash", p.Spec.Prefix), "")
		return nil
	}
	name := "maintenance-" + item.Name
	out.Add("ir/RouteFragment", item.Namespace, name, map[string]any{
		"name":     name,
		"hostname": p.Spec.Hostname,
		"route": map[string]any{
			"name":   name,
			"match":  map[string]any{"pathKind": "prefix", "path": p.Spec.Prefix},
			"direct": map[string]any{"status": p.Spec.Status, "body": p.Spec.Body},
		},
	}, item, "the page of MaintenancePage "+item.Name)
	return nil
}

func lowerList(item sdk.Item, out *sdk.Output) error {
	l := list{}
	l.Spec.Hostname = "*"
	if err := item.Decode(&l); err != nil {
		return err
	}
	for i, r := range l.Spec.Redirects {
		field := fmt.Sprintf("spec.redirects[%d]", i)
		to, err := url.Parse(r.To)
		if err != nil || to.Host == "" || to.Scheme != "http" && to.Scheme != "https" {
			out.Error(item, field+".to", fmt.Sprintf("%q is no http or https address", r.To), "as in https://www.example.com/new")
			continue
		}
		if r.Code == 0 {
			r.Code = 301
		}
		name := fmt.Sprintf("redirect-%s-%d", item.Name, i)
		out.Add("Mapping.getambassador.io", item.Namespace, name, map[string]any{
			"apiVersion": "getambassador.io/v3alpha1",
			"kind":       "Mapping",
			"metadata":   map[string]any{"name": name, "namespace": item.Namespace},
			"spec": map[string]any{
				"hostname":               l.Spec.Hostname,
				"prefix":                 r.From,
				"service":                to.Scheme + "://" + to.Host,
				"host_redirect":          true,
				"path_redirect":          to.EscapedPath(),
				"redirect_response_code": r.Code,
			},
		}, item, fmt.Sprintf("redirect %d of RedirectList %s", i, item.Name))
	}
	return nil
}
