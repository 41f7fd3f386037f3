package xds

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/chancery-gateway/chancery/translators/ir"
)

func TestDifferences(t *testing.T) {
	r := func(name, version string) *ir.Resource { return res(ir.TypeCluster, name, version) }
	for _, tt := range []struct {
		name     string
		old, new []*ir.Resource
		want     []string
	}{
		{"both empty", nil, nil, nil},
		{"first", nil, []*ir.Resource{r("a", "1"), r("b", "1")}, []string{"+a", "+b"}},
		{"last", []*ir.Resource{r("a", "1"), r("b", "1")}, nil, []string{"-a", "-b"}},
		{"equal versions", []*ir.Resource{r("a", "1")}, []*ir.Resource{r("a", "1")}, nil},
		{"mixed", []*ir.Resource{r("a", "1"), r("c", "1"), r("d", "1")}, []*ir.Resource{r("b", "1"), r("c", "2"), r("d", "1"), r("e", "1")},
			[]string{"-a", "+b", "~c", "+e"}},
	} {
		var got []string
		differences(tt.old, tt.new, func(a, b *ir.Resource) {
			switch {
			case a == nil:
				got = append(got, "+"+b.Name)
			case b == nil:
				got = append(got, "-"+a.Name)
			default:
				got = append(got, "~"+a.Name)
			}
		})
		if !slices.Equal(got, tt.want) {
			t.Errorf("%s: %v, want %v", tt.name, got, tt.want)
		}
	}
}

func TestDisorderlySetsArePutInOrder(t *testing.T) {
	a, b, c := res(ir.TypeCluster, "a", "1"), res(ir.TypeCluster, "b", "1"), res(ir.TypeCluster, "c", "1")
	tidy := []*ir.Resource{a, b, c}
	got := ordered(ir.ResourceSet{"messy": {c, nil, a, a, b}, "tidy": tidy}, nil)
	if !slices.Equal(got["messy"], tidy) {
		t.Errorf("got %v", namesOf(got["messy"]))
	}
	if !sameList(got["tidy"], tidy) {
		t.Error("an ordered list was copied")
	}
}

// What is known to be in order and what is not may be mixed in any way.
func TestOrderIsSeenWhateverWasThereBefore(t *testing.T) {
	pool := make([]*ir.Resource, 5)
	for i := range pool {
		pool[i] = res(ir.TypeCluster, string(rune('a'+i)), "1")
	}
	dice := rand.New(rand.NewPCG(1, 2))
	draw := func() []*ir.Resource {
		var list []*ir.Resource
		for range dice.IntN(5) {
			r := pool[dice.IntN(len(pool))]
			switch dice.IntN(6) {
			case 0:
				r = res(r.Type, r.Name, "2")
			case 1:
				r = nil
			}
			list = append(list, r)
		}
		return list
	}
	for range 20_000 {
		old, list := ordered(ir.ResourceSet{"": draw()}, nil)[""], draw()
		if dice.IntN(2) == 0 {
			list = ordered(ir.ResourceSet{"": list}, nil)[""]
		}
		if got, want := isOrdered(list, old), isOrdered(list, nil); got != want {
			t.Fatalf("%v after %v: %v, want %v", list, namesOf(old), got, want)
		}
	}
}

func TestBlame(t *testing.T) {
	all := []*ir.Resource{res(ir.TypeCluster, "app", "1"), res(ir.TypeCluster, "app-v2", "1"), res(ir.TypeCluster, "web", "1")}
	for _, tt := range []struct {
		text string
		want []string
	}{
		{"Error adding/updating cluster(s) app-v2: bad", []string{"app-v2"}},
		{"Error adding/updating cluster(s) app: bad, web: worse", []string{"app", "web"}},
		{"something about no one", []string{"app", "app-v2", "web"}},
		{"", []string{"app", "app-v2", "web"}},
		{"it is web.", []string{"web"}},
	} {
		if got := namesOf(blamed(all, tt.text)); !slices.Equal(got, tt.want) {
			t.Errorf("%q: %v, want %v", tt.text, got, tt.want)
		}
	}
}
