package files

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/chancery-gateway/chancery/snapshot"
	"github.com/chancery-gateway/chancery/snapshot/manifest"
)

// stdinName is what positions call the standard input.
const stdinName = "<stdin>"

// stamp tells, without reading a file, whether it may have changed.
type stamp struct {
	size  int64
	mod   time.Time
	inode uint64
}

// listing is what a walk finds.
type listing struct {
	// files are the manifests by the name that positions give them.
	files map[string]stamp
	// failed are files that are there but cannot be opened, and roots that are gone.
	failed map[string]error
	// dirs are all folders whose changes matter: those walked, and those that links lead to.
	dirs map[string]bool
	// empty are the roots that are folders without a manifest, held those of them that took the place of one with manifests.
	empty []string
	held  map[string]bool
	// roots tells one folder from another that takes its place, by root.
	roots map[string]identity
}

// errIrregular is about what has the name of a manifest and would be read forever.
var errIrregular = errors.New("it is a pipe, socket or device, not a file")

// walk lists the manifests below the roots: each root that is a file, and in each folder every .yaml, .yml and .json
// file, however deep. Names that start with a dot are left out, and with them the folders that Kubernetes makes in a
// ConfigMap mount (..data, ..2024_...): the links that stand beside these are followed.
func walk(roots []string) *listing {
	l := &listing{files: map[string]stamp{}, failed: map[string]error{}, dirs: map[string]bool{}, held: map[string]bool{}, roots: map[string]identity{}}
	for _, root := range roots {
		root = filepath.Clean(root)
		info, err := os.Stat(root)
		switch {
		case err != nil:
			l.failed[root] = err
			l.dirs[filepath.Dir(root)] = true
		case info.IsDir():
			l.roots[root] = identify(info)
			had := len(l.files) + len(l.failed)
			if l.dir(root, nil); len(l.files)+len(l.failed) == had {
				l.empty = append(l.empty, root)
			}
		default:
			l.dirs[filepath.Dir(root)] = true
			l.file(root, info)
		}
	}
	return l
}

// has reports whether the listing names the file.
func (l *listing) has(name string) bool {
	_, there := l.files[name]
	return there || l.failed[name] != nil
}

// rootError returns the error of the first root that cannot be opened.
func (l *listing) rootError(roots []string) error {
	for _, root := range roots {
		if err := l.failed[filepath.Clean(root)]; err != nil {
			return err
		}
	}
	return nil
}

// dir lists one folder; above are the real names of the folders on the way, which a link must not lead back to.
func (l *listing) dir(name string, above []string) {
	real, err := filepath.EvalSymlinks(name)
	if err != nil {
		l.failed[name] = err
		return
	}
	if slices.Contains(above, real) {
		return
	}
	entries, err := os.ReadDir(name)
	if err != nil {
		l.failed[name] = err
		return
	}
	l.dirs[name] = true
	for _, e := range entries {
		if strings.HasPrefix(e.Name(), ".") {
			continue
		}
		path := filepath.Join(name, e.Name())
		info, err := e.Info()
		if err == nil && info.Mode()&fs.ModeSymlink != 0 {
			info, err = os.Stat(path)
		}
		switch {
		case err != nil:
			if manifestName(path) && !(errors.Is(err, fs.ErrNotExist) && e.Type()&fs.ModeSymlink == 0) {
				l.failed[path] = err
			}
		case info.IsDir():
			l.dir(path, append(slices.Clip(above), real))
		case !manifestName(path):
		case info.Mode().IsRegular():
			l.file(path, info)
		default:
			l.failed[path] = errIrregular
		}
	}
}

func (l *listing) file(path string, info fs.FileInfo) {
	l.files[path] = stamp{size: info.Size(), mod: info.ModTime(), inode: inode(info)}
	if real, err := filepath.EvalSymlinks(path); err == nil && filepath.Dir(real) != filepath.Dir(path) {
		l.dirs[filepath.Dir(real)] = true
	}
}

func manifestName(path string) bool {
	switch strings.ToLower(filepath.Ext(path)) {
	case ".yaml", ".yml", ".json":
		return true
	}
	return false
}

// read returns a file's bytes, or the reason why there are none as a diagnostic.
func read(name string) ([]byte, *snapshot.Diagnostic) {
	f, err := os.Open(name)
	if err != nil {
		return nil, unreadable(name, err)
	}
	defer f.Close()
	return readAll(name, f)
}

func readAll(name string, r io.Reader) ([]byte, *snapshot.Diagnostic) {
	size := int64(512)
	if f, ok := r.(*os.File); ok {
		if info, err := f.Stat(); err == nil {
			size = info.Size()
		}
	}
	if size > manifest.MaxFile {
		size = manifest.MaxFile + 1 // one byte more than is read of any file tells that it is too big
	}
	data := make([]byte, 0, size+1)
	for {
		n, err := r.Read(data[len(data):cap(data)])
		data = data[:len(data)+n]
		if err == io.EOF {
			return data, nil
		}
		if err != nil {
			return nil, unreadable(name, err)
		}
		if len(data) > manifest.MaxFile {
			return data, nil
		}
		if len(data) == cap(data) {
			data = slices.Grow(data, len(data))
		}
	}
}

func unreadable(name string, err error) *snapshot.Diagnostic {
	var path *fs.PathError
	if errors.As(err, &path) {
		err = path.Err
	}
	help := "check that it exists and that its permissions allow reading"
	if errors.Is(err, errIrregular) {
		help = "give its path by itself, or remove it from the folder"
	}
	return &snapshot.Diagnostic{Severity: snapshot.Error, Code: codeUnreadable, Position: snapshot.Position{File: name},
		Message: fmt.Sprintf("the file cannot be read: %v", err), Help: help}
}

// notes says of the roots that hold no manifest.
func (l *listing) notes() []snapshot.Diagnostic {
	var out []snapshot.Diagnostic
	for _, root := range l.empty {
		d := nothing(root, "the folder holds no .yaml, .yml or .json file")
		if l.held[root] {
			d = snapshot.Diagnostic{Severity: snapshot.Error, Code: codeEmptied, Position: snapshot.Position{File: root},
				Message: "the folder was replaced by an empty one; what it held stays in force", Help: "bring the manifests back; to take all away, put an empty none.yaml into it"}
		}
		out = append(out, d)
	}
	return out
}

func nothing(name, message string) snapshot.Diagnostic {
	return snapshot.Diagnostic{Severity: snapshot.Warning, Code: codeNothing, Position: snapshot.Position{File: name}, Message: message, Help: "see whether the path is right"}
}
