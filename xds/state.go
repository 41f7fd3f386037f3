package xds

import (
	"crypto/sha256"
	"encoding/hex"
	"slices"
	"strings"
	"time"

	"github.com/chancery-gateway/chancery/translators/ir"
)

// state is one publication. Nothing in it changes afterwards.
type state struct {
	seq uint64
	set ir.ResourceSet
	at  time.Time
}

func (s *state) find(typeURL, name string) *ir.Resource { return find(s.set[typeURL], name) }

func find(list []*ir.Resource, name string) *ir.Resource {
	i, ok := slices.BinarySearchFunc(list, name, func(r *ir.Resource, name string) int { return strings.Compare(r.Name, name) })
	if !ok {
		return nil
	}
	return list[i]
}

func byName(a, b *ir.Resource) int { return strings.Compare(a.Name, b.Name) }

// ordered returns the set with every list sorted by name, without nils and duplicates. A list that is so already is
// shared. old is an ordered set: what is taken over from it by pointer is not looked at, which makes checking a large set cheap.
func ordered(set, old ir.ResourceSet) ir.ResourceSet {
	out := make(ir.ResourceSet, len(set))
	for t, list := range set {
		if !isOrdered(list, old[t]) {
			list = slices.DeleteFunc(slices.Clone(list), func(r *ir.Resource) bool { return r == nil })
			slices.SortStableFunc(list, byName)
			list = slices.CompactFunc(list, func(a, b *ir.Resource) bool { return a.Name == b.Name })
		}
		out[t] = list
	}
	return out
}

func isOrdered(list, old []*ir.Resource) bool {
	if sameList(list, old) {
		return true
	}
	i, known := 0, false // known: the one before is old[i-1] or an older one of old
	for j, r := range list {
		for i < len(old) && old[i] != r && r != nil && old[i].Name < r.Name {
			i++
		}
		if i < len(old) && old[i] == r {
			if !known && j > 0 && list[j-1].Name >= r.Name {
				return false
			}
			i, known = i+1, true
			continue
		}
		if r == nil || j > 0 && list[j-1].Name >= r.Name {
			return false
		}
		known = false
	}
	return true
}

// differences calls changed for each name at which two sorted lists differ, in order. Equal pointers and equal versions
// count as equal; a nil resource means that the list has none.
func differences(old, new []*ir.Resource, changed func(old, new *ir.Resource)) {
	if sameList(old, new) {
		return
	}
	i, j := 0, 0
	for i < len(old) && j < len(new) {
		a, b := old[i], new[j]
		if a == b {
			i, j = i+1, j+1
			continue
		}
		switch c := strings.Compare(a.Name, b.Name); {
		case c < 0:
			changed(a, nil)
			i++
		case c > 0:
			changed(nil, b)
			j++
		default:
			if a.Version != b.Version {
				changed(a, b)
			}
			i, j = i+1, j+1
		}
	}
	for ; i < len(old); i++ {
		changed(old[i], nil)
	}
	for ; j < len(new); j++ {
		changed(nil, new[j])
	}
}

func sameList(a, b []*ir.Resource) bool {
	return len(a) == len(b) && (len(a) == 0 || &a[0] == &b[0])
}

// digest is the version of a group of resources: a content hash, so that equal content has an equal version whoever
// computes it and whenever. removed names count too.
func digest(resources []*ir.Resource, removed []string) string {
	h := sha256.New()
	var line []byte
	for _, r := range resources {
		line = append(append(append(append(line[:0], r.Name...), 0), r.Version...), '\n')
		h.Write(line)
	}
	for _, name := range removed {
		h.Write(append(append(line[:0], name...), '\n'))
	}
	return hex.EncodeToString(h.Sum(nil)[:16])
}
