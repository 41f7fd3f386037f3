package envoy

import (
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	gzipv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/compression/gzip/compressor/v3"
	compressorv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/compressor/v3"
	statsv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/grpc_stats/v3"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/chancery-gateway/chancery/translators/ir"
)

// compressor builds the filter that compresses answers with gzip.
func compressor(c *ir.Compressor, f *faults) *compressorv3.Compressor {
	level, known := gzipv3.Gzip_CompressionLevel_value[or(c.Level, "DEFAULT_COMPRESSION")]
	if !known {
		f.add(codeValue, "compression_level", "%q is no level", c.Level)
	}
	strategy, known := gzipv3.Gzip_CompressionStrategy_value[or(c.Strategy, "DEFAULT_STRATEGY")]
	if !known {
		f.add(codeValue, "compression_strategy", "%q is no strategy", c.Strategy)
	}
	library := &gzipv3.Gzip{
		MemoryLevel: set(c.MemoryLevel), WindowBits: set(c.WindowBits),
		CompressionLevel: gzipv3.Gzip_CompressionLevel(level), CompressionStrategy: gzipv3.Gzip_CompressionStrategy(strategy),
	}
	return &compressorv3.Compressor{
		CompressorLibrary: &corev3.TypedExtensionConfig{Name: "envoy.compression.gzip.compressor", TypedConfig: f.pack("compressor_library", library)},
		ResponseDirectionConfig: &compressorv3.Compressor_ResponseDirectionConfig{
			CommonConfig:               &compressorv3.Compressor_CommonDirectionConfig{MinContentLength: set(c.MinContentLength), ContentTypeMatcher: names(c.ContentTypes).GetPatterns()},
			DisableOnEtagHeader:        c.DisableOnETag,
			RemoveAcceptEncodingHeader: c.RemoveAcceptEncoding,
		},
	}
}

// set returns nil for 0, which stands for Envoy's default.
func set(n uint32) *wrapperspb.UInt32Value {
	if n == 0 {
		return nil
	}
	return wrapperspb.UInt32(n)
}

// grpcStats builds the filter that counts gRPC calls.
func grpcStats(c *ir.GRPCStats) *statsv3.FilterConfig {
	out := &statsv3.FilterConfig{EnableUpstreamStats: c.UpstreamStats}
	if len(c.Services) == 0 {
		out.PerMethodStatSpecifier = &statsv3.FilterConfig_StatsForAllMethods{StatsForAllMethods: wrapperspb.Bool(c.AllMethods)}
		return out
	}
	list := &corev3.GrpcMethodList{}
	for _, s := range c.Services {
		list.Services = append(list.Services, &corev3.GrpcMethodList_Service{Name: s.Name, MethodNames: s.Methods})
	}
	out.PerMethodStatSpecifier = &statsv3.FilterConfig_IndividualMethodStatsAllowlist{IndividualMethodStatsAllowlist: list}
	return out
}
