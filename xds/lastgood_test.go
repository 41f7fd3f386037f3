package xds

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"testing"

	"github.com/chancery-gateway/chancery/translators/ir"
)

func TestSaveAndLoad(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "state")
	if _, err := Load(dir); !errors.Is(err, fs.ErrNotExist) {
		t.Fatalf("nothing saved: %v", err)
	}
	for _, set := range []ir.ResourceSet{{}, small(), with(small(), res(ir.TypeSecret, "s1", "1"))} {
		if err := Save(dir, set); err != nil {
			t.Fatal(err)
		}
		got, err := Load(dir)
		if err != nil {
			t.Fatal(err)
		}
		if !reflect.DeepEqual(got, set) {
			t.Errorf("loaded %v, want %v", got, set)
		}
	}
	files, err := os.ReadDir(dir)
	if err != nil || len(files) != 1 {
		t.Fatalf("files %v, %v: no temporary one may stay", files, err)
	}
	info, err := files[0].Info()
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("mode %v, %v", info.Mode(), err)
	}
}

func TestDamagedStateIsSetAside(t *testing.T) {
	good := func() []byte {
		dir := t.TempDir()
		if err := Save(dir, small()); err != nil {
			t.Fatal(err)
		}
		data, err := os.ReadFile(filepath.Join(dir, lastGoodFile))
		if err != nil {
			t.Fatal(err)
		}
		return data
	}()
	flipped := append([]byte(nil), good...)
	flipped[len(flipped)-9] ^= 1
	for name, data := range map[string][]byte{
		"empty": {}, "cut": good[:len(good)-1], "cut in the head": good[:40], "flipped": flipped, "other": []byte("something else"),
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			if err := os.WriteFile(filepath.Join(dir, lastGoodFile), data, 0o600); err != nil {
				t.Fatal(err)
			}
			_, err := Load(dir)
			var damaged *DamagedError
			if !errors.As(err, &damaged) || damaged.Reason == "" {
				t.Fatalf("Load returned %v", err)
			}
			if kept, err := os.ReadFile(damaged.SetAside); err != nil || string(kept) != string(data) {
				t.Errorf("set aside: %v", err)
			}
			if _, err := Load(dir); !errors.Is(err, fs.ErrNotExist) {
				t.Errorf("the next start meets it again: %v", err)
			}
		})
	}
}

// What is decoded can be saved and loaded again, and nothing panics, even where the checksum has been made to match.
func FuzzDecodeLastGood(f *testing.F) {
	data, err := encodeLastGood(small())
	if err != nil {
		f.Fatal(err)
	}
	f.Add(data[len(lastGoodMagic)+2*sha256.Size+1:])
	f.Fuzz(func(t *testing.T, body []byte) {
		sum := sha256.Sum256(body)
		set, err := decodeLastGood([]byte(lastGoodMagic + hex.EncodeToString(sum[:]) + "\n" + string(body)))
		if err != nil {
			return
		}
		data, err := encodeLastGood(set)
		if err != nil {
			t.Fatal(err)
		}
		if again, err := decodeLastGood(data); err != nil || !reflect.DeepEqual(again, set) {
			t.Errorf("%v was loaded as %v, %v", set, again, err)
		}
	})
}

// A restart that loads the last good state and then compiles the same sends nothing again.
func TestRestartSendsNothingAgain(t *testing.T) {
	both(t, func(t *testing.T, delta bool) {
		dir := t.TempDir()
		if err := Save(dir, small()); err != nil {
			t.Fatal(err)
		}
		set, err := Load(dir)
		if err != nil {
			t.Fatal(err)
		}
		s := newServer(Options{})
		s.Publish(set)
		c := connect(t, serve(t, s), delta)
		c.boot(set)
		settled(t, s, s.Publish(small()))
		c.silent()
	})
}
