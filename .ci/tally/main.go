// Command tally reads what `go test -json` writes, shows each package's verdict and the output of what failed, and ends
// with "N passed, N failed, N skipped". It fails if a test or build failed, if nothing ran, or, with CI set, if a test skipped itself.
package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"strings"
)

type event struct {
	Action, Package, Test, Output, ImportPath string
	Elapsed                                   float64
}

type test struct{ pkg, name string }

func main() {
	output := map[test][]string{}
	verdict := map[test]string{}
	parents := map[test]bool{}
	failedIn := map[string]bool{}
	passed, failed, skipped := 0, 0, 0
	in := bufio.NewReaderSize(os.Stdin, 1<<20)
	for {
		line, err := in.ReadBytes('\n')
		if len(line) > 0 {
			var e event
			if json.Unmarshal(line, &e) != nil {
				os.Stdout.Write(line)
			} else {
				take(e, output, verdict, parents, failedIn, &failed)
			}
		}
		if err != nil {
			break
		}
	}
	for t, v := range verdict {
		if parents[t] {
			continue // its subtests are counted
		}
		switch v {
		case "pass":
			passed++
		case "fail":
			failed++
		case "skip":
			skipped++
			fmt.Printf("skipped: %s %s\n%s", t.pkg, t.name, strings.Join(output[t], ""))
		}
	}
	strict := os.Getenv("CI") != ""
	if strict && skipped > 0 {
		fmt.Println("a test that skips itself proves nothing: skipped tests fail here")
	}
	fmt.Printf("%d passed, %d failed, %d skipped\n", passed, failed, skipped)
	if failed > 0 || passed == 0 || strict && skipped > 0 {
		os.Exit(1)
	}
}

func take(e event, output map[test][]string, verdict map[test]string, parents map[test]bool, failedIn map[string]bool, failed *int) {
	t := test{e.Package, e.Test}
	switch e.Action {
	case "output", "build-output":
		if e.Package == "" {
			t.pkg = e.ImportPath
		}
		output[t] = append(output[t], e.Output)
	case "pass", "fail", "skip":
		if e.Test != "" {
			verdict[t] = e.Action
			if i := strings.LastIndexByte(e.Test, '/'); i > 0 {
				parents[test{e.Package, e.Test[:i]}] = true
			}
			if e.Action == "fail" {
				failedIn[e.Package] = true
				fmt.Printf("%s", strings.Join(output[t], ""))
			} else if e.Action == "pass" {
				delete(output, t)
			}
			return
		}
		if e.Action == "skip" {
			return // it has no tests
		}
		fmt.Printf("%-4s %s (%.1fs)\n", e.Action, e.Package, e.Elapsed)
		if e.Action == "fail" && !failedIn[e.Package] {
			*failed++ // it did not build, panicked, or ran out of time
			fmt.Printf("%s", strings.Join(output[t], ""))
		}
	case "build-fail":
		fmt.Printf("%s", strings.Join(output[test{pkg: e.ImportPath}], ""))
	}
}
