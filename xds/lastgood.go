package xds

import (
	"bytes"
	"crypto/sha256"
	"encoding/gob"
	"encoding/hex"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/chancery-gateway/chancery/translators/ir"
)

// lastGoodFile is the file's name in the directory; lastGoodMagic its first line, before the checksum's.
const (
	lastGoodFile  = "last-good.xds"
	lastGoodMagic = "chancery last good state 1\n"
)

// DamagedError says that the saved state cannot be trusted and was set aside.
type DamagedError struct {
	// Path is the file; SetAside where it has been moved to, "" when that failed.
	Path, SetAside string
	Reason         string
}

// Error says what is wrong, where the file is now and what follows.
func (e *DamagedError) Error() string {
	where := "it could not be moved away"
	if e.SetAside != "" {
		where = "set aside as " + e.SetAside
	}
	return fmt.Sprintf("last good state %s is damaged: %s (%s; serving starts with the first compile)", e.Path, e.Reason, where)
}

// Save writes everything that is served to the directory, which is made if missing. The file replaces the last one in one
// step and is on the disk when Save returns. It holds private keys: only the owner may read it.
func Save(dir string, set ir.ResourceSet) (err error) {
	defer func() {
		if err != nil {
			err = fmt.Errorf("save last good state: %w", err)
		}
	}()
	data, err := encodeLastGood(set)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	f, err := os.CreateTemp(dir, lastGoodFile+".*.tmp") // mode 0600
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			f.Close()
			os.Remove(f.Name())
		}
	}()
	if _, err := f.Write(data); err != nil {
		return err
	}
	if err := f.Sync(); err != nil {
		return err
	}
	if err := f.Close(); err != nil {
		return err
	}
	if err := os.Rename(f.Name(), filepath.Join(dir, lastGoodFile)); err != nil {
		return err
	}
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	defer d.Close()
	return d.Sync()
}

// Load reads what Save wrote. The error is fs.ErrNotExist where nothing was saved, and a *DamagedError where the file
// cannot be trusted: it is then set aside, so that the next start does not meet it again.
func Load(dir string) (ir.ResourceSet, error) {
	path := filepath.Join(dir, lastGoodFile)
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("load last good state: %w", err)
	}
	set, err := decodeLastGood(data)
	if err != nil {
		e := &DamagedError{Path: path, SetAside: path + ".damaged", Reason: err.Error()}
		if os.Rename(path, e.SetAside) != nil {
			e.SetAside = ""
		}
		return nil, e
	}
	return set, nil
}

func encodeLastGood(set ir.ResourceSet) ([]byte, error) {
	var body bytes.Buffer
	enc := gob.NewEncoder(&body)
	for _, t := range slices.Sorted(maps.Keys(set)) {
		for _, r := range set[t] {
			if r == nil {
				continue
			}
			if err := enc.Encode(r); err != nil {
				return nil, err
			}
		}
	}
	sum := sha256.Sum256(body.Bytes())
	return slices.Concat([]byte(lastGoodMagic+hex.EncodeToString(sum[:])+"\n"), body.Bytes()), nil
}

func decodeLastGood(data []byte) (ir.ResourceSet, error) {
	text, ok := strings.CutPrefix(string(data), lastGoodMagic)
	if !ok {
		return nil, errors.New("it does not begin as a state of this version does")
	}
	sum, body, ok := strings.Cut(text, "\n")
	if !ok {
		return nil, errors.New("it ends before the checksum")
	}
	if got := sha256.Sum256([]byte(body)); hex.EncodeToString(got[:]) != sum {
		return nil, errors.New("the checksum does not match the content")
	}
	set := ir.ResourceSet{}
	in := strings.NewReader(body)
	dec := gob.NewDecoder(in)
	for in.Len() > 0 {
		r := new(ir.Resource)
		if err := dec.Decode(r); err != nil {
			return nil, err
		}
		set[r.Type] = append(set[r.Type], r)
	}
	return set, nil
}
