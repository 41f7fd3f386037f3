package index

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"

	"github.com/open-policy-agent/opa/v1/ast"
	"github.com/open-policy-agent/opa/v1/storage"
)

// Reading is one evaluation's look at the data: a storage.Transaction that knows for whom it reads and notes what was read.
type Reading struct {
	// Tenant is "" for the platform, which sees everything, else the tenant whose entries alone are seen.
	Tenant string
	// Keys are the entries that were read, in order, with repetitions.
	Keys []Key
}

// ID is there for storage.Transaction.
func (r *Reading) ID() uint64 { return 0 }

// Store hands the index, and the data that came with the policies, to rules. It is read-only.
type Store struct {
	storage.WritesNotSupported
	storage.PolicyNotSupported
	index *Index
	// base is the data of bundles; nil for none. Tenants do not see it.
	base ast.Object
	mu   sync.Mutex // guards index.whole
}

// NewStore returns a store over the index and over base, the data of bundles, which may be nil.
func NewStore(x *Index, base ast.Object) *Store { return &Store{index: x, base: base} }

// NewTransaction returns a reading for the platform.
func (s *Store) NewTransaction(context.Context, ...storage.TransactionParams) (storage.Transaction, error) {
	return &Reading{}, nil
}

// Commit and Abort have nothing to do.
func (s *Store) Commit(context.Context, storage.Transaction) error { return nil }

// Abort has nothing to do.
func (s *Store) Abort(context.Context, storage.Transaction) {}

// Truncate is not supported.
func (s *Store) Truncate(context.Context, storage.Transaction, storage.TransactionParams, storage.Iterator) error {
	return errors.New("the index is read-only")
}

// Register is not supported; nothing is ever triggered.
func (s *Store) Register(context.Context, storage.Transaction, storage.TriggerConfig) (storage.TriggerHandle, error) {
	return nil, errors.New("the index has no triggers")
}

var notFound = &storage.Error{Code: storage.NotFoundErr}

// Read returns the document at the path as an ast.Value.
func (s *Store) Read(_ context.Context, t storage.Transaction, path storage.Path) (any, error) {
	r, ok := t.(*Reading)
	if !ok {
		return nil, errors.New("a foreign transaction")
	}
	if len(path) >= 2 && path[0] == "chancery" && path[1] == "index" {
		return s.read(r, path[2:])
	}
	if len(path) == 0 || len(path) == 1 && path[0] == "chancery" {
		all, err := s.read(r, nil)
		if err != nil {
			return nil, err
		}
		doc := ast.NewObject(ast.Item(ast.StringTerm("index"), ast.NewTerm(all)))
		if len(path) == 1 {
			return doc, nil
		}
		doc = ast.NewObject(ast.Item(ast.StringTerm("chancery"), ast.NewTerm(doc)))
		if s.base != nil && r.Tenant == "" {
			s.base.Foreach(func(k, v *ast.Term) { doc.Insert(k, v) })
		}
		return doc, nil
	}
	if s.base == nil || r.Tenant != "" {
		return nil, notFound
	}
	return within(s.base, path)
}

func (s *Store) read(r *Reading, path storage.Path) (ast.Value, error) {
	if len(path) == 0 {
		doc := ast.NewObject()
		for _, name := range Tables {
			v, err := s.read(r, storage.Path{name})
			if err != nil {
				return nil, err
			}
			doc.Insert(ast.StringTerm(name), ast.NewTerm(v))
		}
		return doc, nil
	}
	table, ok := s.index.tables[path[0]]
	if !ok {
		return nil, notFound
	}
	if len(path) == 1 {
		r.Keys = append(r.Keys, Key{Table: path[0]})
		return s.table(path[0], table, r.Tenant), nil
	}
	r.Keys = append(r.Keys, Key{path[0], path[1]})
	v, ok := table[path[1]]
	if !ok {
		return nil, notFound
	}
	if r.Tenant != "" {
		if v = s.index.visible(path[0], path[1], v, r.Tenant); v == nil {
			return nil, notFound
		}
	}
	return within(v, path[2:])
}

// table returns a whole table; the platform's is kept until the table changes.
func (s *Store) table(name string, entries map[string]ast.Value, tenant string) ast.Value {
	s.mu.Lock()
	defer s.mu.Unlock()
	if tenant == "" {
		if v := s.index.whole[name]; v != nil {
			return v
		}
	}
	doc := ast.NewObject()
	for k, v := range entries {
		if tenant != "" {
			if v = s.index.visible(name, k, v, tenant); v == nil {
				continue
			}
		}
		doc.Insert(ast.StringTerm(k), ast.NewTerm(v))
	}
	doc.Hash() // before it is shared
	if tenant == "" {
		s.index.whole[name] = doc
	}
	return doc
}

// visible returns what the tenant sees of an entry, nil for nothing: what is its own, and grants that name its namespaces.
func (x *Index) visible(table, name string, v ast.Value, tenant string) ast.Value {
	field := func(t *ast.Term, name string) string {
		if o, ok := t.Value.(ast.Object); ok {
			if f := o.Get(ast.StringTerm(name)); f != nil {
				if s, ok := f.Value.(ast.String); ok {
					return string(s)
				}
			}
		}
		return ""
	}
	filter := func(keep func(*ast.Term) bool) ast.Value {
		list, ok := v.(*ast.Array)
		if !ok {
			return nil
		}
		var own []*ast.Term
		list.Foreach(func(t *ast.Term) {
			if keep(t) {
				own = append(own, t)
			}
		})
		return listOrNil(own)
	}
	switch table {
	case Counts, Tenants:
		if name == tenant {
			return v
		}
	case Services, Namespaces:
		if field(ast.NewTerm(v), "tenant") == tenant {
			return v
		}
	case Hosts:
		return filter(func(t *ast.Term) bool { return field(t, "tenant") == tenant })
	case Grants:
		if x.tenancy.Name(name) == tenant {
			return v
		}
		own := x.tenancy.Namespaces(tenant)
		return filter(func(t *ast.Term) bool {
			o, ok := t.Value.(ast.Object)
			if !ok {
				return false
			}
			from := o.Get(ast.StringTerm("from"))
			if from == nil {
				return false
			}
			list, ok := from.Value.(*ast.Array)
			return ok && list.Until(func(f *ast.Term) bool { return slices.Contains(own, field(f, "namespace")) })
		})
	case Ranks:
		if parts := strings.Split(name, "/"); len(parts) == 3 && x.tenancy.Name(parts[1]) == tenant {
			return v
		}
	}
	return nil
}

// within walks down a value.
func within(v ast.Value, path storage.Path) (ast.Value, error) {
	for _, step := range path {
		o, ok := v.(ast.Object)
		if !ok {
			return nil, notFound
		}
		next := o.Get(ast.StringTerm(step))
		if next == nil {
			return nil, notFound
		}
		v = next.Value
	}
	return v, nil
}
