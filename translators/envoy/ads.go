package envoy

import (
	"bufio"
	"io"
	"strconv"

	bootstrapv3 "github.com/envoyproxy/go-control-plane/envoy/config/bootstrap/v3"
	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/chancery-gateway/chancery/translators/envoy/wirejson"
	"github.com/chancery-gateway/chancery/translators/ir"
)

// inline is the encoded size up to which a message stands on one line: a route or a cluster of ordinary size.
const inline = 512

// chunk is how much text is gathered before it is written.
const chunk = 256 << 10

// WriteADS writes ads.json: {"version": ..., "resources": {type URL: [resource, ...]}}, type URLs and names sorted, each
// resource as protobuf JSON with its "@type", indented by two blanks; a short message stands on one line. It fails as w fails, and on resources of types that are not
// linked into the program.
func WriteADS(w io.Writer, set ir.ResourceSet, version string) error {
	c := wirejson.Encoder{Options: wirejson.Options{Multiline: true, Depth: 3, Inline: inline}}
	out := bufio.NewWriterSize(w, chunk)
	out.WriteString("{\n  \"version\": " + strconv.Quote(version) + ",\n  \"resources\": {")
	for i, url := range sortedKeys(set) {
		if i > 0 {
			out.WriteByte(',')
		}
		out.WriteString("\n    " + strconv.Quote(url) + ": [")
		for j, r := range set[url] {
			if j > 0 {
				out.WriteByte(',')
			}
			out.WriteString("\n      ")
			if err := c.WriteAny(out, r.Type, r.Value); err != nil {
				return err
			}
		}
		if len(set[url]) > 0 {
			out.WriteString("\n    ")
		}
		out.WriteByte(']')
	}
	if len(set) > 0 {
		out.WriteString("\n  ")
	}
	out.WriteString("}\n}\n")
	return out.Flush()
}

// Version is the version of a whole set: a hash of the types, names and versions of its resources.
func Version(set ir.ResourceSet) string {
	hash := newCombiner()
	for _, url := range sortedKeys(set) {
		hash.add(contentHash([]byte(url)))
		for _, r := range set[url] {
			hash.add(contentHash([]byte(r.Name)))
			hash.add(contentHash([]byte(r.Version)))
		}
	}
	return version(hash.sum())
}

// WriteBootstrap writes a bootstrap as protobuf JSON, indented by two blanks.
func WriteBootstrap(w io.Writer, b *bootstrapv3.Bootstrap) error {
	wire, err := deterministic.Marshal(b)
	if err != nil {
		return err
	}
	return writeMessage(w, b.ProtoReflect().Descriptor(), wire)
}

func writeMessage(w io.Writer, d protoreflect.MessageDescriptor, wire []byte, rewrites ...wirejson.Rewrite) error {
	c := wirejson.Encoder{Options: wirejson.Options{Multiline: true, Inline: inline, Rewrites: rewrites}}
	if err := c.WriteMessage(w, d, wire); err != nil {
		return err
	}
	_, err := w.Write([]byte("\n"))
	return err
}
