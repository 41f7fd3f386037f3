package command

import (
	"os"
	"regexp"
	"strings"
	"testing"
)

// TestReadme does with README.md's manifests what stands below them: nothing is wrong with them, and their requests arrive.
func TestReadme(t *testing.T) {
	for _, c := range []struct {
		title, file, until, backend string
		commands                    int
	}{
		{"A first manifest", "hello.yaml", "\nA Listener", "127.0.0.1:9000", 3},
		{"Gateway API and Ingresses", "cart.yaml", "\nA Gateway", "k8s/shop/cart/80", 3},
	} {
		t.Run(c.title, func(t *testing.T) { testReadme(t, c.title, c.file, c.until, c.backend, c.commands) })
	}
}

func testReadme(t *testing.T, title, file, until, backend string, want int) {
	quiet(t)
	text, err := os.ReadFile("../../README.md")
	if err != nil {
		t.Fatal(err)
	}
	_, section, _ := strings.Cut(string(text), "\n## "+title+"\n")
	section, _, found := strings.Cut(section, "\n## ")
	if !found {
		t.Fatal("there is no such section")
	}
	block, steps, _ := strings.Cut(section, until)
	t.Chdir(t.TempDir())
	if err := os.WriteFile(file, []byte(strings.ReplaceAll(block, "\n    ", "\n")), 0o600); err != nil {
		t.Fatal(err)
	}
	commands := regexp.MustCompile(`(?m)^    bin/chancery ((check|compile|explain) [^#\n]*)`).FindAllStringSubmatch(steps, -1)
	for _, c := range commands {
		code, out, errs := call(t, "", strings.Fields(c[1])...)
		if code != exitFine || c[2] == "explain" && !strings.Contains(out, backend) || c[2] == "check" && !strings.Contains(errs, "no findings") {
			t.Errorf("%s ends with %d\n%s%s", c[1], code, out, errs)
		}
	}
	if len(commands) != want {
		t.Errorf("%d commands, want %d", len(commands), want)
	}
}

// TestHelpShowsOwnFlags: settings do not bury the flags of a command, and are all there where they matter.
func TestHelpShowsOwnFlags(t *testing.T) {
	quiet(t)
	for command, all := range map[string]bool{"": true, "serve": true, "entrypoint": true, "check": false, "status": false, "policy test": false, "module run": false} {
		_, out, _ := call(t, "", append(strings.Fields(command), "--help")...)
		if strings.Contains(out, "--drain-time") != all || strings.Contains(out, "Each setting is a flag") == all || strings.Contains(out, "Global Flags") {
			t.Errorf("%q shows\n%s", command, out)
		}
	}
}

// TestArgumentsAreNamed: what is too much or missing is named, with the command whose help has the rest.
func TestArgumentsAreNamed(t *testing.T) {
	quiet(t)
	for line, want := range map[string]string{
		"module frob":           `unknown command "frob"; see "chancery module --help"`,
		"policy tes":            `unknown command "tes", did you mean "test"; see "chancery policy --help"`,
		"kubestatus":            `kubestatus needs KIND, and perhaps NAME; see "chancery kubestatus --help"`,
		"kubestatus host a b":   `kubestatus takes KIND, and perhaps NAME, and nothing like "b"; see "chancery kubestatus --help"`,
		"version x":             `version takes no arguments, not "x"; see "chancery version --help"`,
		"entrypoint x":          `entrypoint takes no arguments, not "x"`,
		"module crd x":          `crd takes no arguments, not "x"; see "chancery module crd --help"`,
		"policy schema index b": `schema takes one NAME, and nothing like "b"; see "chancery policy schema --help"`,
	} {
		if code, _, errs := call(t, "", strings.Fields(line)...); code != exitUsage || !strings.Contains(errs, want) {
			t.Errorf("%s ends with %d and says %s, want %s", line, code, errs, want)
		}
	}
}
