package policies

import (
	"fmt"
	"slices"
	"time"

	"github.com/chancery-gateway/chancery/policies/api"
	"github.com/chancery-gateway/chancery/policies/engine"
	"github.com/chancery-gateway/chancery/snapshot"
)

// notice is how long before its end an exception is warned of.
const notice = 7 * 24 * time.Hour

// waiver returns the exception that waives the policy for the object; nil for none.
func (w *world) waiver(p *engine.Policy, o *snapshot.Object, now time.Time) *api.Exception {
	for _, x := range w.exceptions {
		if x.Spec.Policy == p.ID && x.Spec.Target.Is(o.Ref) && now.Before(x.Expiry) {
			return x
		}
	}
	return nil
}

// nextExpiry returns when the findings about exceptions change next; zero for never.
func (w *world) nextExpiry(now time.Time) (next time.Time) {
	for _, x := range w.exceptions {
		for _, t := range []time.Time{x.Expiry.Add(-notice), x.Expiry} {
			if t.After(now) && (next.IsZero() || t.Before(next)) {
				next = t
			}
		}
	}
	return next
}

func (w *world) exceptionFindings(now time.Time) (out []snapshot.Diagnostic) {
	for _, x := range w.exceptions {
		known := slices.ContainsFunc(w.set.Policies, func(p *engine.Policy) bool { return p.ID == x.Spec.Policy })
		switch {
		case !known:
			out = append(out, x.Object.About(snapshot.Warning, codeIdle, "spec.policy", fmt.Sprintf("there is no policy %q", x.Spec.Policy), ""))
		case !now.Before(x.Expiry):
			out = append(out, x.Object.About(snapshot.Warning, codeExpired, "spec.expires", "the exception ended at "+x.Spec.Expires, "remove it, or agree on a new one"))
		case !now.Before(x.Expiry.Add(-notice)):
			out = append(out, x.Object.About(snapshot.Warning, codeExpires, "spec.expires",
				fmt.Sprintf("the exception for %s ends at %s", x.Spec.Owner, x.Spec.Expires), "correct the object before"))
		}
	}
	return out
}
