package translators_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/chancery-gateway/chancery/snapshot"
	api "github.com/chancery-gateway/chancery/snapshot/api/v3alpha1"
)

// typed is an object as the limit decodes it: straight into the type of its kind, and nothing is checked.
type typed[T any] struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
	Metadata   struct {
		Name      string            `json:"name"`
		Namespace string            `json:"namespace"`
		Labels    map[string]string `json:"labels"`
	} `json:"metadata"`
	Spec T `json:"spec"`
	// What Secrets and EndpointSlices have.
	Type        string            `json:"type"`
	Data        map[string][]byte `json:"data"`
	AddressType string            `json:"addressType"`
	Ports       []typedPort       `json:"ports"`
	Endpoints   []struct {
		Addresses  []string        `json:"addresses"`
		Conditions map[string]bool `json:"conditions"`
	} `json:"endpoints"`
}

type typedPort struct {
	Name       string         `json:"name"`
	Port       uint32         `json:"port"`
	Protocol   string         `json:"protocol"`
	TargetPort jsontext.Value `json:"targetPort"`
}

type typedService struct {
	Type      string      `json:"type"`
	ClusterIP string      `json:"clusterIP"`
	Ports     []typedPort `json:"ports"`
}

// decodeTyped is the decode half of the physical limit: every document into a Go value by json/v2, the fastest decoder that
// Chancery links, and nothing else.
func decodeTyped(tb testing.TB, docs []string) (spent time.Duration) {
	start := cpu()
	for _, d := range docs {
		var into any
		switch head := d[:min(len(d), 100)]; {
		case strings.Contains(head, `"Mapping"`):
			into = new(typed[api.MappingSpec])
		case strings.Contains(head, `"Host"`):
			into = new(typed[api.HostSpec])
		case strings.Contains(head, `"Listener"`):
			into = new(typed[api.ListenerSpec])
		default:
			into = new(typed[typedService])
		}
		if err := json.Unmarshal([]byte(d), into); err != nil {
			tb.Fatalf("%s: %v", d, err)
		}
	}
	return cpu() - start
}

// least is the smallest of several measurements: on a shared machine all others are noise.
func least(times int, measure func() time.Duration) time.Duration {
	best := measure()
	for range times - 1 {
		best = min(best, measure())
	}
	return best
}

// BenchmarkProcess runs the whole `chancery compile FILE -o DIR` as a process of its own, JSON input to six written files, beside
// the physical limit: the same binary's start, the decoding of the input into Go values and the marshalling of the output.
// All times are the least CPU time (user and system) of the runs; peak-MB is the process's greatest resident size.
func BenchmarkProcess(b *testing.B) {
	dir := b.TempDir()
	binary := filepath.Join(dir, "chancery")
	if out, err := exec.Command("go", "build", "-o", binary, "..").CombinedOutput(); err != nil {
		b.Fatalf("%v: %s", err, out)
	}
	run := func(b *testing.B, args ...string) (time.Duration, float64) {
		c := exec.Command(binary, args...)
		if out, err := c.CombinedOutput(); err != nil {
			b.Fatalf("%v: %s", err, out)
		}
		usage := c.ProcessState.SysUsage().(*syscall.Rusage)
		return c.ProcessState.UserTime() + c.ProcessState.SystemTime(), float64(usage.Maxrss) / 1024
	}
	for _, n := range benchSizes {
		hosts := min(500, max(5, n/20))
		b.Run(fmt.Sprintf("mappings=%d", n), func(b *testing.B) {
			docs := benchDocuments(n, hosts, false)
			file := filepath.Join(dir, "objects.json")
			if err := os.WriteFile(file, []byte(strings.Join(docs, "\n")), 0o600); err != nil {
				b.Fatal(err)
			}
			ms := messages(b, newCompiler().Compile(snapshot.Empty().Derive(decodeAll(b, docs), nil, nil)))
			start := least(5, func() time.Duration { t, _ := run(b, "--help"); return t })
			decode := least(5, func() time.Duration { return decodeTyped(b, docs) })
			marshal := least(5, func() time.Duration { t, _ := marshalAll(b, ms); return t })
			best, peak := time.Duration(0), 0.0
			for b.Loop() {
				spent, size := run(b, "compile", file, "-o", filepath.Join(dir, "out"))
				if best == 0 || spent < best {
					best = spent
				}
				peak = max(peak, size)
			}
			limit := start + decode + marshal
			for unit, t := range map[string]time.Duration{"ms-cpu": best, "ms-limit": limit, "ms-start": start, "ms-decode": decode, "ms-marshal": marshal} {
				b.ReportMetric(float64(t.Microseconds())/1e3, unit)
			}
			b.ReportMetric(float64(best)/float64(limit), "x-limit")
			b.ReportMetric(peak, "peak-MB")
		})
	}
}
