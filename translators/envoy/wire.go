package envoy

import (
	"encoding/binary"
	"encoding/hex"
	"strconv"

	"github.com/cespare/xxhash/v2"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
)

// Field numbers that are spliced: in protobuf, encodings of fields concatenate.
const (
	fieldRoutes       protowire.Number = 3 // VirtualHost.routes
	fieldVirtualHosts protowire.Number = 2 // RouteConfiguration.virtual_hosts
	fieldChains       protowire.Number = 3 // Listener.filter_chains
)

// framed returns the encoding of a message as a length-delimited field, and the hash of the message's own bytes.
func (f *faults) framed(path string, number protowire.Number, m proto.Message) ([]byte, uint64) {
	size := deterministic.Size(m)
	b := make([]byte, 0, size+protowire.SizeTag(number)+protowire.SizeVarint(uint64(size)))
	b = protowire.AppendVarint(protowire.AppendTag(b, number, protowire.BytesType), uint64(size))
	start := len(b)
	b, err := proto.MarshalOptions{Deterministic: true, UseCachedSize: true}.MarshalAppend(b, m)
	if err != nil {
		f.add(codeRule, path, "%s", err)
		return nil, 0
	}
	return b, contentHash(b[start:])
}

func appendFramed(b []byte, number protowire.Number, value []byte) []byte {
	return protowire.AppendBytes(protowire.AppendTag(b, number, protowire.BytesType), value)
}

// contentHash is the hash of a unit's own bytes.
func contentHash(b []byte) uint64 { return xxhash.Sum64(b) }

// combiner hashes a sequence of hashes: what is spliced of units is hashed by its units' hashes.
type combiner struct {
	digest *xxhash.Digest
	buffer [512]byte
	used   int
}

func newCombiner() *combiner { return &combiner{digest: xxhash.New()} }

func (c *combiner) add(h uint64) {
	if c.used == len(c.buffer) {
		c.flush()
	}
	binary.LittleEndian.PutUint64(c.buffer[c.used:], h)
	c.used += 8
}

func (c *combiner) flush() {
	c.digest.Write(c.buffer[:c.used])
	c.used = 0
}

func (c *combiner) sum() uint64 {
	c.flush()
	return c.digest.Sum64()
}

// version writes a hash as a resource version.
func version(h uint64) string {
	var b [8]byte
	binary.BigEndian.PutUint64(b[:], h)
	return hex.EncodeToString(b[:])
}

// leftOut and closed say in diagnostics what became of a unit.
const (
	leftOut = "is left out"
	closed  = "answers 503"
)

func unitName(kind, name string) string { return kind + " " + strconv.Quote(name) }
