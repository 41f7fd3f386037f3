// Package proof asks Envoy itself: `envoy --mode validate` over a whole static configuration, and which source objects
// a text of Envoy's is about.
package proof

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/chancery-gateway/chancery/snapshot"
	"github.com/chancery-gateway/chancery/translators/ir"
)

// The findings of this stage.
var (
	// Refused is Envoy's verdict over a whole configuration.
	Refused = snapshot.NewCode("CH-PROOF-001", "Envoy refuses the configuration",
		"Everything passed Chancery's own rules, but `envoy --mode validate` says no. Envoy names its first objection only.",
		"Change the object that the message names. If it names none, take out what was added last. A configuration that Chancery lets through and Envoy refuses is a fault of Chancery's: please report it.")
	// NotAccepted is a response that a running Envoy refused (NACK).
	NotAccepted = snapshot.NewCode("CH-PROOF-002", "a running Envoy refuses a resource",
		"Envoy answered an update with an error. It goes on with what it had before.",
		"Change the object that is named, by what Envoy's text says.")
	// Outdated is an Envoy that is older than what Chancery writes for.
	Outdated = snapshot.NewCode("CH-PROOF-003", "Envoy is too old",
		"Chancery writes configuration for Envoy 1.36 and later; an older one refuses or ignores parts of it.",
		"Install a newer Envoy.")
)

// Validate runs `envoy --mode validate` over a static configuration (JSON). refusal is Envoy's sentence, "" when it takes
// the configuration. The error is set when Envoy itself did not work. dir holds the file, which only its owner can read, meanwhile.
func Validate(ctx context.Context, envoy string, static []byte, dir string) (refusal string, err error) {
	sweep(dir)
	f, err := os.CreateTemp(dir, files) // mode 0600: it holds keys
	if err != nil {
		return "", err
	}
	defer f.Close() // and with it the lock
	defer os.Remove(f.Name())
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX); err != nil {
		return "", fmt.Errorf("lock %s: %w", f.Name(), err)
	}
	if _, err := f.Write(static); err != nil {
		return "", err
	}
	var out bytes.Buffer
	cmd := exec.CommandContext(ctx, envoy, "--mode", "validate", "-c", f.Name(), "-l", "error", "--log-format", "%v", "--concurrency", "1", "--disable-hot-restart")
	cmd.Stdout, cmd.Stderr = &out, &out
	err = cmd.Run()
	if err == nil {
		return "", nil
	}
	if ctx.Err() != nil {
		return "", context.Cause(ctx)
	}
	var exit *exec.ExitError
	if !errors.As(err, &exit) {
		return "", fmt.Errorf("%s --mode validate: %w", envoy, err)
	}
	text := sentence(out.String(), f.Name())
	if exit.ExitCode() != 1 || text == "" {
		return "", fmt.Errorf("%s --mode validate: %w: %s", envoy, err, text)
	}
	return text, nil
}

// files is the pattern of the files that Envoy is shown, fresh the age below which one may not be locked yet.
const (
	files = "chancery-validate-*.json"
	fresh = 10 * time.Second
)

// sweep removes files of ours whose process was killed: nobody holds their lock any more.
func sweep(dir string) {
	found, err := filepath.Glob(filepath.Join(dir, files))
	if err != nil {
		return // a folder with signs of a pattern in its name
	}
	for _, name := range found {
		info, err := os.Lstat(name)
		if err != nil || !info.Mode().IsRegular() || time.Since(info.ModTime()) < fresh {
			continue
		}
		if s, ok := info.Sys().(*syscall.Stat_t); !ok || int(s.Uid) != os.Geteuid() {
			continue
		}
		f, err := os.Open(name)
		if err != nil {
			continue
		}
		if syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB) == nil {
			os.Remove(name) // best effort
		}
		f.Close()
	}
}

// sentence takes Envoy's objection out of its output.
func sentence(out, file string) string {
	out = strings.TrimSpace(out)
	if _, after, found := strings.Cut(out, "error initializing configuration '"+file+"': "); found {
		out = after
	}
	out = strings.ReplaceAll(out, file, filepath.Base(file))
	out = strings.Join(strings.Fields(out), " ")
	if strings.Contains(out, "PRIVATE KEY") {
		return "(the text holds a private key and is left out)"
	}
	if len(out) > 2000 {
		out = out[:2000] + " ..."
	}
	return out
}

var word = regexp.MustCompile(`[A-Za-z0-9_][A-Za-z0-9_./:*+-]*`)

// About returns the source objects that a text of Envoy's is about: the origins of the resources that it names. It
// returns nil when it names none.
func About(text string, set ir.ResourceSet) []ir.Origin {
	words := map[string]bool{}
	for _, w := range word.FindAllString(text, -1) {
		words[w], words[strings.TrimRight(w, ".:")] = true, true
	}
	var origins []ir.Origin
	for _, resources := range set {
		for _, r := range resources {
			if words[r.Name] || strings.ContainsAny(r.Name, " '\"") && strings.Contains(text, r.Name) {
				origins = append(origins, r.Origins...)
			}
		}
	}
	slices.SortFunc(origins, ir.Origin.Compare)
	return slices.Compact(origins)
}

// Diagnostics returns one error for each object, or one without an object when there is none.
func Diagnostics(code *snapshot.Code, text, help string, origins []ir.Origin, s *snapshot.Snapshot) []snapshot.Diagnostic {
	var ds []snapshot.Diagnostic
	for _, ref := range origins {
		d := snapshot.Diagnostic{Severity: snapshot.Error, Code: code, Object: ref, Message: text, Help: help}
		if o := s.Get(ref.GroupKind(), ref.Namespace, ref.Name); o != nil {
			d = o.About(snapshot.Error, code, "", text, help)
		}
		ds = append(ds, d)
	}
	if len(ds) == 0 {
		ds = []snapshot.Diagnostic{{Severity: snapshot.Error, Code: code, Message: text, Help: help}}
	}
	return ds
}
