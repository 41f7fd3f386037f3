package consul

import "github.com/chancery-gateway/chancery/snapshot"

var (
	codeResolver = snapshot.NewCode("CH-CONSUL-001", "a ConsulResolver leads nowhere",
		"The resolver's address is missing or no address, or names an environment variable that is not set.",
		"Set spec.address to host:port or a URL of a Consul agent; $NAME stands for an environment variable of Chancery.")
	codeSilent = snapshot.NewCode("CH-CONSUL-002", "Consul does not answer",
		"The agent cannot be reached, knows no leader, or refuses the token or the datacenter.",
		"Correct what the message names. It is asked again all the time; endpoints of its last answer stay in force.")
	codeHost = snapshot.NewCode("CH-CONSUL-003", "an instance of a Consul service has no address",
		"The instance is registered with a host name that DNS does not know, or with no port.",
		"Register the instance with a port and an IP address, or with a name that resolves.")
)
