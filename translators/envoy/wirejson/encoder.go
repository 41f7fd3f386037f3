package wirejson

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"slices"

	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"
)

// Options say how the text looks.
type Options struct {
	// Multiline puts each element on a line of its own, indented by two blanks; else the text is compact.
	Multiline bool
	// Depth is the indentation level at which the value begins; it concerns the lines after the first.
	Depth int
	// Inline is the greatest encoded size, in bytes, of a message that stands on one line in multi-line text.
	Inline int
	// Rewrites put another encoding in the place of each message of a type.
	Rewrites []Rewrite
}

// Rewrite makes the encoding to write from one that is found. To keeps its argument unchanged, and may return it.
type Rewrite struct {
	Of protoreflect.MessageDescriptor
	To func(wire []byte) ([]byte, error)
}

// Encoder transcodes messages one after the other and keeps its work space. The zero value writes compact text. It is not safe
// for concurrent use.
type Encoder struct {
	Options
	e encoder
	// text is where WriteMessage and WriteAny gather a chunk.
	text []byte
}

// AppendMessage appends the JSON form of the message of type d that wire encodes. It fails on malformed encodings, text that is not
// UTF-8, packed messages of unknown types, and well-known types whose value has no JSON form; dst is then to be thrown away. What a
// later value of the same field or oneof replaces is not looked into.
func (c *Encoder) AppendMessage(dst []byte, d protoreflect.MessageDescriptor, wire []byte) ([]byte, error) {
	return c.run(dst, func(e *encoder) error { return e.message(tableOf(d), wire) })
}

// AppendAny appends the JSON form of a packed message: the message's fields behind "@type".
func (c *Encoder) AppendAny(dst []byte, typeURL string, wire []byte) ([]byte, error) {
	return c.run(dst, func(e *encoder) error { return e.packed([]byte(typeURL), wire) })
}

// WriteMessage writes what AppendMessage appends, list element by list element, so that the text is never held as a whole. It
// fails as w fails, too.
func (c *Encoder) WriteMessage(w io.Writer, d protoreflect.MessageDescriptor, wire []byte) error {
	return c.write(w, func(e *encoder) error { return e.message(tableOf(d), wire) })
}

// WriteAny writes what AppendAny appends, as WriteMessage does.
func (c *Encoder) WriteAny(w io.Writer, typeURL string, wire []byte) error {
	return c.write(w, func(e *encoder) error { return e.packed([]byte(typeURL), wire) })
}

func (c *Encoder) write(w io.Writer, write func(*encoder) error) error {
	c.e.w = w
	out, err := c.run(c.text[:0], write)
	c.text, c.e.w = out[:0], nil
	if err == nil {
		_, err = w.Write(out)
	}
	return err
}

// chunk is how much text is gathered before it is written.
const chunk = 256 << 10

func (c *Encoder) run(dst []byte, write func(*encoder) error) ([]byte, error) {
	e := &c.e
	if len(e.rewrites) != len(c.Rewrites) {
		e.rewrites = nil
		for _, r := range c.Rewrites {
			e.rewrites = append(e.rewrites, rewrite{tableOf(r.Of), r.To})
		}
	}
	e.out, e.multiline, e.inline, e.depth, e.levels, e.discarded = dst, c.Multiline, c.Inline, c.Depth, 0, 0
	e.entries, e.heads = e.entries[:0], e.heads[:0]
	err := write(e)
	out := e.out
	e.out = nil
	return out, err
}

// maxLevels is protobuf's own limit for nested messages.
const maxLevels = protowire.DefaultRecursionLimit

var errDepth = errors.New("wirejson: messages are nested too deeply")

type rewrite struct {
	of *table
	to func([]byte) ([]byte, error)
}

type encoder struct {
	out       []byte
	w         io.Writer // where full chunks of out go; nil for nowhere
	rewrites  []rewrite
	multiline bool
	depth     int
	inline    int
	levels    int
	entries   []entry
	heads     []int32
	types     map[string]*table
	// discarded counts values that a later one has replaced; nobody looks into them.
	discarded int
}

