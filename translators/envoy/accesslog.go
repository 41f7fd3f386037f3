package envoy

import (
	accesslogv3 "github.com/envoyproxy/go-control-plane/envoy/config/accesslog/v3"
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	filev3 "github.com/envoyproxy/go-control-plane/envoy/extensions/access_loggers/file/v3"
	"google.golang.org/protobuf/types/known/structpb"

	"github.com/chancery-gateway/chancery/translators/ir"
)

// accessLog builds one access log sink. Envoy's json_format keeps the type of a value that is one command alone.
func accessLog(l *ir.AccessLog, f *faults) *accesslogv3.AccessLog {
	if l.Type != "file" {
		f.add(codeValue, "access_log", "the type %q is not file", l.Type)
	}
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
	return &accesslogv3.AccessLog{Name: "envoy.access_loggers.file",
		ConfigType: &accesslogv3.AccessLog_TypedConfig{TypedConfig: f.pack("access_log", out)}}
}
