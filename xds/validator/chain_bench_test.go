package validator

import (
	"fmt"
	"testing"
	"time"

	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	tlsv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/transport_sockets/tls/v3"

	"github.com/chancery-gateway/chancery/translators/ir"
)

// BenchmarkHosts is the verdict over the filter chains of 5,000 TLS hosts, as there are at a start.
func BenchmarkHosts(b *testing.B) {
	v := open(b, nil)
	judge(b, v, prefix("first"))
	var envoy, own time.Duration
	var times []time.Duration
	for i := 0; b.Loop(); i++ {
		b.StopTimer()
		frame := head(fmt.Sprint("l", i), "192.0.2.1", 443)
		var units []*ir.Unit
		for k := range 5_000 {
			units = append(units, chainUnit(fmt.Sprintf("h%d-%d", i, k), frame, ciphersOf(fmt.Sprint("cert-", k))))
		}
		b.StartTimer()
		before, mine, at := childTime(v), ownTime(), time.Now()
		judge(b, v, units...)
		times = append(times, time.Since(at))
		envoy += childTime(v) - before
		own += ownTime() - mine
	}
	report(b, times)
	b.ReportMetric(float64(envoy.Milliseconds())/float64(b.N), "envoy-cpu-ms")
	b.ReportMetric(float64(own.Milliseconds())/float64(b.N), "own-cpu-ms")
}

// ciphersOf gives a chain the certificate of its host.
func ciphersOf(certificate string) func(*listenerv3.FilterChain) {
	return func(c *listenerv3.FilterChain) {
		ciphers("ECDHE-ECDSA-AES128-GCM-SHA256")(c)
		c.TransportSocket.GetTypedConfig().Value = encoded(downstreamOf(certificate))
	}
}

func downstreamOf(certificate string) *tlsv3.DownstreamTlsContext {
	return &tlsv3.DownstreamTlsContext{CommonTlsContext: &tlsv3.CommonTlsContext{TlsCertificateSdsSecretConfigs: []*tlsv3.SdsSecretConfig{overSDS(certificate)}}}
}
