package files

import (
	"bytes"
	"hash/maphash"

	"github.com/chancery-gateway/chancery/snapshot"
	"github.com/chancery-gateway/chancery/snapshot/api"
	"github.com/chancery-gateway/chancery/snapshot/manifest"
)

// content is what one file holds.
type content struct {
	name  string
	sum   uint64 // of the file's bytes
	units []unit
	// kept are the objects of the file's last good content that stay because a document broke.
	kept []placed
	// failed is set when nothing of the file could be read.
	failed *snapshot.Diagnostic
}

// unit is what one document of a file became: its object, and those of the object's annotation.
type unit struct {
	sum      uint64 // of the document's text; 0 when it has none of its own
	line     int
	objects  []placed
	findings []snapshot.Diagnostic
	// lost says that a document holds no object any more: it does not parse, or fails its schema. ref names the object
	// where that much can be read.
	lost bool
	refs []snapshot.Ref
}

// placed is an object and where it stands now. The object's own Source is of the time when it was decoded.
type placed struct {
	object *snapshot.Object
	source snapshot.Source
}

var seed = maphash.MakeSeed()

func sum(data []byte) uint64 { return maphash.Bytes(seed, data) }

// parse reads a file's documents. Documents whose text stands in before keep the objects that they have there.
func parse(name string, data []byte, before *content) *content {
	c := &content{name: name, sum: sum(data)}
	known := map[uint64]*unit{}
	if before != nil {
		for i := range before.units {
			if u := &before.units[i]; u.sum != 0 {
				known[u.sum] = u
			}
		}
	}
	docs := manifest.Documents(name, data)
	c.units = make([]unit, len(docs))
	parallel(len(docs), 256, func(i int) {
		d := &docs[i]
		u := unit{line: d.Position.Line}
		if d.Text != nil {
			u.sum = sum(d.Text)
			if was := known[u.sum]; was != nil {
				c.units[i] = was.moved(u.line - was.line)
				return
			}
		}
		if before != nil {
			// Objects outlive the edits of their file; they must not hold its whole text each time.
			d.Text, d.JSON = bytes.Clone(d.Text), bytes.Clone(d.JSON)
		}
		u.add(d, nil)
		c.units[i] = u
	})
	return c
}

// add decodes one document into the unit, and then what the object's annotation holds.
func (u *unit) add(d *manifest.Document, parent *snapshot.Object) {
	if d.Err != nil {
		u.lost = true
		u.findings = append(u.findings, *d.Err)
		return
	}
	source := snapshot.Source{Position: d.Position, Text: d.Text}
	objects, findings := api.DecodeAll(d.JSON, source, parent)
	for i := range findings {
		manifest.Resolve(source, &findings[i])
		if len(objects) == 0 && findings[i].Object.Name != "" {
			u.refs = append(u.refs, findings[i].Object)
		}
	}
	u.findings = append(u.findings, findings...)
	u.lost = u.lost || len(objects) == 0
	for _, o := range objects {
		u.objects = append(u.objects, placed{o, source})
		if finding, found := unknown(o); found {
			manifest.Resolve(source, &finding)
			u.findings = append(u.findings, finding)
		}
		if parent == nil {
			children := manifest.Annotations(o)
			for i := range children {
				u.add(&children[i], o)
			}
		}
	}
}

// same reports whether o is the unit, carried over, in the same place.
func (u *unit) same(o *unit) bool {
	return u.line == o.line && len(u.objects) == len(o.objects) && (len(u.objects) == 0 || &u.objects[0] == &o.objects[0])
}

// moved returns the unit as it stands some lines further down.
func (u *unit) moved(lines int) unit {
	n := *u
	if lines == 0 {
		return n
	}
	n.line += lines
	n.objects = append([]placed(nil), u.objects...)
	for i := range n.objects {
		n.objects[i].source.Position.Line += lines
	}
	n.findings = append([]snapshot.Diagnostic(nil), u.findings...)
	for i := range n.findings {
		n.findings[i].Position.Line += lines
	}
	return n
}

// keep carries over what the file held before and what broken documents would delete: every object that is gone when a
// document does not even tell which object it is, else those that the broken documents name.
func (c *content) keep(before *content) {
	if before == nil {
		return
	}
	anonymous := c.failed != nil
	named, present := map[snapshot.Ref]bool{}, map[snapshot.Ref]bool{}
	for i := range c.units {
		u := &c.units[i]
		if u.lost && len(u.refs) == 0 {
			anonymous = true
		}
		for _, r := range u.refs {
			named[r] = true
		}
		for _, p := range u.objects {
			present[p.object.Ref] = true
		}
	}
	if !anonymous && len(named) == 0 {
		return
	}
	for p := range before.all() {
		if r := p.object.Ref; !present[r] && (anonymous || named[r]) {
			present[r] = true
			c.kept = append(c.kept, p)
		}
	}
}

// all yields every object of the file: those that stand in it, then those kept.
func (c *content) all() func(func(placed) bool) {
	return func(yield func(placed) bool) {
		for i := range c.units {
			for _, p := range c.units[i].objects {
				if !yield(p) {
					return
				}
			}
		}
		for _, p := range c.kept {
			if !yield(p) {
				return
			}
		}
	}
}

// broken reports whether a document of the file cannot be read.
func (c *content) broken() bool {
	if c.failed != nil {
		return true
	}
	for i := range c.units {
		if c.units[i].lost {
			return true
		}
	}
	return false
}

// findings appends the file's own diagnostics.
func (c *content) findings(to []snapshot.Diagnostic) []snapshot.Diagnostic {
	if c.failed != nil {
		to = append(to, *c.failed)
	}
	unread := map[snapshot.GroupKind]bool{}
	for i := range c.units {
		for _, d := range c.units[i].findings {
			if k := d.Object.GroupKind(); d.Code == codeNotRead {
				if unread[k] {
					continue
				}
				unread[k] = true
			}
			to = append(to, d)
		}
	}
	for _, p := range c.kept {
		d := p.object.About(snapshot.Info, codeKept, "", "stays as it was before the file broke", "")
		d.Position = snapshot.Position{File: c.name}
		to = append(to, d)
	}
	return to
}
