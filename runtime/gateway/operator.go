package gateway

import (
	"crypto/rand"
	"crypto/subtle"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"strings"
)

// operatorFile holds the word by which an operator is known, readable by the user whom Chancery runs as alone. An address
// would not do: requests that come through Envoy come from this machine too.
const operatorFile = "operator.token"

// OperatorToken returns the word that requests which change a running Chancery carry, from its state directory.
func OperatorToken(stateDir string) (string, error) {
	text, err := os.ReadFile(filepath.Join(stateDir, operatorFile))
	if err != nil {
		return "", err
	}
	return strings.TrimSpace(string(text)), nil
}

// makeOperatorToken makes the word, unless it is there.
func makeOperatorToken(stateDir string) (string, error) {
	if have, err := OperatorToken(stateDir); err == nil && have != "" || err != nil && !errors.Is(err, fs.ErrNotExist) {
		return have, err
	}
	if err := os.MkdirAll(stateDir, 0o700); err != nil {
		return "", err
	}
	word := rand.Text()
	f, err := os.OpenFile(filepath.Join(stateDir, operatorFile), os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if errors.Is(err, fs.ErrExist) { // another Chancery was faster
		return OperatorToken(stateDir)
	}
	if err != nil {
		return "", err
	}
	_, err = f.WriteString(word + "\n")
	return word, errors.Join(err, f.Close())
}

// operatorOnly lets in requests that carry the word.
func operatorOnly(word string, h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		given, _ := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
		if word == "" || subtle.ConstantTimeCompare([]byte(given), []byte(word)) != 1 {
			http.Error(w, fmt.Sprintf("only with the word in %s of the state directory, as \"Authorization: Bearer WORD\"", operatorFile), http.StatusForbidden)
			return
		}
		h.ServeHTTP(w, r)
	})
}
