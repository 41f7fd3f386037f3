package quarantine

import (
	"bytes"
	"encoding/json"
	"regexp"
	"strconv"
	"strings"

	"github.com/chancery-gateway/chancery/snapshot"
)

var quoted = regexp.MustCompile(`'([^']{2,})'|"([^"]{2,})"`)

// Locate names the fields in findings about parts that Envoy refuses, in place.
func Locate(ds []snapshot.Diagnostic, s *snapshot.Snapshot) {
	for i := range ds {
		d := &ds[i]
		if d.Code.ID != refusedPart || d.Path != "" {
			continue
		}
		if o := s.Get(d.Object.GroupKind(), d.Object.Namespace, d.Object.Name); o != nil {
			_, sentence, _ := strings.Cut(d.Message, "Envoy says: ")
			d.Path = Field(o, sentence)
		}
	}
}

// refusedPart is the back end's code for what Envoy refuses.
const refusedPart = "CH-PROOF-010"

// Field returns the path of the field that a sentence of Envoy's quotes, as in "spec.prefix"; "" when none can be told. Envoy
// knows nothing of objects, but it mostly cites the value that it dislikes.
func Field(o *snapshot.Object, sentence string) string {
	var body struct {
		Spec any `json:"spec"`
	}
	d := json.NewDecoder(bytes.NewReader(o.Raw))
	d.UseNumber()
	if len(o.Raw) == 0 || d.Decode(&body) != nil {
		return ""
	}
	var cited []string
	for _, m := range quoted.FindAllStringSubmatch(sentence, -1) {
		cited = append(cited, m[1]+m[2])
	}
	if _, after, found := strings.Cut(sentence, ": "); found {
		cited = append(cited, strings.TrimSuffix(after, "."))
	}
	best, found, rivals := 0, "", 0
	walk("spec", body.Spec, func(path, value string) {
		for _, c := range cited {
			common := 0
			switch {
			case strings.Contains(value, c):
				common = len(c)
			case len(value) >= 4 && strings.Contains(c, value):
				common = len(value)
			}
			switch {
			case common >= 2 && common > best:
				best, found, rivals = common, path, 0
			case common == best && best > 0 && path != found:
				rivals++
			}
		}
	})
	if rivals > 0 {
		return ""
	}
	return found
}

// walk visits every text in a JSON value; the order of object members does not matter to its caller.
func walk(path string, v any, visit func(path, value string)) {
	switch v := v.(type) {
	case map[string]any:
		for k, x := range v {
			walk(path+"."+k, x, visit)
		}
	case []any:
		for i, x := range v {
			walk(path+"["+strconv.Itoa(i)+"]", x, visit)
		}
	case string:
		visit(path, v)
	}
}