// short switches to one line for a message that is small enough; long switches back.
func (e *encoder) short(wire []byte) bool {
	if !e.multiline || e.inline == 0 || len(wire) > e.inline {
		return false
	}
	e.multiline = false
	return true
}

func (e *encoder) long() { e.multiline = true }

// rewritten returns the encoding to write in the place of wire.
func (e *encoder) rewritten(t *table, wire []byte) ([]byte, error) {
	for i := range e.rewrites {
		if e.rewrites[i].of == t {
			return e.rewrites[i].to(wire)
		}
	}
	return wire, nil
}

// message writes one message in whatever form its type has.
func (e *encoder) message(t *table, wire []byte) error {
	wire, err := e.rewritten(t, wire)
	if err != nil {
		return err
	}
	if e.short(wire) {
		defer e.long()
	}
	if t.wellKnown != nil {
		return t.wellKnown(e, t, wire)
	}
	e.open('{')
	empty := true
	if err = e.fields(t, wire, &empty); err != nil {
		return err
	}
	e.close('}', empty)
	return nil
}

// fields writes the members of an object.
func (e *encoder) fields(t *table, wire []byte, empty *bool) error {
	f, err := e.parse(t, wire)
	if err != nil {
		return err
	}
	for i := range t.fields {
		at := e.head(f, i)
		if at < 0 {
			continue
		}
		fd := &t.fields[i]
		switch {
		case fd.mapKey != nil:
			e.member(fd, empty)
			err = e.mapping(fd, at)
		case fd.repeated:
			e.member(fd, empty)
			err = e.list(fd, at)
		case fd.kind == protoreflect.MessageKind:
			e.member(fd, empty)
			var whole []byte
			if whole, err = e.merged(at); err == nil {
				err = e.message(fd.table(), whole)
			}
		default:
			x := e.entries[at]
			if !fd.presence && zero(fd.kind, &x) {
				continue
			}
			e.member(fd, empty)
			err = e.scalar(fd, x.num, x.bytes)
		}
		if err != nil {
			return err
		}
	}
	e.pop(f)
	return nil
}

// merged returns the encoding of a singular message that may have come in several pieces, each of which has to be well-formed.
func (e *encoder) merged(at int32) ([]byte, error) {
	first := e.entries[at]
	if first.next < 0 {
		return first.bytes, nil
	}
	var all []byte
	for ; at >= 0; at = e.entries[at].next {
		if err := wellFormed(e.entries[at].bytes); err != nil {
			return nil, err
		}
		all = append(all, e.entries[at].bytes...)
	}
	return all, nil
}

func wellFormed(wire []byte) error {
	for len(wire) > 0 {
		_, _, n := protowire.ConsumeField(wire)
		if n < 0 {
			return protowire.ParseError(n)
		}
		wire = wire[n:]
	}
	return nil
}

// list writes a repeated field; scalars come packed or one by one.
func (e *encoder) list(fd *field, at int32) error {
	e.open('[')
	empty := true
	for ; at >= 0; at = e.entries[at].next {
		x := e.entries[at]
		if fd.wire == protowire.BytesType || x.bytes == nil {
			e.element(&empty)
			if err := e.value(fd, x.num, x.bytes); err != nil {
				return err
			}
			if e.w != nil && len(e.out) >= chunk {
				if _, err := e.w.Write(e.out); err != nil {
					return err
				}
				e.out = e.out[:0]
			}
			continue
		}
		for rest := x.bytes; len(rest) > 0; {
			num, n := consume(fd.wire, rest)
			if n < 0 {
				return protowire.ParseError(n)
			}
			rest = rest[n:]
			e.element(&empty)
			if err := e.scalar(fd, num, nil); err != nil {
				return err
			}
		}
	}
	e.close(']', empty)
	return nil
}

func consume(t protowire.Type, b []byte) (uint64, int) {
	switch t {
	case protowire.VarintType:
		return protowire.ConsumeVarint(b)
	case protowire.Fixed32Type:
		v, n := protowire.ConsumeFixed32(b)
		return uint64(v), n
	default:
		return protowire.ConsumeFixed64(b)
	}
}

