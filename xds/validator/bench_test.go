package validator

import (
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	matcherv3 "github.com/envoyproxy/go-control-plane/envoy/type/matcher/v3"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/chancery-gateway/chancery/translators/ir"
)

// usual is a route of the shape that the front ends write.
func usual(name string, change int) *ir.Unit {
	r := &routev3.Route{Name: name, Match: &routev3.RouteMatch{PathSpecifier: &routev3.RouteMatch_Prefix{Prefix: "/" + name + "/"}},
		Action: &routev3.Route_Route{Route: &routev3.RouteAction{ClusterSpecifier: &routev3.RouteAction_Cluster{Cluster: "cluster_" + name},
			PrefixRewrite: "/", Timeout: durationpb.New(time.Duration(3000+change) * time.Millisecond)}},
		RequestHeadersToAdd: []*corev3.HeaderValueOption{{Header: &corev3.HeaderValue{Key: "x-client", Value: "%DOWNSTREAM_REMOTE_ADDRESS_WITHOUT_PORT%"}}},
	}
	if len(name)%5 == 0 {
		r.Match.Headers = []*routev3.HeaderMatcher{{Name: "x-user", HeaderMatchSpecifier: &routev3.HeaderMatcher_StringMatch{StringMatch: &matcherv3.StringMatcher{
			MatchPattern: &matcherv3.StringMatcher_Exact{Exact: "someone"}}}}}
	}
	return unit(ir.UnitRoute, name, r)
}

// childTime and childMemory are the processor time and resident memory of the validating Envoy.
func childTime(v *Validator) time.Duration { return processorTime(v.Status().PID) }

func childMemory(b testing.TB, v *Validator) float64 {
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/statm", v.Status().PID))
	if err != nil {
		b.Fatal(err)
	}
	pages, err := strconv.Atoi(strings.Fields(string(data))[1])
	if err != nil {
		b.Fatal(err)
	}
	return float64(pages*os.Getpagesize()) / (1 << 20)
}

func ownTime() time.Duration {
	var u syscall.Rusage
	syscall.Getrusage(syscall.RUSAGE_SELF, &u) // cannot fail
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// BenchmarkOneRoute is the verdict for one changed route after so many others.
func BenchmarkOneRoute(b *testing.B) {
	for _, n := range []int{100, 5_000, 20_000} {
		b.Run(fmt.Sprintf("routes=%d", n), func(b *testing.B) {
			v := open(b, nil)
			var units []*ir.Unit
			for i := range n {
				units = append(units, usual(fmt.Sprint("r", i), 0), eds(fmt.Sprint("c", i), nil))
			}
			judge(b, v, units...)
			var times []time.Duration
			for i := 0; b.Loop(); i++ {
				u := usual("changed", i+1)
				at := time.Now()
				judge(b, v, u)
				times = append(times, time.Since(at))
			}
			report(b, times)
			b.ReportMetric(childMemory(b, v), "envoy-MiB")
		})
	}
}

func report(b *testing.B, times []time.Duration) {
	b.Helper()
	slices.Sort(times)
	b.ReportMetric(float64(times[len(times)/2].Microseconds())/1000, "median-ms")
	b.ReportMetric(float64(times[len(times)*99/100].Microseconds())/1000, "p99-ms")
}

// BenchmarkWholeState is everything from nothing at 5,000 routes, 5,000 clusters and 500 hosts: in an Envoy that runs, and with its
// start. Clusters as a cluster of Services has them differ in names alone; "all different" is what no memory helps against.
func BenchmarkWholeState(b *testing.B) {
	named := func(round, i int) *ir.Unit { return eds(fmt.Sprintf("c%d-%d", round, i), nil) }
	resolved := func(round, i int) *ir.Unit {
		return eds(fmt.Sprintf("c%d-%d", round, i), func(c *clusterv3.Cluster) {
			c.ConnectTimeout = durationpb.New(time.Second + time.Duration(round)*time.Millisecond)
			fixed(c, clusterv3.Cluster_STRICT_DNS, fmt.Sprintf("c%d.example.com", i))
		})
	}
	different := func(round, i int) *ir.Unit {
		return eds(fmt.Sprintf("c%d-%d", round, i), func(c *clusterv3.Cluster) {
			c.ConnectTimeout = durationpb.New(time.Duration(5_000*round+i+1) * time.Millisecond)
		})
	}
	for _, c := range []struct {
		name    string
		start   bool
		cluster func(round, i int) *ir.Unit
	}{
		{"running, routes", false, nil}, {"running, clusters of endpoints", false, named}, {"running, clusters of names", false, resolved},
		{"running, clusters all different", false, different}, {"with start, clusters of names", true, resolved}, {"with start, clusters all different", true, different},
	} {
		state := func(round int) (units []*ir.Unit) {
			for i := range 5_000 {
				units = append(units, usual(fmt.Sprint("r", i), round))
				if c.cluster == nil {
					continue
				}
				units = append(units, c.cluster(round, i))
				if i%10 == 0 {
					units = append(units, unit(ir.UnitHost, "h", &routev3.VirtualHost{Name: fmt.Sprint("h", i), Domains: []string{fmt.Sprintf("h%d-%d.example.com", round, i)}}))
				}
			}
			return units
		}
		b.Run(c.name, func(b *testing.B) {
			var v *Validator
			if !c.start {
				v = open(b, nil)
				judge(b, v, prefix("first"))
			}
			var envoy, own time.Duration
			var times []time.Duration
			for i := 0; b.Loop(); i++ {
				b.StopTimer()
				units := state(i + 1)
				b.StartTimer()
				at := time.Now()
				if c.start {
					v = open(b, nil)
				}
				before, mine := time.Duration(0), ownTime()
				if !c.start {
					before = childTime(v)
				}
				judge(b, v, units...)
				times = append(times, time.Since(at))
				envoy += childTime(v) - before
				own += ownTime() - mine
				if c.start {
					b.StopTimer()
					if err := v.Close(); err != nil {
						b.Fatal(err)
					}
					b.StartTimer()
				}
			}
			report(b, times)
			b.ReportMetric(float64(envoy.Milliseconds())/float64(b.N), "envoy-cpu-ms")
			b.ReportMetric(float64(own.Milliseconds())/float64(b.N), "own-cpu-ms")
		})
	}
}
