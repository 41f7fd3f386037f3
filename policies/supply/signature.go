package supply

import (
	"bytes"
	"cmp"
	"crypto/x509"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/open-policy-agent/opa/v1/bundle"
	"github.com/open-policy-agent/opa/v1/util"
)

// Key is what signatures are checked with.
type Key struct {
	// ID is the name of the key, PEM the public key.
	ID, PEM string
}

const signatures = ".signatures.json"

// algorithm returns the signature algorithm that goes with a key, so that no signature can choose a weaker one.
func algorithm(text string) (string, error) {
	block, _ := pem.Decode([]byte(text))
	if block == nil {
		return "", errors.New("the key is no PEM text")
	}
	kind := block.Type
	if kind == "PUBLIC KEY" {
		k, err := x509.ParsePKIXPublicKey(block.Bytes)
		if err != nil {
			return "", err
		}
		kind = fmt.Sprintf("%T", k)
	} else if kind == "PRIVATE KEY" {
		k, err := x509.ParsePKCS8PrivateKey(block.Bytes)
		if err != nil {
			return "", err
		}
		kind = fmt.Sprintf("%T", k)
	}
	switch {
	case strings.Contains(strings.ToLower(kind), "rsa"):
		return "RS256", nil
	case strings.Contains(strings.ToLower(kind), "ec"):
		return "ES256", nil
	}
	return "", fmt.Errorf("a key of type %s is not known; right is RSA or EC P-256", kind)
}

// verify checks that every file is what the key signed, and that no signed file is missing.
func (t tree) verify(k Key) error {
	alg, err := algorithm(k.PEM)
	if err != nil {
		return fmt.Errorf("the verification key: %w", err)
	}
	if k.ID == "" {
		return errors.New("the verification key has no id")
	}
	text, ok := t[signatures]
	if !ok {
		return errors.New("it has no " + signatures)
	}
	var config bundle.SignaturesConfig
	if err := json.Unmarshal(text, &config); err != nil {
		return fmt.Errorf("%s: %w", signatures, err)
	}
	if config.Plugin != "" {
		return fmt.Errorf("%s asks for the verifier %q", signatures, config.Plugin)
	}
	for _, token := range config.Signatures {
		if signer := signerOf(token); signer != "" && signer != k.ID {
			return fmt.Errorf("it is signed with key %q, not %q", signer, k.ID)
		}
	}
	key := &bundle.KeyConfig{Key: k.PEM, Algorithm: alg}
	files, err := bundle.VerifyBundleSignature(config, bundle.NewVerificationConfig(map[string]*bundle.KeyConfig{k.ID: key}, k.ID, "", nil))
	if err != nil {
		return err
	}
	for _, name := range t.names() {
		if name == signatures {
			continue
		}
		if err := bundle.VerifyBundleFile(name, *bytes.NewBuffer(t[name]), files); err != nil {
			return err
		}
	}
	if len(files) > 0 {
		return fmt.Errorf("signed files are missing: %s", strings.Join(slices.Sorted(maps.Keys(files)), ", "))
	}
	return nil
}

// signerOf returns the name of the key that a signature gives itself, "" for none.
func signerOf(token string) string {
	var said struct {
		Header string `json:"kid"`
		Claim  string `json:"keyid"`
	}
	for _, part := range strings.SplitN(token, ".", 3)[:min(2, strings.Count(token, "."))] {
		if text, err := base64.RawURLEncoding.DecodeString(part); err != nil || json.Unmarshal(text, &said) != nil {
			return "" // no signature at all, as will be found
		}
	}
	return cmp.Or(said.Header, said.Claim)
}

// Sign returns the .signatures.json of a folder, made with the private key (PEM).
func Sign(root, privateKey, id string) ([]byte, error) {
	alg, err := algorithm(privateKey)
	if err != nil {
		return nil, err
	}
	t, err := readDir(root)
	if err != nil {
		return nil, err
	}
	hasher, err := bundle.NewSignatureHasher(bundle.SHA256)
	if err != nil {
		return nil, err
	}
	var files []bundle.FileInfo
	for _, name := range t.names() {
		if name == signatures {
			continue
		}
		var value any = t[name]
		if bundle.IsStructuredDoc(name) {
			if err := util.Unmarshal(t[name], &value); err != nil {
				return nil, fmt.Errorf("%s: %w", name, err)
			}
		}
		sum, err := hasher.HashFile(value)
		if err != nil {
			return nil, err
		}
		files = append(files, bundle.NewFile(name, hex.EncodeToString(sum), bundle.SHA256.String()))
	}
	if len(files) == 0 {
		return nil, fmt.Errorf("%s has no rules", root)
	}
	token, err := bundle.GenerateSignedToken(files, bundle.NewSigningConfig(privateKey, alg, ""), id)
	if err != nil {
		return nil, err
	}
	return json.MarshalIndent(map[string]any{"signatures": []string{token}}, "", "  ")
}
