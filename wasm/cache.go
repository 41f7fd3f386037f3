package wasm

import (
	"encoding/hex"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"runtime/debug"
	"sync"
	"syscall"
	"time"

	"github.com/chancery-gateway/chancery/wasm/fault"
	"github.com/chancery-gateway/chancery/wasm/fuel"
)

// cache keeps what outlives the process: compiled code, fetched modules by digest, and the highest version of each
// module that was promoted. What is in it is executed, so it must belong to this user alone. A cache without folder
// keeps the versions in memory, and nothing else.
type cache struct {
	dir string
	now func() time.Time

	mu       sync.Mutex
	promoted map[string]string
}

func openCache(dir string, clock func() time.Time) (*cache, error) {
	c := &cache{dir: dir, now: clock, promoted: map[string]string{}}
	if dir == "" {
		return c, nil
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fault.New(fault.Cache, "%w", err)
	}
	info, err := os.Lstat(dir)
	if err != nil {
		return nil, fault.New(fault.Cache, "%w", err)
	}
	if !info.IsDir() || info.Mode().Perm() != 0o700 {
		return nil, fault.New(fault.Cache, "%s is no folder of mode 0700 (it is %v)", dir, info.Mode())
	}
	if st, ok := info.Sys().(*syscall.Stat_t); ok && int(st.Uid) != os.Geteuid() {
		return nil, fault.New(fault.Cache, "%s belongs to user %d", dir, st.Uid)
	}
	if text, err := os.ReadFile(c.promotedFile()); err == nil {
		if err := json.Unmarshal(text, &c.promoted); err != nil {
			return nil, fault.New(fault.Cache, "%s: %w", c.promotedFile(), err)
		}
	}
	c.prune(clock())
	return c, nil
}

// unused is how long what nobody used is kept.
const unused = 30 * 24 * time.Hour

// prune removes code and modules that were not used for long: versions that were replaced, and what other versions of the
// pass or of wazero compiled. What can't be removed is found again next time.
func (c *cache) prune(now time.Time) {
	for _, pattern := range []string{"code/*/*", "modules/*"} {
		all, _ := filepath.Glob(filepath.Join(c.dir, pattern)) // the pattern is sound
		for _, path := range all {
			if info, err := os.Lstat(path); err == nil && now.Sub(info.ModTime()) > unused {
				_ = os.RemoveAll(path)
			}
		}
	}
}

// used notes that a file or folder was used.
func (c *cache) used(paths ...string) {
	for _, p := range paths {
		_ = os.Chtimes(p, time.Time{}, c.now()) // one that is not there yet is new
	}
}

func (c *cache) promotedFile() string { return filepath.Join(c.dir, "promoted.json") }

// wazeroVersion is the version of wazero that this program was built with.
var wazeroVersion = sync.OnceValue(func() string {
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, d := range info.Deps {
			if d.Path == "github.com/tetratelabs/wazero" {
				return d.Version
			}
		}
	}
	return "unknown"
})

// codeDir returns the folder for compiled code of one module, or "": wazero takes it for its own. The key holds the
// original digest, the limit of pages, and the versions of the metering pass and of wazero.
func (c *cache) codeDir(k codeKey) string {
	if c.dir == "" || k.guard == GuardInterpreter {
		return ""
	}
	dir := filepath.Join(c.dir, "code", fmt.Sprintf("pass%s-wazero%s", fuel.PassVersion, wazeroVersion()),
		fmt.Sprintf("%s-%d-%s", hex.EncodeToString(k.digest[:]), k.pages, k.guard))
	c.used(dir)
	return dir
}

func (c *cache) moduleFile(d Digest) string {
	return filepath.Join(c.dir, "modules", hex.EncodeToString(d[:])+".wasm")
}

// load returns a module that was fetched before, with its signature, or nil. The digest is checked again.
func (c *cache) load(d Digest) (module, signature []byte) {
	if c.dir == "" {
		return nil, nil
	}
	module, err := os.ReadFile(c.moduleFile(d))
	if err != nil || DigestOf(module) != d {
		return nil, nil
	}
	signature, _ = os.ReadFile(c.moduleFile(d) + ".sig")
	c.used(c.moduleFile(d), c.moduleFile(d)+".sig")
	return module, signature
}

// store keeps a fetched module. That it can't be kept is no failure: it will be fetched again.
func (c *cache) store(d Digest, module, signature []byte) error {
	if c.dir == "" {
		return nil
	}
	path := c.moduleFile(d)
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return err
	}
	if len(signature) > 0 {
		if err := writeFile(path+".sig", signature); err != nil {
			return err
		}
	}
	return writeFile(path, module)
}

// writeFile writes a file as a whole or not at all.
func writeFile(path string, data []byte) error {
	f, err := os.CreateTemp(filepath.Dir(path), ".new-*")
	if err != nil {
		return err
	}
	_, err = f.Write(data)
	if closing := f.Close(); err == nil {
		err = closing
	}
	if err == nil {
		err = os.Rename(f.Name(), path)
	}
	if err != nil {
		os.Remove(f.Name())
	}
	return err
}

// highest returns the highest version of the module that was ever promoted, or "".
func (c *cache) highest(name string) string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.promoted[name]
}

// raise notes a promotion.
func (c *cache) raise(name, promoted string) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	next, _ := parseVersion(promoted)
	if before, ok := parseVersion(c.promoted[name]); ok && next.compare(before) <= 0 {
		return nil
	}
	c.promoted[name] = promoted
	if c.dir == "" {
		return nil
	}
	text, err := json.MarshalIndent(c.promoted, "", "  ")
	if err != nil {
		return err
	}
	return writeFile(c.promotedFile(), append(text, '\n'))
}
