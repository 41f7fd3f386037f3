package kube

import (
	"context"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/chancery-gateway/chancery/snapshot"
)

// mostMentioned bounds the Secrets that are read for one object.
const mostMentioned = 16

// Mentioned reads the Secrets that an object mentions and that no snapshot has, because nothing else mentions them: for
// whoever asks what there would be with the object. Those that cannot be read before ctx ends are left out.
func (s *Source) Mentioned(ctx context.Context, o *snapshot.Object) []*snapshot.Object {
	if silent[o.Kind] {
		return nil
	}
	var out []*snapshot.Object
	for _, c := range s.world.unread(o) {
		select {
		case s.gets <- struct{}{}: // a few at a time
		case <-ctx.Done():
			return out
		}
		secret, err := s.client.Resource(c.query.resource).Namespace(c.namespace).Get(ctx, c.name, metav1.GetOptions{})
		<-s.gets
		if err == nil {
			out = append(out, decode(secret, false).objects...)
		}
	}
	return out
}

// unread returns the Secrets that an object mentions and whose content is not known.
func (w *world) unread(o *snapshot.Object) []*content {
	w.mu.Lock()
	defer w.mu.Unlock()
	var out []*content
	seen := map[*unit]bool{}
	texts(o.Raw, func(text string) {
		for u := range w.mentions.secrets[text] {
			if !seen[u] && u.content.has == "" && len(out) < mostMentioned {
				seen[u] = true
				out = append(out, u.content)
			}
		}
	})
	return out
}
