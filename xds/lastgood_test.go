package xds

import (
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

func FuzzDecodeLastGood(f *testing.F) {
	f.Add([]byte(lastGoodMagic))
	f.Fuzz(func(t *testing.T, data []byte) {
		if set, err := decodeLastGood(data); err == nil && len(set) > 0 && len(data) < len(lastGoodMagic) {
			t.Error("a state came out of nothing")
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
