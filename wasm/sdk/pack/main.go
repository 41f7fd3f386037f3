// Pack puts a manifest into a module, in place of one that is there, and prints what the host will see of the module. It
// fails for a module that no host would load.
//
//	go run github.com/chancery-gateway/chancery/wasm/sdk/pack -manifest manifest.json module.wasm
package main

import (
	"flag"
	"fmt"
	"os"
	"strings"

	"github.com/chancery-gateway/chancery/wasm"
)

func main() {
	manifest := flag.String("manifest", "manifest.json", "the manifest `file`")
	output := flag.String("o", "", "where to write the module (default: in place)")
	flag.Parse()
	if flag.NArg() != 1 {
		fmt.Fprintln(os.Stderr, "usage: pack [-manifest FILE] [-o FILE] MODULE")
		os.Exit(2)
	}
	if *output == "" {
		*output = flag.Arg(0)
	}
	if err := pack(flag.Arg(0), *manifest, *output); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func pack(path, manifest, output string) error {
	module, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	text, err := os.ReadFile(manifest)
	if err != nil {
		return err
	}
	if module, err = wasm.SetManifest(module, text); err != nil {
		return err
	}
	info, err := wasm.Inspect(module)
	if err != nil {
		return err
	}
	if err := os.WriteFile(output, module, 0o644); err != nil {
		return err
	}
	phases := make([]string, len(info.Manifest.Phases))
	for i, p := range info.Manifest.Phases {
		phases[i] = string(p)
	}
	fmt.Printf("%s %s\n%s\n%d bytes, phases %s\n", info.Manifest.Name, info.Manifest.Version, info.Digest, info.Size, strings.Join(phases, ", "))
	return nil
}
