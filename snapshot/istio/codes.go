package istio

import "github.com/chancery-gateway/chancery/snapshot"

var (
	codeBroken = snapshot.NewCode("CH-ISTIO-001", "Istio's certificate cannot be used",
		"In the folder of AMBASSADOR_ISTIO_SECRET_DIR one of cert-chain.pem and key.pem is missing, no PEM, or not the other's.",
		"See whether Istio's agent still writes there. The last good pair stays in force unless its files are gone.")
	codeFolder = snapshot.NewCode("CH-ISTIO-002", "Istio's folder cannot be watched",
		"The folder of AMBASSADOR_ISTIO_SECRET_DIR does not exist, or the system cannot announce changes in it.",
		"Mount the folder into the container. It is looked at all the time.")
)
