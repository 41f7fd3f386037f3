package modules

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/chancery-gateway/chancery/snapshot"
	"github.com/chancery-gateway/chancery/wasm"
	"github.com/chancery-gateway/chancery/wasm/abi"
	"github.com/chancery-gateway/chancery/wasm/fault"
)

// KindTranslator is the kind of the objects that configure a module.
var KindTranslator = snapshot.GroupKind{Group: groupChancery, Kind: "Translator"}

// full is what a module in the operator's own folder gets when its document grants nothing itself: what its manifest asks for.
var full = wasm.Grant{Phases: []abi.Phase{abi.Lower, abi.IR, abi.XDS}, Reads: []string{"*"}, Writes: []abi.Scope{{Kind: "*"}}, Namespaces: []string{"*"}}

// specs are what is configured, by where it comes from.
type specs struct {
	folder     []wasm.Spec
	folderErrs map[string]error
	objects    []wasm.Spec
	// about are the Translator objects by the name of their module, errs what is wrong with them.
	about map[string]*snapshot.Object
	errs  map[string]error
	// hosted are what the host has against them.
	hosted map[string]error
	seen   []*snapshot.Object
	// wanted is what the host was given last.
	wanted []wasm.Spec
	begun  bool
}

// Take makes the Translator objects of the snapshot the wanted state, with the modules of the folder. The work goes on in the background.
// It reports whether anything differs from last time.
func (m *Modules) Take(s *snapshot.Snapshot) bool {
	var now []*snapshot.Object
	for o := range s.List(KindTranslator) {
		now = append(now, o)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.specs.begun && slices.Equal(now, m.specs.seen) {
		return false
	}
	if m.options.Folder != "" && !m.specs.begun {
		m.readFolder()
	}
	m.specs.seen, m.specs.begun = now, true
	m.specs.objects, m.specs.about, m.specs.errs = nil, map[string]*snapshot.Object{}, map[string]error{}
	for _, o := range now {
		name := o.Namespace + "/" + o.Name
		m.specs.about[name] = o
		spec, err := m.spec(name, o)
		if err != nil {
			m.specs.errs[name] = err
			if spec.Source == nil {
				if last := m.lastSpec(name); last != nil { // an earlier form goes on
					m.specs.objects = append(m.specs.objects, *last)
				}
			}
			continue
		}
		m.specs.objects = append(m.specs.objects, spec)
	}
	m.apply()
	return true
}

func (m *Modules) lastSpec(name string) *wasm.Spec {
	for _, s := range m.specs.wanted {
		if s.Name == name {
			return &s
		}
	}
	return nil
}

// spec reads a Translator object.
func (m *Modules) spec(name string, o *snapshot.Object) (wasm.Spec, error) {
	if !slices.Contains(m.options.Namespaces, o.Namespace) {
		return wasm.Spec{Name: name}, fault.New(fault.Spec, "metadata.namespace: Translators of namespace %s do not speak for the platform; right is %s",
			o.Namespace, strings.Join(m.options.Namespaces, " or "))
	}
	if o.APIVersion != groupChancery+"/v1alpha1" {
		return wasm.Spec{Name: name}, fault.New(fault.Spec, "apiVersion: %q is not known; right is %s/v1alpha1", o.APIVersion, groupChancery)
	}
	var doc struct {
		Spec json.RawMessage `json:"spec"`
	}
	if err := json.Unmarshal(o.Raw, &doc); err != nil || len(doc.Spec) == 0 {
		return wasm.Spec{Name: name}, fault.New(fault.Spec, "spec: it is required")
	}
	dir := filepath.Dir(o.Source.Position.File)
	if o.Source.Position.File == "" {
		dir = "."
	}
	s, err := wasm.ParseSpec(name, doc.Spec, dir)
	if err == nil && s.Source == nil {
		err = fault.New(fault.Spec, "source: one of file, oci and http is required")
	}
	return s, err
}

// readFolder reads the folder. The mutex is held.
func (m *Modules) readFolder() {
	found, errs, err := wasm.Folder{Dir: m.options.Folder, Grant: full}.Specs()
	if err != nil {
		m.specs.folderErrs = map[string]error{filepath.Base(m.options.Folder): err}
		return
	}
	m.folderSpecs(found, errs)
}

func (m *Modules) folderSpecs(found []wasm.Spec, errs map[string]error) {
	for name := range errs { // an earlier form goes on
		if last := m.lastSpec(name); last != nil {
			found = append(found, *last)
		}
	}
	m.specs.folder, m.specs.folderErrs = found, errs
}

// apply hands the wanted state to the host. The mutex is held.
func (m *Modules) apply() {
	m.specs.wanted = slices.Concat(m.options.Specs, m.specs.folder, m.specs.objects)
	if m.options.Once {
		for i := range m.specs.wanted {
			m.specs.wanted[i].Force = true
		}
	}
	m.specs.hosted = m.host.Apply(m.specs.wanted)
	m.host.Look()
}

// Settle waits until every module is live, refused, or waiting to be tried again.
func (m *Modules) Settle(ctx context.Context) error { return m.host.Settle(ctx) }

// Run watches the folder, and tells whenever there is something else to say of modules, until ctx ends.
func (m *Modules) Run(ctx context.Context, changed func([]snapshot.Diagnostic)) error {
	if m.options.Folder != "" {
		failed := make(chan error, 1)
		watching, end := context.WithCancel(ctx)
		defer end()
		go func() {
			failed <- wasm.Folder{Dir: m.options.Folder, Grant: full}.Watch(watching, func(found []wasm.Spec, errs map[string]error) {
				m.mu.Lock()
				defer m.mu.Unlock()
				m.folderSpecs(found, errs)
				m.specs.begun = true
				m.apply()
			})
		}()
		defer func() {
			end()
			if err := <-failed; err != nil {
				m.options.Log.Error("the folder of modules is not watched", "dir", m.options.Folder, "error", err.Error())
			}
		}()
	}
	var last []snapshot.Diagnostic
	tick := time.NewTicker(250 * time.Millisecond)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
		if now := m.Findings(); !slices.Equal(now, last) {
			last = now
			changed(now)
		}
	}
}

