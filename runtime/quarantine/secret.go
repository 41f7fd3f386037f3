package quarantine

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"slices"
	"time"

	"github.com/chancery-gateway/chancery/snapshot"
	"github.com/chancery-gateway/chancery/translators"
)

// materialCodes are the compiler's findings about the content of Secrets.
var materialCodes = []string{"CH-TLS-002", "CH-TLS-003", "CH-TLS-004"}

// holdSecrets keeps Secrets in their last good form whose new certificate or trust anchors the compiler has found unusable: a
// renewal that went wrong must not take a host off the network while its old certificate is at hand.
func (q *Quarantine) holdSecrets(given *snapshot.Snapshot, r *translators.Result) []*holding {
	text := ""
	for i := range r.Diagnostics {
		if d := &r.Diagnostics[i]; d.Severity == snapshot.Error && slices.Contains(materialCodes, d.Code.ID) {
			text = d.Message
			break
		}
	}
	if text == "" {
		return nil
	}
	var held []*holding
	for o := range r.Snapshot.List(snapshot.KindSecret) {
		was := q.good.Get(snapshot.KindSecret, o.Namespace, o.Name)
		source := given.Get(snapshot.KindSecret, o.Namespace, o.Name)
		if was == nil || source == nil || was.Hash == o.Hash {
			continue
		}
		if err := material(o); err != nil && material(was) == nil {
			held = append(held, &holding{what: "the new certificate cannot be used: ", text: err.Error(), since: time.Now(), members: []member{{refused: source, good: was}}})
		}
	}
	return held
}

type plain string

func (p plain) Error() string { return string(p) }

// material checks what a Secret holds for TLS.
func material(o *snapshot.Object) error {
	s, ok := o.Spec.(*snapshot.Secret)
	if !ok {
		return plain("it is no Secret")
	}
	if len(s.Data["tls.key"]) > 0 || s.Type == "kubernetes.io/tls" {
		if _, err := tls.X509KeyPair(s.Data["tls.crt"], s.Data["tls.key"]); err != nil {
			return plain(err.Error())
		}
		return nil
	}
	for _, name := range []string{"tls.crt", "ca.crt"} {
		block, _ := pem.Decode(s.Data[name])
		if block == nil {
			continue
		}
		if _, err := x509.ParseCertificate(block.Bytes); err != nil {
			return plain(name + " holds no valid certificate")
		}
		return nil
	}
	return plain("it holds no certificate")
}
