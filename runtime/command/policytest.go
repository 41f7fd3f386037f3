package command

import (
	"encoding/xml"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/chancery-gateway/chancery/policies/library"
	"github.com/chancery-gateway/chancery/policies/suite"
	"github.com/chancery-gateway/chancery/runtime/report"
)

var testFormats = []string{"text", "json", "junit", "tap", "github"}

func (a *app) policyTestCommand() *cobra.Command {
	var run, format string
	var threshold float64
	var timeout time.Duration
	var own, verbose bool
	c := &cobra.Command{
		Use:   "test PATH...",
		Short: "Run the tests of rules, and say which rules they cover",
		Long: `Runs every rule test_... of the files ..._test.rego. Rules are loaded exactly as a compile loads them, so that what does
not type-check is not tested. Coverage counts rules: a rule is covered when some test went into it.

Exit codes: 0 all passed, 1 a test failed or coverage is below --threshold, 2 wrong usage, 3 rules that do not load.`,
		Example: `  chancery policy test guardrails/
  chancery policy test --threshold 90 --format junit guardrails/ > tests.xml
  chancery policy test --run host_owner guardrails/
  chancery policy test --library`,
		Args: func(c *cobra.Command, args []string) error {
			if own {
				return nil
			}
			return needPaths(c, args)
		},
		RunE: func(c *cobra.Command, paths []string) error {
			if !slices.Contains(testFormats, format) {
				return usage("--format %q is not known; right is one of %s", format, strings.Join(testFormats, ", "))
			}
			modules := library.Modules()
			if !own {
				s, err := a.readPolicies(c.Context(), paths)
				if err != nil {
					return err
				}
				modules = s.Modules
			}
			r, err := suite.Run(c.Context(), modules, suite.Options{Run: run, Timeout: timeout})
			if err != nil {
				return usage("running the tests: %w", err)
			}
			if len(r.Findings) > 0 {
				if err := report.Write(a.err, "text", r.Findings, report.Options{Colour: terminal(a.err)}); err != nil {
					return failure("writing diagnostics: %w", err)
				}
				if err := verdict(r.Findings, false); err != nil {
					return &status{code: exitFailure}
				}
			}
			if err := writeTests(a.out, format, r, verbose); err != nil {
				return failure("writing the answer: %w", err)
			}
			if len(r.Tests) == 0 {
				return usage("there are no tests: no rule test_... in a file ..._test.rego%s", map[bool]string{true: " matches --run", false: ""}[run != ""])
			}
			if r.Failed() > 0 {
				return &status{code: exitErrors}
			}
			if r.Coverage < threshold {
				return &status{exitErrors, fmt.Errorf("coverage %.1f %% is below the threshold of %g %%", r.Coverage, threshold)}
			}
			return nil
		},
	}
	c.Flags().StringVar(&run, "run", "", "only tests whose package.name matches this regex")
	c.Flags().StringVar(&format, "format", "text", strings.Join(testFormats, ", "))
	c.Flags().Float64Var(&threshold, "threshold", 0, "the least part of the rules, in percent, that tests must cover")
	c.Flags().DurationVar(&timeout, "timeout", 5*time.Second, "the most time for one test")
	c.Flags().BoolVar(&own, "library", false, "test Chancery's own library")
	c.Flags().BoolVarP(&verbose, "verbose", "v", false, "name the tests that pass, too")
	return c
}

// writeTests writes the outcome of a run.
func writeTests(w io.Writer, format string, r *suite.Report, verbose bool) error {
	var b strings.Builder
	switch format {
	case "json":
		return writeJSON(w, r)
	case "junit":
		return junitTests(w, r)
	case "tap":
		fmt.Fprintf(&b, "TAP version 14\n1..%d\n", len(r.Tests))
		for i, t := range r.Tests {
			fmt.Fprintf(&b, "%sok %d - %s.%s%s\n", map[bool]string{true: "not ", false: ""}[t.Result == "fail" || t.Result == "error"], i+1, t.Package, t.Name,
				map[bool]string{true: " # SKIP", false: ""}[t.Result == "skip"])
		}
	case "github":
		for _, t := range r.Tests {
			if t.Result == "fail" || t.Result == "error" {
				fmt.Fprintf(&b, "::error file=%s,line=%d,title=%s.%s::%s\n", t.Position.File, t.Position.Line, t.Package, t.Name, strings.ReplaceAll(t.Message, "\n", "%0A"))
			}
		}
	default:
		for _, t := range r.Tests {
			if t.Result != "pass" || verbose {
				fmt.Fprintf(&b, "%s: %s %s.%s (%s)", t.At, t.Result, t.Package, t.Name, t.Took.Round(10*time.Microsecond))
				if t.Message != "" {
					b.WriteString(": " + t.Message)
				}
				b.WriteString("\n")
			}
			if t.Output != "" && (t.Result != "pass" || verbose) {
				b.WriteString("    " + strings.ReplaceAll(strings.TrimSpace(t.Output), "\n", "\n    ") + "\n")
			}
		}
		for _, rule := range r.Rules {
			if !rule.Covered {
				fmt.Fprintf(&b, "%s: not covered: %s.%s\n", rule.At, rule.Package, rule.Name)
			}
		}
		fmt.Fprintf(&b, "%d of %d tests passed, %.1f %% of %d rules covered\n", len(r.Tests)-r.Failed(), len(r.Tests), r.Coverage, len(r.Rules))
	}
	_, err := io.WriteString(w, b.String())
	return err
}

func junitTests(w io.Writer, r *suite.Report) error {
	type fault struct {
		Message string `xml:"message,attr"`
	}
	type testCase struct {
		Name    string  `xml:"name,attr"`
		Class   string  `xml:"classname,attr"`
		File    string  `xml:"file,attr"`
		Seconds float64 `xml:"time,attr"`
		Failure *fault  `xml:"failure"`
		Error   *fault  `xml:"error"`
		Skipped *fault  `xml:"skipped"`
	}
	type suites struct {
		XMLName  xml.Name   `xml:"testsuite"`
		Name     string     `xml:"name,attr"`
		Tests    int        `xml:"tests,attr"`
		Failures int        `xml:"failures,attr"`
		Cases    []testCase `xml:"testcase"`
	}
	s := suites{Name: "chancery policy test", Tests: len(r.Tests), Failures: r.Failed()}
	for _, t := range r.Tests {
		one := testCase{Name: t.Name, Class: t.Package, File: t.At, Seconds: t.Took.Seconds()}
		switch t.Result {
		case "fail":
			one.Failure = &fault{t.Message}
		case "error":
			one.Error = &fault{t.Message}
		case "skip":
			one.Skipped = &fault{}
		}
		s.Cases = append(s.Cases, one)
	}
	e := xml.NewEncoder(w)
	e.Indent("", "  ")
	if _, err := io.WriteString(w, xml.Header); err != nil {
		return err
	}
	if err := e.Encode(s); err != nil {
		return err
	}
	_, err := io.WriteString(w, "\n")
	return err
}
