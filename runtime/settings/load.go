package settings

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strings"

	"github.com/spf13/pflag"
	"github.com/spf13/viper"
	"go.yaml.in/yaml/v3"
)

// File is the name of the settings file that is read from the working directory when --config names none.
const File = "chancery.yaml"

// Origin tells where a value came from.
type Origin struct {
	// Name and Value are the setting and its text as it was given (after translation of Emissary's spellings).
	Name  string `json:"name"`
	Value string `json:"value"`
	// Source is "default", "flag --x", "environment X" or "chancery.yaml:3".
	Source string `json:"source"`
	// Note says what was ignored on the way; "" for nothing.
	Note string `json:"note,omitempty"`
}

// Problem is one bad value or unknown key. It is an error with an address.
type Problem struct {
	// Setting is the setting's name, Source where the bad value stands.
	Setting, Source string
	// Value is what was given; Reason what is wrong with it; Want what would be right.
	Value, Reason, Want string
}

// Error returns one line that names setting, source, value and what is right.
func (p *Problem) Error() string {
	s := p.Source + ": "
	if p.Setting != "" {
		s += fmt.Sprintf("setting %q: ", p.Setting)
	}
	if p.Value != "" {
		s += fmt.Sprintf("%q ", p.Value)
	}
	s += p.Reason
	if p.Want != "" {
		s += "; right is " + p.Want
	}
	return s
}

// AddFlags adds one flag per setting, and --config.
func AddFlags(flags *pflag.FlagSet) {
	flags.String("config", "", "file with settings (default ./"+File+" where it exists)")
	for _, d := range definitions {
		// The default is empty: viper and Load know the real one, and an unset flag must not look like a choice.
		usage := d.Usage
		if d.Default != "" && !d.Bool {
			usage += " (default " + d.Default + ")"
		}
		if d.Bool {
			flags.Bool(d.Name, d.Default == "true", usage)
		} else {
			flags.String(d.Name, "", usage)
		}
	}
}

// Load returns the effective settings: flags first, then environment variables, then the settings file, then defaults.
// The error joins one *Problem for each bad value or unknown key; it is a plain error when the file cannot be read.
func Load(flags *pflag.FlagSet) (*Settings, error) {
	v := viper.New()
	v.SetConfigType("yaml")
	lines, file, problems, err := readFile(v, flags)
	if err != nil {
		return nil, err
	}
	s := &Settings{origins: map[string]Origin{}}
	for _, d := range definitions {
		o, err := find(v, d, flags, file, lines)
		if err == nil {
			err = d.read(s, o.Value)
		}
		if err != nil {
			problems = append(problems, &Problem{Setting: d.Name, Source: o.Source, Value: o.Value, Reason: err.Error(), Want: d.Want})
		}
		s.origins[d.Name] = o
	}
	if len(problems) > 0 {
		return nil, errors.Join(problems...)
	}
	s.ShutdownGrace = min(s.ShutdownGrace, s.DrainTime)
	return s, nil
}

// Origins returns every setting with its text and source, in the documented order.
func (s *Settings) Origins() []Origin {
	all := make([]Origin, 0, len(definitions))
	for _, d := range definitions {
		all = append(all, s.origins[d.Name])
	}
	return all
}

// find looks the setting up. Viper decides; the order is repeated here only to name the winner.
func find(v *viper.Viper, d *Definition, flags *pflag.FlagSet, file string, lines map[string]int) (Origin, error) {
	o := Origin{Name: d.Name, Value: d.Default, Source: "default"}
	v.SetDefault(d.Name, d.Default)
	if v.InConfig(d.Name) {
		o.Source = fmt.Sprintf("%s:%d", file, lines[d.Name])
		switch v.Get(d.Name).(type) {
		case []any, map[string]any:
			o.Value = ""
			return o, fmt.Errorf("is a list or map")
		}
	}
	own := d.Variable()
	for _, e := range append([]Variable{{Name: own}}, d.Environment...) {
		value, set := os.LookupEnv(e.Name)
		if !set || value == "" {
			continue
		}
		if e.Translate != nil {
			translated, keep := e.Translate(value)
			if !keep {
				o.Note = fmt.Sprintf("%s=%s changes nothing", e.Name, value)
				continue
			}
			value = translated
		}
		o.Source = "environment " + e.Name
		v.Set(d.Name, value)
		break
	}
	if f := flags.Lookup(d.Name); f != nil && f.Changed {
		o.Source = "flag --" + d.Name
		v.Set(d.Name, f.Value.String())
	}
	o.Value = v.GetString(d.Name)
	return o, nil
}

