package quarantine

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/chancery-gateway/chancery/snapshot"
	"github.com/chancery-gateway/chancery/snapshot/api"
	"github.com/chancery-gateway/chancery/translators"
	"github.com/chancery-gateway/chancery/translators/ir"
	"github.com/chancery-gateway/chancery/xds/validator"
)

func decoded(t *testing.T, text string) *snapshot.Object {
	t.Helper()
	o, found := api.Decode([]byte(text), snapshot.Source{}, nil)
	if o == nil {
		t.Fatal(found)
	}
	return o
}

func mapping(t *testing.T, name, prefix string) *snapshot.Object {
	t.Helper()
	return decoded(t, `{"apiVersion":"getambassador.io/v3alpha1","kind":"Mapping","metadata":{"name":"`+name+`","namespace":"app"},"spec":{"hostname":"*","prefix":"`+prefix+`","service":"x"}}`)
}

// court refuses units whose value holds the word "bad".
type court struct{ absent error }

func (c *court) Judge(_ context.Context, units []*ir.Unit) (validator.Verdicts, error) {
	out := validator.Verdicts{Refused: map[*ir.Unit]string{}}
	if c.absent != nil {
		out.Unjudged = units
		return out, c.absent
	}
	for _, u := range units {
		if strings.Contains(string(u.Value), "bad") {
			out.Refused[u] = "cannot stand '" + string(u.Value) + "'"
		}
	}
	return out, nil
}

// result makes a unit of each Mapping, as a compiler would.
func result(s *snapshot.Snapshot) *translators.Result {
	r := &translators.Result{Snapshot: s, Program: &ir.Program{}}
	for o := range s.List(snapshot.GroupKind{Group: snapshot.EmissaryGroup, Kind: "Mapping"}) {
		id := uint64(0)
		for _, b := range o.Raw {
			id = id*31 + uint64(b)
		}
		r.Changed = append(r.Changed, &ir.Unit{Kind: ir.UnitRoute, Name: o.Name, Value: prefixOf(o), ID: id, Origins: []ir.Origin{o.Ref}})
	}
	return r
}

func prefixOf(o *snapshot.Object) []byte {
	_, after, _ := strings.Cut(string(o.Raw), `"prefix":"`)
	prefix, _, _ := strings.Cut(after, `"`)
	return []byte(prefix)
}

func served(s *snapshot.Snapshot, name string) string {
	o := s.Get(snapshot.GroupKind{Group: snapshot.EmissaryGroup, Kind: "Mapping"}, "app", name)
	if o == nil {
		return ""
	}
	return string(prefixOf(o))
}

func quarantine(t *testing.T, dir string, c *court, require bool) *Quarantine {
	t.Helper()
	q, err := New(Options{Open: func(context.Context, *ir.Bootstrap) (Judge, error) { return c, nil }, Dir: dir, Require: require})
	if err != nil {
		t.Fatal(err)
	}
	return q
}

func TestLastGoodForm(t *testing.T) {
	dir := t.TempDir()
	q := quarantine(t, dir, &court{}, false)
	good := snapshot.Empty().Derive([]*snapshot.Object{mapping(t, "a", "/good/"), mapping(t, "b", "/other/")}, nil, nil)
	if p := q.Prove(t.Context(), good, result(q.Take(good))); p.Again || len(p.Findings) > 0 {
		t.Fatalf("good: %+v", p)
	}
	bad := good.Derive([]*snapshot.Object{mapping(t, "a", "/bad/"), mapping(t, "c", "/bad-and-new/")}, nil, nil)
	p := q.Prove(t.Context(), bad, result(q.Take(bad)))
	if !p.Again || len(p.Refused) != 1 || q.Held() != 1 {
		t.Fatalf("bad: %+v", p)
	}
	for u := range p.Refused {
		if u.Name != "c" {
			t.Errorf("%s is taken out, which was good before", u.Name)
		}
	}
	if d := p.Findings; len(d) != 1 || d[0].Object.Name != "a" || d[0].Path != "spec.prefix" || !strings.Contains(d[0].Message, "cannot stand '/bad/'") {
		t.Errorf("findings %v", d)
	}
	taken := q.Take(bad)
	if got := served(taken, "a") + served(taken, "b") + served(taken, "c"); got != "/good//other//bad-and-new/" {
		t.Errorf("compiled is %s", got)
	}
	if err := q.Save(); err != nil {
		t.Fatal(err)
	}

	t.Run("ends when the object changes", func(t *testing.T) {
		if got := served(q.Take(bad.Derive([]*snapshot.Object{mapping(t, "a", "/cured/")}, nil, nil)), "a"); got != "/cured/" || q.Held() != 0 {
			t.Errorf("compiled is %s", got)
		}
	})
	t.Run("outlives the process", func(t *testing.T) {
		q := quarantine(t, dir, &court{}, false)
		if p := q.Prove(t.Context(), bad, result(q.Take(bad))); !p.Again || served(q.Take(bad), "a") != "/good/" {
			t.Errorf("%+v", p)
		}
	})
	t.Run("a damaged file is set aside", func(t *testing.T) {
		path := filepath.Join(dir, file)
		data, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		data[len(data)-1] ^= 1
		if err := os.WriteFile(path, data, 0o600); err != nil {
			t.Fatal(err)
		}
		if q, err := New(Options{Dir: dir}); q == nil || err == nil {
			t.Errorf("%v %v", q, err)
		}
		if _, err := os.Stat(path + ".damaged"); err != nil {
			t.Error(err)
		}
	})
}

// TestNobodyJudges: without an Envoy everything is served with a warning, or held back where one is required; and it is judged later.
func TestNobodyJudges(t *testing.T) {
	for _, require := range []bool{false, true} {
		c := &court{absent: errors.New("no Envoy here")}
		q := quarantine(t, "", c, require)
		s := snapshot.Empty().Derive([]*snapshot.Object{mapping(t, "a", "/bad/")}, nil, nil)
		r := result(q.Take(s))
		p := q.Prove(t.Context(), s, r)
		if p.Again || p.Hold != require || p.Retry == 0 || len(p.Findings) != 1 || p.Findings[0].Code != Unproven || !strings.Contains(p.Findings[0].Message, "no Envoy here") {
			t.Errorf("require %v: %+v", require, p)
		}
		c.absent = nil
		r.Changed = nil // the next compile makes nothing anew
		if p = q.Prove(t.Context(), s, r); !p.Again || len(p.Refused) != 1 || p.Hold || p.Retry != 0 {
			t.Errorf("require %v, later: %+v", require, p)
		}
	}
}

func TestField(t *testing.T) {
	o := decoded(t, `{"apiVersion":"getambassador.io/v3alpha1","kind":"Mapping","metadata":{"name":"a","namespace":"app"},"spec":{"hostname":"*","prefix":"/x[a-","prefix_regex":true,"service":"backend","regex_headers":{"x-a":"b{1,900}"}}}`)
	for sentence, want := range map[string]string{
		"missing ]: [a-": "spec.prefix",
		"regex 'b{1,900}' RE2 program size of 809 > max program size": "spec.regex_headers.x-a",
		"something else": "",
		"":               "",
	} {
		if got := Field(o, sentence); got != want {
			t.Errorf("%q is about %q, want %q", sentence, got, want)
		}
	}
}
