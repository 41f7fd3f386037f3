// Package trust signs modules and checks their signatures: detached ed25519 signatures over what a module is (digest,
// name, version, manifest), judged by a local set of public keys. It works offline and asks nobody.
package trust

import (
	"bytes"
	"cmp"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/sha256"
	"crypto/x509"
	"encoding/hex"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/chancery-gateway/chancery/wasm/fault"
)

// Statement is what a signature says about a module.
type Statement struct {
	// Digest is the module's, Manifest that of its manifest section, both as "sha256:" and hexadecimal digits.
	Digest   string `json:"digest"`
	Name     string `json:"name"`
	Version  string `json:"version"`
	Manifest string `json:"manifest"`
	// NotBefore is the time from which the signature holds.
	NotBefore time.Time `json:"notBefore"`
}

// signature is one signature in a signature file.
type signature struct {
	Key       string `json:"key"`
	Signature []byte `json:"signature"`
}

// file is the content of a detached signature file: one statement, signed by any number of keys.
type file struct {
	Statement  Statement   `json:"statement"`
	Signatures []signature `json:"signatures"`
}

const (
	context      = "chancery module signature v1"
	maxFile      = 64 << 10
	maxSignature = 32
	blockPublic  = "PUBLIC KEY"
	blockPrivate = "PRIVATE KEY"
)

// message is what is signed: lines, so that no two statements have the same text.
func (s Statement) message(key string) []byte {
	lines := []string{context, key, s.Digest, s.Name, s.Version, s.Manifest, s.NotBefore.UTC().Format(time.RFC3339)}
	return []byte(strings.Join(lines, "\n") + "\n")
}

func (s Statement) check() error {
	for _, part := range []string{s.Digest, s.Name, s.Version, s.Manifest} {
		if part == "" || strings.ContainsAny(part, "\n\r") {
			return fault.New(fault.Signature, "the statement has a part that is empty or has more than one line")
		}
	}
	return nil
}

// KeyID names a public key by the first 16 digits of its sha256.
func KeyID(key ed25519.PublicKey) string {
	sum := sha256.Sum256(key)
	return hex.EncodeToString(sum[:8])
}

// Sign returns a signature file for the statement. Signatures of an earlier file over the same statement are kept;
// earlier may be nil.
func Sign(key ed25519.PrivateKey, s Statement, earlier []byte) ([]byte, error) {
	if err := s.check(); err != nil {
		return nil, err
	}
	s.NotBefore = s.NotBefore.UTC().Truncate(time.Second)
	f := file{Statement: s}
	id := KeyID(key.Public().(ed25519.PublicKey))
	if len(earlier) > 0 {
		old, err := parse(earlier)
		if err != nil {
			return nil, err
		}
		if s.NotBefore = old.Statement.NotBefore; old.Statement == s {
			f = *old
			f.Signatures = slices.DeleteFunc(f.Signatures, func(g signature) bool { return g.Key == id })
		}
	}
	f.Signatures = append(f.Signatures, signature{id, ed25519.Sign(key, f.Statement.message(id))})
	slices.SortFunc(f.Signatures, func(a, b signature) int { return strings.Compare(a.Key, b.Key) })
	out, err := json.MarshalIndent(f, "", "  ")
	return append(out, '\n'), err
}

func parse(text []byte) (*file, error) {
	if len(text) > maxFile {
		return nil, fault.New(fault.Signature, "the signature file has %d bytes; %d are allowed", len(text), maxFile)
	}
	f := &file{}
	d := json.NewDecoder(bytes.NewReader(text))
	d.DisallowUnknownFields()
	if err := d.Decode(f); err != nil {
		return nil, fault.New(fault.Signature, "the signature file is malformed: %w", err)
	}
	if len(f.Signatures) > maxSignature {
		return nil, fault.New(fault.Signature, "the signature file has %d signatures; %d are allowed", len(f.Signatures), maxSignature)
	}
	return f, f.Statement.check()
}

// Root is the set of keys that modules are believed by. The zero value trusts no key and asks for no signature.
type Root struct {
	keys map[string]ed25519.PublicKey
	// Required is the number of trusted keys that must have signed; 0 asks for none, but a signature that is there has
	// to be right.
	Required int
}

// Add puts a key into the root.
func (r *Root) Add(key ed25519.PublicKey) {
	if r.keys == nil {
		r.keys = map[string]ed25519.PublicKey{}
	}
	r.keys[KeyID(key)] = key
}

// Keys returns the names of the keys, sorted.
func (r *Root) Keys() []string {
	ids := make([]string, 0, len(r.keys))
	for id := range r.keys {
		ids = append(ids, id)
	}
	slices.Sort(ids)
	return ids
}

