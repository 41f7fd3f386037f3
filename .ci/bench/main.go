// Command bench reads the output of `go test -bench`, prints a table per benchmark and writes all numbers to the file that its
// argument names, as JSON: {"BenchmarkCold/mappings=100": {"ns/op": 1, ...}, ...}. It fails when the benchmarks did.
package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
)

var cores = regexp.MustCompile(`-\d+$`)

func main() {
	numbers := map[string]map[string]float64{}
	var order []string
	failed := false
	in := bufio.NewScanner(os.Stdin)
	in.Buffer(nil, 1<<20)
	for in.Scan() {
		line := in.Text()
		failed = failed || strings.HasPrefix(line, "FAIL") || strings.HasPrefix(line, "--- FAIL") || strings.HasPrefix(line, "panic:")
		f := strings.Fields(line)
		if !strings.HasPrefix(line, "Benchmark") || len(f) < 4 {
			if failed {
				fmt.Println(line)
			}
			continue
		}
		name := cores.ReplaceAllString(f[0], "")
		values := map[string]float64{}
		for i := 2; i+1 < len(f); i += 2 {
			if v, err := strconv.ParseFloat(f[i], 64); err == nil {
				values[f[i+1]] = v
			}
		}
		numbers[name] = values
		order = append(order, name)
		fmt.Fprintln(os.Stderr, "measured", name)
	}
	print(order, numbers)
	text, err := json.MarshalIndent(numbers, "", "  ")
	if err == nil && len(os.Args) > 1 {
		err = os.WriteFile(os.Args[1], append(text, '\n'), 0o644)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
	}
	if err != nil || failed || len(order) == 0 {
		os.Exit(1)
	}
}

// print writes one table for each benchmark function: its cases are the rows, what was measured are the columns.
func print(order []string, numbers map[string]map[string]float64) {
	for len(order) > 0 {
		head, _, _ := strings.Cut(order[0], "/")
		n := 1
		for n < len(order) && (order[n] == head || strings.HasPrefix(order[n], head+"/")) {
			n++
		}
		var units []string
		for _, name := range order[:n] {
			for u := range numbers[name] {
				if !slices.Contains(units, u) {
					units = append(units, u)
				}
			}
		}
		slices.Sort(units)
		w := tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', tabwriter.AlignRight)
		fmt.Fprintf(w, "\n%s\t%s\t\n", strings.TrimPrefix(head, "Benchmark"), strings.Join(units, "\t"))
		for _, name := range order[:n] {
			fmt.Fprintf(w, "%s\t", strings.TrimPrefix(strings.TrimPrefix(name, head), "/"))
			for _, u := range units {
				if v, measured := numbers[name][u]; measured {
					fmt.Fprint(w, strconv.FormatFloat(v, 'f', digits(v), 64))
				}
				fmt.Fprint(w, "\t")
			}
			fmt.Fprintln(w)
		}
		w.Flush()
		order = order[n:]
	}
}

// digits are those behind the point that say something.
func digits(v float64) int {
	switch {
	case v >= 100:
		return 0
	case v >= 1:
		return 1
	}
	return 3
}
