package wasm

import (
	"context"
	"errors"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/fsnotify/fsnotify"

	"github.com/chancery-gateway/chancery/wasm/fault"
	"github.com/chancery-gateway/chancery/wasm/source"
)

// Folder is a folder of modules: every NAME.wasm in it is one, NAME.json beside it is its Document (without a source),
// NAME.wasm.sig its signature.
type Folder struct {
	Dir string
	// Grant is what modules get whose document grants nothing itself, or that have none.
	Grant Grant
}

const (
	// folderQuiet is how long a folder has to be quiet after a change before it is read.
	folderQuiet = 100 * time.Millisecond
	maxDocument = 1 << 20
)

// Specs reads the folder. Documents that can't be read are reported by the module's name; the module is then left out.
func (f Folder) Specs() ([]Spec, map[string]error, error) {
	entries, err := os.ReadDir(f.Dir) // sorted by name
	if err != nil {
		return nil, nil, fault.Retry(fault.Fetch, "%w", err)
	}
	var specs []Spec
	errs := map[string]error{}
	for _, e := range entries {
		name, isModule := strings.CutSuffix(e.Name(), ".wasm")
		if !isModule || strings.HasPrefix(name, ".") || name == "" {
			continue
		}
		s, err := f.spec(name)
		if err != nil {
			errs[name] = err
			continue
		}
		specs = append(specs, s)
	}
	return specs, errs, nil
}

func (f Folder) spec(name string) (Spec, error) {
	s := Spec{Name: name, Grant: f.Grant}
	path := filepath.Join(f.Dir, name+".json")
	info, err := os.Stat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
	case err != nil:
		return s, fault.Retry(fault.Fetch, "%w", err)
	case !info.Mode().IsRegular() || info.Size() > maxDocument:
		return s, fault.New(fault.Spec, "%s is no regular file of at most %d bytes", path, maxDocument)
	default:
		text, err := os.ReadFile(path)
		if err != nil {
			return s, fault.Retry(fault.Fetch, "%w", err)
		}
		if s, err = ParseSpec(name, text, f.Dir); err != nil {
			return s, err
		}
		if s.Source != nil {
			return s, fault.New(fault.Spec, "%s: source: the module is %s.wasm beside it", path, name)
		}
		if len(s.Grant.Phases) == 0 {
			s.Grant = f.Grant
		}
	}
	s.Source = source.File{Path: filepath.Join(f.Dir, name+".wasm")}
	return s, nil
}

// Watch calls changed at once, and whenever something in the folder changed, until ctx ends. Changes that come together
// are one. It returns an error when the folder can't be watched.
func (f Folder) Watch(ctx context.Context, changed func(specs []Spec, errs map[string]error)) error {
	w, err := fsnotify.NewWatcher()
	if err != nil {
		return fault.New(fault.Fetch, "%w", err)
	}
	defer w.Close()
	if err := w.Add(f.Dir); err != nil {
		return fault.New(fault.Fetch, "%w", err)
	}
	read := func() {
		specs, errs, err := f.Specs()
		if err != nil { // gone for the moment; what runs goes on
			slog.Warn("folder of modules not read", "dir", f.Dir, "error", err.Error())
			return
		}
		changed(specs, errs)
	}
	read()
	quiet := time.NewTimer(time.Hour)
	quiet.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case _, ok := <-w.Events:
			if !ok {
				return nil
			}
			quiet.Reset(folderQuiet)
		case err := <-w.Errors:
			slog.Warn("watching a folder of modules", "dir", f.Dir, "error", err)
			quiet.Reset(folderQuiet)
		case <-quiet.C:
			read()
		}
	}
}

// Follow keeps the host's modules equal to the folder's, together with more specs from elsewhere, until ctx ends. report
// takes the errors of the folder's documents; nil ignores them.
func (h *Host) Follow(ctx context.Context, f Folder, more []Spec, report func(map[string]error)) error {
	return f.Watch(ctx, func(specs []Spec, errs map[string]error) {
		for name, err := range h.Apply(append(specs, more...)) {
			errs[name] = err
		}
		h.Look()
		if report != nil {
			report(errs)
		}
	})
}
