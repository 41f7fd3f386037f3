package kubetest

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
)

// Stored returns what etcd holds under a key, such as "/registry/getambassador.io/mappings/default/a"; for custom resources
// that is the JSON of the version that is stored.
func (c *Cluster) Stored(key string) (string, error) {
	body, err := json.Marshal(map[string][]byte{"key": []byte(key)})
	if err != nil {
		return "", err
	}
	r, err := http.Post("http://127.0.0.1:"+strconv.Itoa(c.etcd)+"/v3/kv/range", "application/json", bytes.NewReader(body))
	if err != nil {
		return "", err
	}
	defer r.Body.Close()
	var answer struct {
		KVs []struct {
			Value []byte `json:"value"`
		} `json:"kvs"`
	}
	if err := json.NewDecoder(r.Body).Decode(&answer); err != nil {
		return "", err
	}
	if len(answer.KVs) != 1 {
		return "", fmt.Errorf("etcd has no key %s", key)
	}
	return string(answer.KVs[0].Value), nil
}