// readFile merges the settings file into v. It returns the line of each key, the file's name and a problem for each unknown key.
func readFile(v *viper.Viper, flags *pflag.FlagSet) (lines map[string]int, file string, problems []error, err error) {
	file, named := File, false
	if env := os.Getenv("CHANCERY_CONFIG"); env != "" {
		file, named = env, true
	}
	if f := flags.Lookup("config"); f != nil && f.Changed {
		file, named = f.Value.String(), true
	}
	data, err := os.ReadFile(file)
	if errors.Is(err, fs.ErrNotExist) && !named {
		return nil, "", nil, nil
	}
	if err != nil {
		return nil, file, nil, fmt.Errorf("settings file: %w", err)
	}
	var doc yaml.Node
	if err := yaml.Unmarshal(data, &doc); err != nil {
		return nil, file, nil, fmt.Errorf("settings file %s: %s", file, strings.TrimPrefix(err.Error(), "yaml: "))
	}
	lines = map[string]int{}
	if len(doc.Content) == 0 {
		return lines, file, nil, nil
	}
	root := doc.Content[0]
	if root.Kind != yaml.MappingNode {
		return nil, file, nil, fmt.Errorf("settings file %s:%d: must be a map of settings, for example \"drain-time: 30s\"", file, root.Line)
	}
	for i := 0; i+1 < len(root.Content); i += 2 {
		k := root.Content[i]
		at := fmt.Sprintf("%s:%d", file, k.Line)
		if !slices.ContainsFunc(definitions, func(d *Definition) bool { return d.Name == k.Value }) {
			problems = append(problems, &Problem{Source: at, Value: k.Value, Reason: "is no setting", Want: suggest(k.Value)})
			continue
		}
		if before := lines[k.Value]; before > 0 {
			problems = append(problems, &Problem{Setting: k.Value, Source: at, Reason: fmt.Sprintf("stands twice, first in line %d", before)})
			continue
		}
		lines[k.Value] = k.Line
		if err := v.MergeConfigMap(map[string]any{k.Value: scalar(root.Content[i+1])}); err != nil {
			return nil, file, nil, fmt.Errorf("settings file %s: %w", at, err)
		}
	}
	return lines, file, problems, nil
}

// scalar keeps the text as written, so that "010" or "1e3" is judged by the setting itself.
func scalar(n *yaml.Node) any {
	if n.Kind == yaml.ScalarNode {
		return n.Value
	}
	return []any{}
}

// suggest returns the nearest known name, or where to find all of them.
func suggest(name string) string {
	best, distance := "", len(name)/2+1
	for _, d := range definitions {
		if n := edits(strings.ToLower(strings.ReplaceAll(name, "_", "-")), d.Name); n < distance {
			best, distance = d.Name, n
		}
	}
	if best == "" {
		return "one of those that `chancery settings` lists"
	}
	return fmt.Sprintf("perhaps %q", best)
}

// edits is Levenshtein's distance.
func edits(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := 1; i <= len(a); i++ {
		before := row[0]
		row[0] = i
		for j := 1; j <= len(b); j++ {
			cost := before
			if a[i-1] != b[j-1] {
				cost = 1 + min(before, row[j], row[j-1])
			}
			before, row[j] = row[j], cost
		}
	}
	return row[len(b)]
}
