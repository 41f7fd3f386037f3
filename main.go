// Command chancery is a control plane for Envoy. It does what the name that it is called by says, else what its first
// argument says: see `chancery --help`.
package main

import (
	"os"

	"github.com/chancery-gateway/chancery/runtime/command"
)

func main() {
	os.Exit(command.Main(os.Args, os.Stdin, os.Stdout, os.Stderr))
}
