package translators

import "iter"

// readers are the entries that have read one object: most objects have one, some have all.
type readers struct {
	one  *entry
	more map[*entry]struct{} // those beside one; nil for none
}

func (r *readers) add(e *entry) {
	switch {
	case r.one == nil || r.one == e:
		r.one = e
	case r.more == nil:
		r.more = map[*entry]struct{}{e: {}}
	default:
		r.more[e] = struct{}{}
	}
}

// drop takes an entry away and reports whether none is left.
func (r *readers) drop(e *entry) bool {
	if r.one == e {
		r.one = nil
	} else {
		delete(r.more, e)
	}
	return r.one == nil && len(r.more) == 0
}

// all yields the entries in no order. A nil r has none.
func (r *readers) all() iter.Seq[*entry] {
	return func(yield func(*entry) bool) {
		if r == nil || r.one != nil && !yield(r.one) {
			return
		}
		for e := range r.more {
			if !yield(e) {
				return
			}
		}
	}
}
