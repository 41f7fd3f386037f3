package command

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestPolicyReadme does what policies/README.md and policies/GUIDE.md say in an empty folder: writes its files, runs its commands, and compares
// what these print with what is printed there.
func TestPolicyReadme(t *testing.T) {
	quiet(t)
	var texts []string
	for _, page := range []string{"README.md", "GUIDE.md"} {
		text, err := os.ReadFile("../../policies/" + page)
		if err != nil {
			t.Fatal(err)
		}
		texts = append(texts, string(text))
	}
	t.Chdir(t.TempDir())
	file, commands, files := regexp.MustCompile(`^# ([a-z]+/[a-z_]+\.(rego|yaml))$`), 0, 0
	name, body := "", ""
	command, printed := "", ""
	flush := func() {
		if name != "" {
			files++
			if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(name, []byte(strings.TrimSpace(body)+"\n"), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		if command != "" {
			commands++
			_, out, errs := call(t, "", strings.Fields(command)[1:]...)
			begin, cut := strings.CutSuffix(printed, "...\n") // more follows
			if out != printed && !(cut && strings.HasPrefix(out, begin)) {
				t.Errorf("%s prints\n%s\nnot\n%s\n%s", command, out, printed, errs)
			}
		}
		name, body, command, printed = "", "", "", ""
	}
	for _, line := range strings.Split(strings.Join(texts, "\n"), "\n") {
		code, inside := strings.CutPrefix(line, "    ")
		switch {
		case !inside && line != "":
			flush()
		case file.MatchString(code):
			flush()
			name = file.FindStringSubmatch(code)[1]
			body = code + "\n"
		case strings.HasPrefix(code, "$ "):
			flush()
			command = strings.TrimPrefix(code, "$ ")
		case command != "" && line != "":
			printed += code + "\n"
		default:
			body += code + "\n"
		}
	}
	flush()
	if files < 6 || commands < 4 {
		t.Errorf("%d files and %d commands", files, commands)
	}
}
