// Command apiext writes the manifest of the conversion webhook, with the definitions as crds.yaml has them, and that
// of what converts in the gateway's own process.
package main

import (
	"fmt"
	"os"

	"github.com/chancery-gateway/chancery/runtime/command"
	"github.com/chancery-gateway/chancery/runtime/deploy"
)

func main() {
	if len(os.Args) != 3 {
		fmt.Fprintln(os.Stderr, "usage: apiext FILE BESIDE")
		os.Exit(2)
	}
	text, err := deploy.Apiext(command.Version)
	if err == nil {
		err = os.WriteFile(os.Args[1], text, 0o644)
	}
	if err == nil {
		text, err = deploy.Beside()
	}
	if err == nil {
		err = os.WriteFile(os.Args[2], text, 0o644)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "apiext:", err)
		os.Exit(1)
	}
}
