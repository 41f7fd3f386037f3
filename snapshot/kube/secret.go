package kube

import (
	"context"
	"encoding/json"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/chancery-gateway/chancery/snapshot"
)

// Of Secrets and ConfigMaps only the names are watched. The content of one is read once some object mentions its name, anywhere in its
// text: that may read one too many, but never one too few, whatever kinds there will be.

// mentions are the texts of objects that may be names of Secrets, and the Secrets by their names.
type mentions struct {
	// texts counts the objects that have a text in them.
	texts map[string]int
	// secrets are the units of Secrets by name, in whatever namespace.
	secrets map[string]map[*unit]struct{}
	// reading are those whose content is being read, since when.
	reading map[*unit]time.Time
}

// content is what is known of a Secret beside its name.
type content struct {
	query     *query
	namespace string
	name      string
	// has is the resourceVersion of the content that the unit's objects were made of.
	has string
}

// silent are the kinds that cannot mention a Secret and are many.
var silent = map[string]bool{
	"Mapping": true, "TCPMapping": true, "Service": true, "EndpointSlice": true, "Endpoints": true, "Namespace": true, "Secret": true, "ConfigMap": true,
	"HTTPRoute": true, "GRPCRoute": true, "TLSRoute": true, "TCPRoute": true, "UDPRoute": true,
}

// longestName is the most that a namespace and a name with a dot between them have.
const longestName = 253 + 1 + 63

// texts calls found for each word in an object that may name a Secret, as a whole and up to its last dot ("name.namespace").
// The texts of policies and scripts have words too.
func texts(raw []byte, found func(string)) {
	d := json.NewDecoder(strings.NewReader(string(raw)))
	for {
		token, err := d.Token()
		if err != nil {
			return // the end; what was decoded before is whole
		}
		text, _ := token.(string)
		for _, name := range strings.FieldsFunc(text, func(c rune) bool {
			return !(c >= 'a' && c <= 'z' || c >= '0' && c <= '9' || c == '-' || c == '.')
		}) {
			if len(name) > longestName {
				continue
			}
			found(name)
			if i := strings.LastIndexByte(name, '.'); i > 0 {
				found(name[:i])
			}
		}
	}
}

// alwaysRead are the Secrets that count without being mentioned.
var alwaysRead = []string{"fallback-self-signed-cert"}

func newMentions() mentions {
	m := mentions{texts: map[string]int{}, secrets: map[string]map[*unit]struct{}{}, reading: map[*unit]time.Time{}}
	for _, name := range alwaysRead {
		m.texts[name] = 1
	}
	return m
}

// mention notes the texts of objects that came (by = 1) or went (by = -1).
func (w *world) mention(objects []*snapshot.Object, by int) {
	for _, o := range objects {
		if !silent[o.Kind] {
			w.mentionTexts(o, by)
		}
	}
}

func (w *world) mentionTexts(o *snapshot.Object, by int) {
	texts(o.Raw, func(text string) {
		n := w.mentions.texts[text] + by
		if n > 0 {
			w.mentions.texts[text] = n
		} else {
			delete(w.mentions.texts, text)
		}
		if n == 1 && by == 1 || n == 0 {
			for u := range w.mentions.secrets[text] {
				w.look(u)
			}
		}
	})
}

// setSecret puts now in place of before; either may be nil. What is known of the content stays until it has been read anew.
func (w *world) setSecret(before, now *unit) {
	if before != nil {
		delete(w.mentions.secrets[before.content.name], before)
		if len(w.mentions.secrets[before.content.name]) == 0 {
			delete(w.mentions.secrets, before.content.name)
		}
		delete(w.mentions.reading, before)
		delete(w.talking, before)
		if now == nil {
			for _, o := range before.objects {
				w.release(o)
			}
			return
		}
		now.objects, now.findings, now.content.has = before.objects, before.findings, before.content.has
		if len(now.findings) > 0 {
			w.talking[now] = struct{}{}
		}
	}
	named := w.mentions.secrets[now.content.name]
	if named == nil {
		named = map[*unit]struct{}{}
		w.mentions.secrets[now.content.name] = named
	}
	named[now] = struct{}{}
	w.look(now)
}

// look begins to read the content of a Secret that is mentioned, and forgets that of one that is not.
func (w *world) look(u *unit) {
	c := u.content
	all := c.query.source.options.AllSecrets && c.query.what.GroupKind() == snapshot.KindSecret
	if !all && w.mentions.texts[c.name] == 0 {
		for _, o := range u.objects {
			w.release(o)
		}
		delete(w.talking, u)
		delete(w.mentions.reading, u)
		u.objects, u.findings, c.has = nil, nil, ""
		return
	}
	if _, under := w.mentions.reading[u]; under || c.has == u.version {
		return
	}
	w.mentions.reading[u] = time.Now()
	s := c.query.source
	s.running.Go(func() { s.readSecret(u) })
}

// readSecret reads the content of a Secret until that has succeeded or is not wanted any more.
func (s *Source) readSecret(u *unit) {
	c, w := u.content, s.world
	for pause := 50 * time.Millisecond; ; pause = min(2*pause, 10*time.Second) {
		w.mu.Lock()
		ctx := c.query.context
		_, wanted := w.mentions.reading[u]
		w.mu.Unlock()
		if !wanted || ctx.Err() != nil {
			return
		}
		s.gets <- struct{}{} // a few at a time
		o, err := s.client.Resource(c.query.resource).Namespace(c.namespace).Get(ctx, c.name, metav1.GetOptions{})
		<-s.gets
		if err == nil {
			has := o.GetResourceVersion()
			w.takeSecret(u, decode(o, false), has)
			s.poke()
			return
		}
		if apierrors.IsNotFound(err) {
			w.takeSecret(u, nil, u.version) // the watch will say so too
			s.poke()
			return
		}
		if apierrors.IsForbidden(err) {
			c.query.report(codeForbidden, true, 3*time.Second, c.query.what.Name+" may be listed but not read: "+err.Error())
		}
		sleep(ctx, pause)
	}
}

// takeSecret puts the content in place of what was known of it.
func (w *world) takeSecret(u, read *unit, has string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if _, wanted := w.mentions.reading[u]; !wanted {
		return
	}
	delete(w.mentions.reading, u)
	u.content.has = has
	if read == nil {
		return
	}
	before := &unit{objects: u.objects, findings: u.findings}
	delete(w.talking, u)
	w.set(before, read)
	delete(w.talking, read)
	u.objects, u.findings = read.objects, read.findings
	if len(u.findings) > 0 {
		w.talking[u] = struct{}{}
	}
}

// awaits returns how long the next snapshot should wait for Secrets whose content is not known at all, most for each.
func (w *world) awaits(most time.Duration) time.Duration {
	w.mu.Lock()
	defer w.mu.Unlock()
	longest := time.Duration(0)
	for u, since := range w.mentions.reading {
		if u.content.has == "" {
			longest = max(longest, most-time.Since(since))
		}
	}
	return longest
}

func sleep(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-timer.C:
	}
}