// fileOf returns the file that a fault of a module of the folder is in: what configures it, where that is wrong and there, else
// the module itself.
func (m *Modules) fileOf(name string, f *fault.Error) string {
	if m.specs.folderErrs[name] != nil && name == filepath.Base(m.options.Folder) {
		return m.options.Folder
	}
	path := filepath.Join(m.options.Folder, name)
	if f != nil && slices.Contains([]*snapshot.Code{fault.Spec, fault.Settings, fault.Grant, fault.Digest, fault.NoDigest}, f.Code) {
		if _, err := os.Stat(path + ".json"); err == nil {
			return path + ".json"
		}
	}
	return path + ".wasm"
}

// Findings returns what there is to say of modules that are not taken, and of what configures them.
func (m *Modules) Findings() []snapshot.Diagnostic {
	status := m.host.Status()
	m.mu.Lock()
	defer m.mu.Unlock()
	var out []snapshot.Diagnostic
	add := func(name string, code *snapshot.Code, message string, err error) {
		d := snapshot.Diagnostic{Severity: snapshot.Error, Code: code, Message: message}
		var f *fault.Error
		if errors.As(err, &f) && f.Code != nil {
			d.Help = f.Code.Cure
		}
		if o := m.specs.about[name]; o != nil {
			d = o.About(d.Severity, code, "spec", message, d.Help)
		} else {
			d.Position.File = m.fileOf(name, f)
		}
		out = append(out, d)
	}
	for _, errs := range []map[string]error{m.specs.folderErrs, m.specs.errs, m.specs.hosted} {
		for _, name := range slices.Sorted(maps.Keys(errs)) {
			add(name, codeSpec, "module "+name+": "+errs[name].Error(), errs[name])
		}
	}
	for _, s := range status {
		c := s.Candidate
		if c.Err == nil {
			continue
		}
		what := "a version"
		if c.Version != "" {
			what = "version " + c.Version
		}
		if c.Digest != nil {
			what += " (" + c.Digest.Short() + ")"
		}
		goes := "no version is live"
		if s.Live != nil {
			goes = fmt.Sprintf("version %s (%s) goes on", s.Live.Version, s.Live.Digest.Short())
		}
		add(s.Name, codeCandidate, fmt.Sprintf("module %s: %s is refused at %s: %s; %s", s.Name, what, c.Stage, c.Err, goes), c.Err)
	}
	return snapshot.SortDiagnostics(out)
}
