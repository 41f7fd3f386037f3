package manifest

import "testing"

// TestLocatePlainAgrees: where the quick look-up answers, the parser says the same.
func TestLocatePlainAgrees(t *testing.T) {
	texts := []string{
		"apiVersion: v1\nkind: X\nmetadata:\n  name: a\nspec:\n  prefix: /a\n  cors:\n    origins:\n    - a\n    methods: b\n  # prefix: no\n\n  weight: 3\n",
		"spec:\n    a:\n        b: 1\n    b: 2\nmetadata:\n  b: 3\n",
		"spec:\n  prefix: |\n    prefix: /no\n  weight: 1\n",
		"spec: {prefix: /a,\n  weight: 1}\n",
		"prefix: /flat\nweight: 1\n",
		"spec:\n  a: x\n   weight: no\n",
		"spec:\n  a:\n  - weight: 1\n  weight: 2\n",
		"spec:\n  a: first\n    spec:\n    weight: 2\n",
	}
	answered := 0
	for _, text := range texts {
		for _, path := range []string{"spec", "spec.prefix", "spec.weight", "spec.cors.methods", "spec.cors.origins", "spec.a.b", "spec.b", "metadata.name", "spec.none"} {
			line, found := locatePlain([]byte(text), path)
			if !found {
				continue
			}
			answered++
			root, err := parse([]byte(text))
			if err != nil {
				continue // the parser has nothing to say
			}
			want, at, rest := 0, keyNode(root), path
			for rest != "" {
				key, value, r := step(at, rest)
				if key == nil {
					t.Fatalf("%q: %s is not there, yet line %d was given", text, path, line)
				}
				want, at, rest = key.Line-1, keyNode(value), r
			}
			if line != want {
				t.Errorf("%q: %s is on line %d, not %d", text, path, want, line)
			}
		}
	}
	if answered < 12 {
		t.Errorf("only %d paths were answered", answered)
	}
}