// value writes a list element or map value.
func (e *encoder) value(fd *field, num uint64, b []byte) error {
	if fd.kind == protoreflect.MessageKind {
		return e.message(fd.table(), b)
	}
	return e.scalar(fd, num, b)
}

// item is one entry of a map.
type item struct {
	key, value entry
	discarded  int
}

// mapping writes a map with its keys sorted; the last of several entries of one key counts.
func (e *encoder) mapping(fd *field, at int32) error {
	var items []item
	for ; at >= 0; at = e.entries[at].next {
		x, err := mapItem(fd, e.entries[at].bytes)
		if err != nil {
			return err
		}
		e.discarded += x.discarded
		items = append(items, x)
	}
	slices.SortStableFunc(items, func(a, b item) int { return compareKeys(fd.mapKey.kind, &a.key, &b.key) })
	e.open('{')
	empty := true
	for i := range items {
		x := &items[i]
		if i+1 < len(items) && compareKeys(fd.mapKey.kind, &x.key, &items[i+1].key) == 0 {
			e.discarded++
			continue
		}
		e.element(&empty)
		if err := e.mapKey(fd.mapKey, &x.key); err != nil {
			return err
		}
		if err := e.value(fd.mapValue, x.value.num, x.value.bytes); err != nil {
			return err
		}
	}
	e.close('}', empty)
	return nil
}

func mapItem(fd *field, wire []byte) (item, error) {
	var x item
	for len(wire) > 0 {
		number, typ, n := consumeTag(wire)
		if n < 0 {
			return x, protowire.ParseError(n)
		}
		wire = wire[n:]
		side, to := fd.mapKey, &x.key
		if number == 2 {
			side, to = fd.mapValue, &x.value
		}
		if number > 2 || typ != side.wire {
			n = protowire.ConsumeFieldValue(number, typ, wire)
		} else if typ == protowire.BytesType {
			var b []byte
			b, n = protowire.ConsumeBytes(wire)
			if n >= 0 && side.kind == protoreflect.MessageKind && to.bytes != nil {
				if err := cmp.Or(wellFormed(to.bytes), wellFormed(b)); err != nil {
					return x, err
				}
				b = slices.Concat(to.bytes, b)
			} else if to.bytes != nil {
				x.discarded++
			}
			to.bytes = b
		} else {
			to.num, n = consume(typ, wire)
		}
		if n < 0 {
			return x, protowire.ParseError(n)
		}
		wire = wire[n:]
	}
	return x, nil
}

// packed writes the message inside an Any.
func (e *encoder) packed(typeURL, wire []byte) error {
	if len(typeURL) == 0 {
		if len(wire) == 0 {
			e.out = append(e.out, "{}"...)
			return nil
		}
		return errors.New("wirejson: a packed message has a value but no type")
	}
	t, err := e.resolve(typeURL)
	if err != nil {
		return err
	}
	if wire, err = e.rewritten(t, wire); err != nil {
		return err
	}
	if e.short(wire) {
		defer e.long()
	}
	e.open('{')
	empty := true
	e.element(&empty)
	e.key(`"@type":`)
	if err := e.text(typeURL); err != nil {
		return err
	}
	if t.wellKnown == nil {
		err = e.fields(t, wire, &empty)
	} else {
		e.element(&empty)
		e.key(`"value":`)
		err = t.wellKnown(e, t, wire)
	}
	if err != nil {
		return err
	}
	e.close('}', empty)
	return nil
}

func (e *encoder) resolve(typeURL []byte) (*table, error) {
	if t := e.types[string(typeURL)]; t != nil {
		return t, nil
	}
	m, err := protoregistry.GlobalTypes.FindMessageByURL(string(typeURL))
	if err != nil {
		return nil, fmt.Errorf("wirejson: packed message of type %q: %w", typeURL, err)
	}
	if e.types == nil {
		e.types = map[string]*table{}
	}
	t := tableOf(m.Descriptor())
	e.types[string(typeURL)] = t
	return t, nil
}
