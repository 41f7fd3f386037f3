package validator

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"encoding/gob"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"sync"

	"github.com/chancery-gateway/chancery/translators/ir"
)

// key is the content of a unit, and of everything else that a verdict depends on, as a hash.
type key [16]byte

// cache keeps verdicts: in memory, and on disk between runs. context stands for Envoy's version and flags: verdicts of another
// context are no verdicts.
type cache struct {
	context [32]byte
	path    string // "" for no file

	mu sync.Mutex
	// young and old hold texts, "" for accepted; what is asked for stays young.
	young, old map[key]string
	volatile   map[key]bool // never written
	dirty      bool
}

// generation is how many verdicts are kept, at least; twice as many at most.
const generation = 100_000

const cacheMagic = "chancery verdicts 1\n"

func newCache(path string, context [32]byte) *cache {
	return &cache{context: context, path: path, young: map[key]string{}, old: map[key]string{}, volatile: map[key]bool{}}
}

func (c *cache) key(u *ir.Unit) key { return c.keyOf(u.Kind, u.Frame, u.Value) }

// keyOf is the key of what Envoy is shown in place of a value.
func (c *cache) keyOf(kind ir.UnitKind, frame, value []byte) key {
	h := sha256.New()
	h.Write(c.context[:])
	var size [8]byte
	binary.LittleEndian.PutUint64(size[:], uint64(len(frame)))
	h.Write(append(size[:], kind...))
	h.Write(frame)
	h.Write(value)
	return key(h.Sum(nil)[:16])
}

func (c *cache) get(k key) (text string, known bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if text, known = c.young[k]; known {
		return text, true
	}
	if text, known = c.old[k]; known {
		c.put(k, text)
	}
	return text, known
}

// put stores a verdict. The caller holds the lock.
func (c *cache) put(k key, text string) {
	if len(c.young) >= generation {
		c.old, c.young = c.young, make(map[key]string, generation)
		for k := range c.volatile {
			if _, kept := c.old[k]; !kept {
				delete(c.volatile, k)
			}
		}
	}
	c.young[k] = text
}

// add remembers a verdict; one that is volatile does not outlive the process.
func (c *cache) add(k key, text string, volatile bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.put(k, text)
	if volatile {
		c.volatile[k] = true
	} else {
		c.dirty = true
	}
}

// stored is the file's content behind magic and checksum.
type stored struct {
	Context  [32]byte
	Verdicts map[key]string
}

// load reads the file. What cannot be trusted is not used: the error says why, fs.ErrNotExist where there is none.
func (c *cache) load() error {
	if c.path == "" {
		return nil
	}
	data, err := os.ReadFile(c.path)
	if err != nil {
		return err
	}
	body, found := bytes.CutPrefix(data, []byte(cacheMagic))
	if !found || len(body) < sha256.Size {
		return errors.New("it does not begin as a file of verdicts does")
	}
	sum, body := [sha256.Size]byte(body), body[sha256.Size:]
	if sha256.Sum256(body) != sum {
		return errors.New("its checksum is wrong")
	}
	var s stored
	if err := gob.NewDecoder(bytes.NewReader(body)).Decode(&s); err != nil {
		return err
	}
	if s.Context != c.context {
		return nil // another Envoy's
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for k, text := range s.Verdicts {
		c.old[k] = text
	}
	return nil
}

// save writes the file when there is something new, in one step.
func (c *cache) save() (err error) {
	c.mu.Lock()
	if c.path == "" || !c.dirty {
		c.mu.Unlock()
		return nil
	}
	c.dirty = false
	s := stored{Context: c.context, Verdicts: make(map[key]string, len(c.young)+len(c.old))}
	for _, m := range []map[key]string{c.old, c.young} {
		for k, text := range m {
			if !c.volatile[k] {
				s.Verdicts[k] = text
			}
		}
	}
	c.mu.Unlock()
	defer func() {
		if err != nil {
			err = fmt.Errorf("save verdicts: %w", err)
		}
	}()
	var body bytes.Buffer
	if err := gob.NewEncoder(&body).Encode(s); err != nil {
		return err
	}
	sum := sha256.Sum256(body.Bytes())
	if err := os.MkdirAll(filepath.Dir(c.path), 0o700); err != nil {
		return err
	}
	f, err := os.CreateTemp(filepath.Dir(c.path), filepath.Base(c.path)+".*.tmp")
	if err != nil {
		return err
	}
	defer os.Remove(f.Name()) // gone after the rename
	_, err = f.Write(slices.Concat([]byte(cacheMagic), sum[:], body.Bytes()))
	if err := errors.Join(err, f.Sync(), f.Close()); err != nil {
		return err
	}
	return os.Rename(f.Name(), c.path)
}

func missing(err error) bool { return errors.Is(err, fs.ErrNotExist) }
