package decision

import (
	"bytes"
	"strings"
	"testing"
)

type slow struct{ release chan struct{} }

func (s slow) Write(p []byte) (int, error) { <-s.release; return len(p), nil }

func TestLog(t *testing.T) {
	var b bytes.Buffer
	l := New(&b, 10, []string{"message"})
	l.Record(Transition{Object: "Mapping/x/one", Policy: "p", To: "error", Message: "secret"})
	l.Close()
	if got := b.String(); !strings.Contains(got, `"object":"Mapping/x/one"`) || strings.Contains(got, "secret") || !strings.Contains(got, `"message":"***"`) || strings.Count(got, "\n") != 1 {
		t.Error(got)
	}
}

// TestDrops: a sink that does not take anything costs transitions, which are counted, and never the caller's time.
func TestDrops(t *testing.T) {
	s := slow{make(chan struct{})}
	l := New(s, 2, nil)
	for range 10 {
		l.Record(Transition{})
	}
	if _, dropped := l.Counts(); dropped < 7 {
		t.Errorf("%d dropped", dropped)
	}
	close(s.release)
	l.Close()
	if written, dropped := l.Counts(); written+dropped != 10 {
		t.Errorf("%d written and %d dropped", written, dropped)
	}
}
