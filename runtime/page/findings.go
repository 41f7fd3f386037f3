package page

import (
	"cmp"
	"net/url"
	"slices"
	"strings"

	"github.com/chancery-gateway/chancery/runtime/trace"
	"github.com/chancery-gateway/chancery/snapshot"
	"github.com/chancery-gateway/chancery/translators"
)

// findingsShown and routesShown bound one page of a list.
const (
	findingsShown = 50
	routesShown   = 100
)

// findings is one page of them, the gravest first.
type findings struct {
	Rows []finding
	pager
}

// finding is a diagnostic in texts.
type finding struct {
	Severity, Code, Title, About, Position, Path, Message, Help, Policy string
	// Link leads to what the object became; "" where there is no object.
	Link string
}

func list(all []snapshot.Diagnostic, search string, q url.Values) (f findings) {
	var kept []snapshot.Diagnostic
	for _, d := range all {
		if has(search, d.Object.String(), d.Message, d.Path, d.Help, d.Policy, codeOf(d)) {
			kept = append(kept, d)
		}
	}
	slices.SortStableFunc(kept, func(a, b snapshot.Diagnostic) int { return cmp.Or(cmp.Compare(a.Severity, b.Severity), a.Compare(b)) })
	low, high, p := page(q, "fp", "findings", findingsShown, len(kept))
	f.pager = p
	f.Rows = rows(kept[low:high])
	return f
}

func rows(ds []snapshot.Diagnostic) (all []finding) {
	for _, d := range ds {
		r := finding{Severity: d.Severity.String(), Code: codeOf(d), About: d.Object.String(), Position: d.Position.String(), Path: d.Path, Message: d.Message, Help: d.Help, Policy: d.Policy}
		if d.Code != nil {
			r.Title = d.Code.Title
		}
		if d.Object.Name != "" {
			r.Link = objectLink(d.Object)
		}
		all = append(all, r)
	}
	return all
}

func codeOf(d snapshot.Diagnostic) string {
	if d.Code == nil {
		return ""
	}
	return d.Code.ID
}

// has reports whether each word of the search stands in one of the texts, without regard to case.
func has(search string, texts ...string) bool {
	for _, word := range strings.Fields(strings.ToLower(search)) {
		if !slices.ContainsFunc(texts, func(t string) bool { return strings.Contains(strings.ToLower(t), word) }) {
			return false
		}
	}
	return true
}

// source is an object with the link to what it became.
type source struct{ Name, Link string }

func sources(refs []snapshot.Ref) (all []source) {
	for _, r := range refs {
		all = append(all, source{r.String(), objectLink(r)})
	}
	return all
}

func objectLink(r snapshot.Ref) string {
	return "?" + url.Values{"object": {r.String()}}.Encode() + "#object"
}

// object is what the objects of one name became.
type object struct {
	Asked string
	Found []followed
}

// followed is one of them.
type followed struct {
	*trace.Object
	Name     string
	Findings []finding
}

func follow(r *translators.Result, name string) *object {
	o := &object{Asked: name}
	for _, found := range trace.Find(r.Snapshot, name) {
		f := followed{Object: trace.Follow(r, found), Name: found.Ref.String()}
		var about []snapshot.Diagnostic
		for _, d := range r.Diagnostics {
			if d.Object == found.Ref {
				about = append(about, d)
			}
		}
		f.Findings = rows(about)
		o.Found = append(o.Found, f)
	}
	return o
}