// Verify judges a detached signature (nil when there is none) of the module that want describes (but for NotBefore). It
// returns the trusted keys that signed.
func (r *Root) Verify(text []byte, want Statement, now time.Time) ([]string, error) {
	if len(text) == 0 {
		if r.Required > 0 {
			return nil, fault.New(fault.Signature, "the module has no signature; %d are required", r.Required)
		}
		return nil, nil
	}
	f, err := parse(text)
	if err != nil {
		return nil, err
	}
	said := f.Statement
	want.NotBefore = said.NotBefore
	for _, part := range []struct{ what, said, is string }{
		{"digest", said.Digest, want.Digest}, {"name", said.Name, want.Name},
		{"version", said.Version, want.Version}, {"manifest", said.Manifest, want.Manifest},
	} {
		if part.said != part.is {
			return nil, fault.New(fault.Signature, "the signature is for %s %q; the module's is %q", part.what, clip(part.said), clip(part.is))
		}
	}
	if now.Before(said.NotBefore) {
		return nil, fault.New(fault.Signature, "the signature holds from %s on", said.NotBefore.Format(time.RFC3339))
	}
	var by, unknown []string
	for _, g := range f.Signatures {
		key, known := r.keys[g.Key]
		switch {
		case !known:
			unknown = append(unknown, fmt.Sprintf("%q", clip(g.Key)))
		case !ed25519.Verify(key, said.message(g.Key), g.Signature):
			return nil, fault.New(fault.Signature, "the signature of key %s is wrong", g.Key)
		case !slices.Contains(by, g.Key):
			by = append(by, g.Key)
		}
	}
	slices.Sort(by)
	if need := cmp.Or(r.Required, 1); len(by) < need {
		if len(unknown) > 0 {
			return by, fault.New(fault.UnknownKey, "%d of the trusted keys signed, %d are required; not trusted: %s", len(by), need, strings.Join(unknown, ", "))
		}
		return by, fault.New(fault.Signature, "%d of the trusted keys signed, %d are required", len(by), need)
	}
	return by, nil
}

func clip(s string) string { return s[:min(len(s), 100)] }

// LoadRoot reads every public key (PEM, "PUBLIC KEY") of a folder's .pem and .pub files.
func LoadRoot(dir string, required int) (*Root, error) {
	r := &Root{Required: required}
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, fault.New(fault.Spec, "trust root: %w", err)
	}
	for _, e := range entries {
		if ext := filepath.Ext(e.Name()); ext != ".pem" && ext != ".pub" {
			continue
		}
		text, err := readFile(filepath.Join(dir, e.Name()))
		if err != nil {
			return nil, fault.New(fault.Spec, "trust root: %w", err)
		}
		for block, rest := pem.Decode(text); block != nil; block, rest = pem.Decode(rest) {
			if block.Type == blockPrivate {
				return nil, fault.New(fault.Spec, "trust root: %s holds a private key; keep it elsewhere", e.Name())
			}
			key, err := x509.ParsePKIXPublicKey(block.Bytes)
			public, ok := key.(ed25519.PublicKey)
			if err != nil || !ok {
				return nil, fault.New(fault.Spec, "trust root: %s holds a block that is no ed25519 public key", e.Name())
			}
			r.Add(public)
		}
	}
	if required > len(r.keys) {
		return nil, fault.New(fault.Spec, "trust root: %d signatures are required, but %s holds %d keys", required, dir, len(r.keys))
	}
	return r, nil
}

func readFile(path string) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return io.ReadAll(io.LimitReader(f, 1<<20))
}

// GenerateKey returns a new key pair as PEM.
func GenerateKey() (private, public []byte, err error) {
	pub, key, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		return nil, nil, err
	}
	keyBytes, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return nil, nil, err
	}
	pubBytes, err := x509.MarshalPKIXPublicKey(pub)
	if err != nil {
		return nil, nil, err
	}
	return pem.EncodeToMemory(&pem.Block{Type: blockPrivate, Bytes: keyBytes}), pem.EncodeToMemory(&pem.Block{Type: blockPublic, Bytes: pubBytes}), nil
}

// ParsePrivateKey reads an ed25519 private key (PEM, PKCS #8).
func ParsePrivateKey(text []byte) (ed25519.PrivateKey, error) {
	block, _ := pem.Decode(text)
	if block == nil || block.Type != blockPrivate {
		return nil, fault.New(fault.Spec, "the key file holds no PEM block %q", blockPrivate)
	}
	key, err := x509.ParsePKCS8PrivateKey(block.Bytes)
	private, ok := key.(ed25519.PrivateKey)
	if err != nil || !ok {
		return nil, fault.New(fault.Spec, "the key file holds no ed25519 key")
	}
	return private, nil
}
