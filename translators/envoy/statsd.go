package envoy

import (
	"fmt"
	"net/netip"
	"time"

	bootstrapv3 "github.com/envoyproxy/go-control-plane/envoy/config/bootstrap/v3"
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	metricsv3 "github.com/envoyproxy/go-control-plane/envoy/config/metrics/v3"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/chancery-gateway/chancery/translators/ir"
)

// sendStatistics has Envoy send its statistics to a receiver (Envoy docs: StatsdSink, DogStatsdSink).
func sendStatistics(out *bootstrapv3.Bootstrap, to *ir.Statsd) error {
	if _, err := netip.ParseAddr(to.Address); err != nil {
		return fmt.Errorf("bootstrap: statsd: %q is no IP address, and Envoy looks up no names for it", to.Address)
	}
	at := address(to.Address, to.Port)
	at.GetSocketAddress().Protocol = corev3.SocketAddress_UDP
	name, message := "envoy.stat_sinks.statsd", proto.Message(&metricsv3.StatsdSink{StatsdSpecifier: &metricsv3.StatsdSink_Address{Address: at}})
	if to.Datadog {
		name, message = "envoy.stat_sinks.dog_statsd", &metricsv3.DogStatsdSink{DogStatsdSpecifier: &metricsv3.DogStatsdSink_Address{Address: at}}
		if to.EntityID != "" {
			out.StatsConfig = &metricsv3.StatsConfig{StatsTags: []*metricsv3.TagSpecifier{
				{TagName: "dd.internal.entity_id", TagValue: &metricsv3.TagSpecifier_FixedValue{FixedValue: to.EntityID}},
			}}
		}
	}
	config, err := anypb.New(message)
	if err != nil {
		return fmt.Errorf("bootstrap: statsd: %w", err)
	}
	out.StatsSinks = []*metricsv3.StatsSink{{Name: name, ConfigType: &metricsv3.StatsSink_TypedConfig{TypedConfig: config}}}
	if to.FlushMillis > 0 {
		out.StatsFlushInterval = durationpb.New(time.Duration(to.FlushMillis) * time.Millisecond)
	}
	return nil
}
