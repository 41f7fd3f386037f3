// Package istio is the source of one Secret: the certificate that Istio's agent keeps in a folder, cert-chain.pem with
// key.pem and, where it is there, root-cert.pem.
package istio

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"crypto/tls"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"time"

	"github.com/fsnotify/fsnotify"

	"github.com/chancery-gateway/chancery/snapshot"
)

// Name is the name of the Secret, which is Emissary's.
const Name = "istio-certs"

// The files.
const (
	chainFile = "cert-chain.pem"
	keyFile   = "key.pem"
	rootFile  = "root-cert.pem"
)

// Options say where the files are. Dir and Namespace are required.
type Options struct {
	// Dir is the folder; Namespace that of the Secret.
	Dir, Namespace string
	// Settle is how long the folder must be quiet before it is read, default 50 ms; Gone how long a file may be missing, or not
	// the other's, before that is believed, default 5 s: certificate and key are written one after the other.
	Settle, Gone time.Duration
	// Rescan is the time between two looks, for changes that the system did not announce; default 30 s.
	Rescan time.Duration
	Logger *slog.Logger
}

// Source delivers a snapshot with the Secret.
type Source struct {
	options Options
	last    *snapshot.Snapshot
	// since is when the files were last found to be no pair; zero while they are one.
	since time.Time
}

// New returns a source that has not begun.
func New(o Options) *Source {
	o.Settle, o.Gone, o.Rescan = cmp.Or(o.Settle, 50*time.Millisecond), cmp.Or(o.Gone, 5*time.Second), cmp.Or(o.Rescan, 30*time.Second)
	if o.Logger == nil {
		o.Logger = slog.Default()
	}
	return &Source{options: o, last: snapshot.Empty()}
}

// Resolve does nothing: the Secret stands in no manifest.
func (s *Source) Resolve([]snapshot.Diagnostic) {}

// Run delivers what is there at once, and then each change, until the context ends. A certificate is never delivered with a
// key that is not its own: while the two do not belong together, the last pair stays.
func (s *Source) Run(ctx context.Context, deliver func(*snapshot.Snapshot)) error {
	events := make(chan struct{}, 1)
	watcher, err := fsnotify.NewWatcher()
	if err != nil {
		s.options.Logger.Warn("Istio's folder cannot be watched; it is looked at each second", "error", err)
	} else {
		defer watcher.Close()
		go announce(watcher, events)
	}
	look := time.NewTimer(0)
	defer look.Stop()
	for first := true; ; first = false {
		select {
		case <-ctx.Done():
			return nil
		case <-events:
			if !first {
				look.Reset(s.options.Settle)
				continue
			}
		case <-look.C:
		}
		blind := watcher == nil || watcher.Add(s.options.Dir) != nil // again, since the folder may be another one now
		if changed := s.read(time.Now()); changed || first {
			deliver(s.last)
		}
		switch wait := s.options.Rescan; {
		case !s.since.IsZero() || blind:
			look.Reset(min(wait, time.Second, max(s.options.Gone/4, 10*time.Millisecond)))
		default:
			look.Reset(wait)
		}
	}
}

// announce passes on that something happened, until the watcher is closed.
func announce(w *fsnotify.Watcher, events chan<- struct{}) {
	for {
		select {
		case _, open := <-w.Events:
			if !open {
				return
			}
		case _, open := <-w.Errors:
			if !open {
				return
			}
		}
		select {
		case events <- struct{}{}:
		default:
		}
	}
}

// read looks at the files and derives the next snapshot.
func (s *Source) read(now time.Time) (changed bool) {
	ref := snapshot.Ref{Kind: snapshot.KindSecret.Kind, Namespace: s.options.Namespace, Name: Name}
	before := s.last.Get(ref.GroupKind(), ref.Namespace, ref.Name)
	data, err := s.pair()
	if err == nil {
		s.since = time.Time{}
		if o := secret(ref, data); before == nil || before.Hash != o.Hash {
			s.last, changed = s.last.Advance([]*snapshot.Object{o}, nil, nil)
		} else {
			s.last, changed = s.last.Advance(nil, nil, nil)
		}
		return changed
	}
	if s.since.IsZero() {
		s.since = now
	}
	if before != nil && now.Sub(s.since) < s.options.Gone {
		return false // they are being written, perhaps
	}
	finding := snapshot.Diagnostic{Severity: snapshot.Warning, Code: codeBroken, Object: ref, APIVersion: "v1", Message: reason(err)}
	if _, err := os.Stat(s.options.Dir); err != nil {
		finding.Code, finding.Message = codeFolder, "folder "+s.options.Dir+": "+reason(err)
	}
	var remove []snapshot.Ref
	switch {
	case before == nil:
	case errors.Is(err, fs.ErrNotExist):
		remove = append(remove, ref)
	default:
		finding.Severity, finding.Message = snapshot.Error, finding.Message+"; the last good pair stays in force"
	}
	finding.Help = finding.Code.Cure
	s.last, changed = s.last.Advance(nil, remove, []snapshot.Diagnostic{finding})
	return changed
}

// pair reads the files. The error says why they are no pair.
func (s *Source) pair() (map[string][]byte, error) {
	data := map[string][]byte{}
	for _, f := range []struct{ file, key string }{{chainFile, "tls.crt"}, {keyFile, "tls.key"}, {rootFile, "root-cert.pem"}} {
		text, err := os.ReadFile(filepath.Join(s.options.Dir, f.file))
		if f.file == rootFile && errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, err
		}
		if len(bytes.TrimSpace(text)) == 0 {
			return nil, fmt.Errorf("%s is empty", f.file)
		}
		data[f.key] = text
	}
	if _, err := tls.X509KeyPair(data["tls.crt"], data["tls.key"]); err != nil {
		return nil, fmt.Errorf("%s and %s are no pair: %w", chainFile, keyFile, err)
	}
	return data, nil
}

// secret makes the object.
func secret(ref snapshot.Ref, data map[string][]byte) *snapshot.Object {
	h := sha256.New()
	for _, key := range []string{"tls.crt", "tls.key", "root-cert.pem"} {
		fmt.Fprintf(h, "%s %d ", key, len(data[key]))
		h.Write(data[key])
	}
	return &snapshot.Object{
		Ref: ref, APIVersion: "v1", Spec: &snapshot.Secret{Type: "kubernetes.io/tls", Data: data}, Hash: snapshot.Hash(h.Sum(nil)[:16]),
	}
}

// reason is an error's text without the words of the system call.
func reason(err error) string {
	var path *fs.PathError
	if errors.As(err, &path) {
		return filepath.Base(path.Path) + ": " + path.Err.Error()
	}
	return err.Error()
}
