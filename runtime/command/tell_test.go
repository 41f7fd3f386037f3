package command

import (
	"fmt"
	"strings"
	"testing"

	"github.com/chancery-gateway/chancery/runtime/settings"
	"github.com/chancery-gateway/chancery/snapshot"
)

// TestTell: of thousands of remarks that are alike the first are told and the others counted; no error is left out.
func TestTell(t *testing.T) {
	note, fault := &snapshot.Code{ID: "CH-TEST-001"}, &snapshot.Code{ID: "CH-TEST-002"}
	var ds []snapshot.Diagnostic
	for i := range 3000 {
		ds = append(ds, snapshot.Diagnostic{Severity: snapshot.Info, Code: note, Message: "kept", Object: snapshot.Ref{Kind: "Mapping", Name: fmt.Sprint("m", i)}})
	}
	for i := range 40 {
		ds = append(ds, snapshot.Diagnostic{Severity: snapshot.Error, Code: fault, Message: fmt.Sprintf("wrong %d.", i)})
	}
	for _, format := range []string{"text", "json"} {
		var out strings.Builder
		a := &app{err: &out, settings: &settings.Settings{LogFormat: format}}
		log := newLogger(&out, "info", format)
		a.tell(log, ds, ds[:mostAlike+1])
		got := out.String()
		for i := range 40 {
			if !strings.Contains(got, fmt.Sprintf("wrong %d.", i)) {
				t.Errorf("%s: error %d is not told", format, i)
			}
		}
		if n := strings.Count(got, "kept"); n != 2*mostAlike {
			t.Errorf("%s: %d remarks are told, want %d", format, n, 2*mostAlike)
		}
		for _, want := range map[string][]string{
			"text": {"\ninfo: the same of 2990 more [CH-TEST-001]\n", "gone: info: the same of 1 more [CH-TEST-001]\n"},
			"json": {`"more":2990`, `"more":1`},
		}[format] {
			if !strings.Contains(got, want) {
				t.Errorf("%s: %q is not told", format, want)
			}
		}
	}
}
