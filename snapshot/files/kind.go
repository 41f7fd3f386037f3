package files

import (
	"strings"

	"github.com/chancery-gateway/chancery/snapshot"
	"github.com/chancery-gateway/chancery/snapshot/api"
)

// unknown returns what there is to say of an object whose kind no stage reads.
func unknown(o *snapshot.Object) (snapshot.Diagnostic, bool) {
	k := o.GroupKind()
	if api.Known(k) {
		return snapshot.Diagnostic{}, false
	}
	if near, found := nearest(k, api.Kinds()); found {
		path, help := "kind", "did you mean "+near.Kind+"?"
		if near.Group != k.Group {
			path, help = "apiVersion", "the kind "+near.Kind+" is of the group "+groupName(near.Group)
		}
		return o.About(snapshot.Warning, codeUnknownKind, path, "the kind "+k.Kind+" of "+groupName(k.Group)+" is unknown; the object has no effect", help), true
	}
	if builtIn(k.Group) {
		return o.About(snapshot.Info, codeNotRead, "kind", "objects of kind "+k.Kind+" are not read", ""), true
	}
	return o.About(snapshot.Warning, codeUnknownKind, "kind", "the kind "+k.Kind+" of "+groupName(k.Group)+" is unknown; the object has no effect",
		"correct apiVersion and kind, or leave the object out"), true
}

func groupName(group string) string {
	if group == "" {
		return "core (v1)"
	}
	return group
}

// builtIn reports whether the group is one of Kubernetes' own or of its special interest groups.
func builtIn(group string) bool {
	return !strings.Contains(group, ".") || strings.HasSuffix(group, ".k8s.io") || strings.HasSuffix(group, ".x-k8s.io")
}

// nearest returns the known kind that was most likely meant: one of the same name in another group, or one whose name
// differs in a letter or two. Kinds of the same group go first, then the order of kinds decides.
func nearest(k snapshot.GroupKind, kinds []snapshot.GroupKind) (best snapshot.GroupKind, found bool) {
	most := 2
	if len(k.Kind) <= 5 {
		most = 1
	}
	least := 2 * (most + 1)
	for _, c := range kinds {
		d := distance(strings.ToLower(k.Kind), strings.ToLower(c.Kind), most)
		if d > most || c.Group != k.Group && builtIn(k.Group) && k.Group != "" && d > 0 {
			continue
		}
		score := 2 * d
		if c.Group != k.Group {
			score++
		}
		if score < least {
			best, least, found = c, score, true
		}
	}
	return best, found
}

// distance is the number of letters to insert, delete, replace or swap with the next to get from a to b; more than most
// is returned as most+1.
func distance(a, b string, most int) int {
	if len(a)-len(b) > most || len(b)-len(a) > most {
		return most + 1
	}
	rows := [3][]int{make([]int, len(b)+1), make([]int, len(b)+1), make([]int, len(b)+1)}
	for j := range rows[1] {
		rows[1][j] = j
	}
	for i := range len(a) {
		before, last, now := rows[0], rows[1], rows[2]
		now[0] = i + 1
		for j := range len(b) {
			cost := 1
			if a[i] == b[j] {
				cost = 0
			}
			now[j+1] = min(last[j]+cost, last[j+1]+1, now[j]+1)
			if i > 0 && j > 0 && a[i] == b[j-1] && a[i-1] == b[j] {
				now[j+1] = min(now[j+1], before[j-1]+1)
			}
		}
		rows = [3][]int{last, now, before}
	}
	return rows[1][len(b)]
}
