package envoy

import (
	accesslogv3 "github.com/envoyproxy/go-control-plane/envoy/config/accesslog/v3"
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	filev3 "github.com/envoyproxy/go-control-plane/envoy/extensions/access_loggers/file/v3"
	grpcv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/access_loggers/grpc/v3"
	"google.golang.org/protobuf/types/known/structpb"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/chancery-gateway/chancery/translators/ir"
)

// accessLogs builds the sinks; those whose service does not exist are left out.
func accessLogs(list []ir.AccessLog, present func(string) bool, f *faults) []*accesslogv3.AccessLog {
	var out []*accesslogv3.AccessLog
	for i := range list {
		if l := &list[i]; l.Cluster == "" || present(l.Cluster) {
			out = append(out, accessLog(l, f))
		}
	}
	return out
}

// accessLog builds one access log sink.
func accessLog(l *ir.AccessLog, f *faults) *accesslogv3.AccessLog {
	var name string
	var config validated
	switch l.Type {
	case "file":
		name, config = "envoy.access_loggers.file", fileLog(l, f)
	case "grpc_http":
		name, config = "envoy.access_loggers.http_grpc", &grpcv3.HttpGrpcAccessLogConfig{
			CommonConfig:                    grpcLog(l),
			AdditionalRequestHeadersToLog:   l.RequestHeaders,
			AdditionalResponseHeadersToLog:  l.ResponseHeaders,
			AdditionalResponseTrailersToLog: l.Trailers,
		}
	case "grpc_tcp":
		name, config = "envoy.access_loggers.tcp_grpc", &grpcv3.TcpGrpcAccessLogConfig{CommonConfig: grpcLog(l)}
	default:
		f.add(codeValue, "access_log", "the type %q is none of file, grpc_http, grpc_tcp", l.Type)
		return nil
	}
	return &accesslogv3.AccessLog{Name: name, ConfigType: &accesslogv3.AccessLog_TypedConfig{TypedConfig: f.pack("access_log", config)}}
}

// fileLog builds a log to a file. Envoy's json_format keeps the type of a value that is one command alone.
func fileLog(l *ir.AccessLog, f *faults) *filev3.FileAccessLog {
	file("access_log.path", l.Path, f)
	out := &filev3.FileAccessLog{Path: l.Path}
	switch {
	case len(l.JSON) > 0:
		for _, k := range sortedKeys(l.JSON) {
			format("access_log.log_format.json_format."+k, l.JSON[k], f)
		}
		fields := &structpb.Struct{Fields: make(map[string]*structpb.Value, len(l.JSON))}
		for k, v := range l.JSON {
			fields.Fields[k] = structpb.NewStringValue(v)
		}
		out.AccessLogFormat = &filev3.FileAccessLog_LogFormat{LogFormat: &corev3.SubstitutionFormatString{
			Format: &corev3.SubstitutionFormatString_JsonFormat{JsonFormat: fields}}}
	case l.Format != "":
		format("access_log.log_format.text_format_source", l.Format, f)
		out.AccessLogFormat = &filev3.FileAccessLog_LogFormat{LogFormat: &corev3.SubstitutionFormatString{
			Format: &corev3.SubstitutionFormatString_TextFormatSource{TextFormatSource: &corev3.DataSource{
				Specifier: &corev3.DataSource_InlineString{InlineString: l.Format}}}}}
	}
	return out
}

// grpcLog builds what both gRPC logs share.
func grpcLog(l *ir.AccessLog) *grpcv3.CommonGrpcAccessLogConfig {
	out := &grpcv3.CommonGrpcAccessLogConfig{
		LogName:             l.LogName,
		TransportApiVersion: corev3.ApiVersion_V3,
		GrpcService:         &corev3.GrpcService{TargetSpecifier: &corev3.GrpcService_EnvoyGrpc_{EnvoyGrpc: &corev3.GrpcService_EnvoyGrpc{ClusterName: l.Cluster}}},
	}
	if l.FlushMillis != 0 {
		out.BufferFlushInterval = millis(l.FlushMillis)
	}
	if l.FlushBytes != 0 {
		out.BufferSizeBytes = wrapperspb.UInt32(l.FlushBytes)
	}
	return out
}
