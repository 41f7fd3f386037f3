package trust

import (
	"bytes"
	"crypto/ed25519"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/chancery-gateway/chancery/snapshot"
	"github.com/chancery-gateway/chancery/wasm/fault"
)

func pair(t *testing.T) (ed25519.PrivateKey, []byte) {
	t.Helper()
	private, public, err := GenerateKey()
	if err != nil {
		t.Fatal(err)
	}
	key, err := ParsePrivateKey(private)
	if err != nil {
		t.Fatal(err)
	}
	return key, public
}

func TestVerify(t *testing.T) {
	alice, alicePublic := pair(t)
	bob, bobPublic := pair(t)
	mallory, _ := pair(t)
	dir := t.TempDir()
	for name, text := range map[string][]byte{"alice.pub": alicePublic, "bob.pem": bobPublic, "notes.txt": []byte("no key")} {
		if err := os.WriteFile(filepath.Join(dir, name), text, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	root := func(required int) *Root {
		r, err := LoadRoot(dir, required)
		if err != nil {
			t.Fatal(err)
		}
		return r
	}
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	s := Statement{Digest: "sha256:aa", Name: "m", Version: "1.0.0", Manifest: "sha256:bb", NotBefore: now}
	sign := func(s Statement, keys ...ed25519.PrivateKey) []byte {
		var out []byte
		for _, k := range keys {
			var err error
			if out, err = Sign(k, s, out); err != nil {
				t.Fatal(err)
			}
		}
		return out
	}
	other := s
	other.Version = "2.0.0"
	forged := bytes.Replace(sign(other, alice), []byte("2.0.0"), []byte("1.0.0"), 1)
	for _, c := range []struct {
		name     string
		text     []byte
		required int
		at       time.Time
		code     *snapshot.Code
		by       int
	}{
		{"one key", sign(s, alice), 1, now, nil, 1},
		{"two keys", sign(s, alice, bob), 2, now, nil, 2},
		{"one of two", sign(s, alice), 2, now, fault.Signature, 0},
		{"the same key twice", sign(s, alice, alice), 2, now, fault.Signature, 0},
		{"none where none is required", nil, 0, now, nil, 0},
		{"none where one is required", nil, 1, now, fault.Signature, 0},
		{"unknown key", sign(s, mallory), 1, now, fault.UnknownKey, 0},
		{"unknown key where none is required", sign(s, mallory), 0, now, fault.UnknownKey, 0},
		{"one known, one unknown", sign(s, mallory, bob), 1, now, nil, 1},
		{"another version", sign(other, alice), 1, now, fault.Signature, 0},
		{"changed statement", forged, 1, now, fault.Signature, 0},
		{"too early", sign(s, alice), 1, now.Add(-time.Second), fault.Signature, 0},
		{"no JSON", []byte("x"), 1, now, fault.Signature, 0},
		{"unknown field", []byte(`{"statement":{},"extra":1}`), 1, now, fault.Signature, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			by, err := root(c.required).Verify(c.text, Statement{Digest: s.Digest, Name: s.Name, Version: s.Version, Manifest: s.Manifest}, c.at)
			if fault.CodeOf(err) != c.code || c.code == nil && len(by) != c.by {
				t.Errorf("%v, %v", by, err)
			}
		})
	}
}

func TestLoadRootRefusesPrivateKeys(t *testing.T) {
	private, _, err := GenerateKey()
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "key.pem"), private, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := LoadRoot(dir, 0); !fault.Is(err, fault.Spec) {
		t.Errorf("%v", err)
	}
	if _, err := LoadRoot(t.TempDir(), 1); !fault.Is(err, fault.Spec) {
		t.Errorf("a root that can't be satisfied: %v", err)
	}
}
