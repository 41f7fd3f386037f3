package emissary

import (
	"strings"
	"testing"
)

// The table follows Emissary's own for service names (test_qualify_service.py, svc_test.go); the gateway's namespace is "default".
func TestQualify(t *testing.T) {
	for _, c := range []struct{ text, namespace, want string }{
		{"backoffice", "", "backoffice"},
		{"backoffice", "default", "backoffice"},
		{"backoffice", "otherns", "backoffice.otherns"},
		{"backoffice.otherns", "default", "backoffice.otherns"},
		{"backoffice.otherns", "third", "backoffice.otherns"},
		{"backoffice:80", "otherns", "backoffice.otherns:80"},
		{"BackOffice:80", "otherns", "backoffice.otherns:80"},
		{"http://backoffice", "otherns", "http://backoffice.otherns"},
		{"HTTPS://backoffice:443", "otherns", "https://backoffice.otherns:443"},
		{"https://backoffice.otherns:443/", "x", "https://backoffice.otherns:443"},
		{"localhost", "otherns", "localhost"},
		{"localhost:8000", "otherns", "localhost:8000"},
		{"localhost.otherns", "x", "localhost.otherns"},
		{"127.0.0.1:8080", "otherns", "127.0.0.1:8080"},
		{"[fe80::e022:9cff:fecc:c7c4]", "other", "[fe80::e022:9cff:fecc:c7c4]"},
		{"https://[fe80::e022:9cff:fecc:c7c4]:443", "other", "https://[fe80::e022:9cff:fecc:c7c4]:443"},
		{"https://[fe80::e022:9cff:fecc:c7c4%25zone]:443", "other", "https://[fe80::e022:9cff:fecc:c7c4%zone]:443"},
		{"back%6fffice", "ns", "backoffice.ns"},
		{"http://backoffice/path?q", "ns", "http://backoffice.ns"},
		{"//backoffice", "ns", "backoffice.ns"},
	} {
		s, err := parseService(c.text)
		if err != nil {
			t.Errorf("%s: %v", c.text, err)
			continue
		}
		s = s.qualify(c.namespace, "default")
		got := s.host
		if s.ip && strings.Contains(s.host, ":") {
			got = "[" + got + "]"
		}
		if s.port != 0 {
			got = s.hostPort()
		}
		if s.scheme != "" {
			got = s.scheme + "://" + got
		}
		if got != c.want {
			t.Errorf("%s in %q: got %s, want %s", c.text, c.namespace, got, c.want)
		}
	}
}

func TestParseServiceRefuses(t *testing.T) {
	for text, part := range map[string]string{
		"example.org}:443":      "character '}'",
		"":                      "there is none",
		":80":                   "there is none",
		"ftp://backend":         "unknown scheme",
		"backend:":              "invalid port",
		"backend:http":          "invalid port",
		"backend:0":             "invalid port",
		"backend:65536":         "invalid port",
		"backend:-1":            "invalid port",
		"user@backend":          "character '@'",
		"back end":              "character ' '",
		"back%zz":               "percent escape",
		"back%2":                "percent escape",
		"back%20end":            "character ' '",
		"a..b":                  "empty label",
		"[::1":                  "without ']'",
		"[backend]:80":          "no IPv6 address",
		"[::1]x":                "after the address",
		"::1:80":                "brackets",
		"{{ .Values.host }}":    "character '{'",
		strings.Repeat("a", 64): "longer than 63",
	} {
		if _, err := parseService(text); err == nil || !strings.Contains(err.Error(), part) {
			t.Errorf("%q: error %v, want one with %q", text, err, part)
		}
	}
}

func TestKubernetesName(t *testing.T) {
	for host, want := range map[string]string{
		"web": "own/web", "web.app": "app/web", "web.app.svc": "app/web", "web.app.svc.cluster.local": "app/web",
		"api.example.com": "", "localhost": "", "10.0.0.1": "",
	} {
		s, err := parseService(host)
		if err != nil {
			t.Fatal(err)
		}
		got := ""
		if ns, name, ok := s.kubernetes("own"); ok {
			got = ns + "/" + name
		}
		if got != want {
			t.Errorf("%s: got %q, want %q", host, got, want)
		}
	}
}

func FuzzParseService(f *testing.F) {
	for _, seed := range []string{"http://a.b:80", "[::1]:443", "%25", "a%", "//", "https://"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		s, err := parseService(text)
		if err != nil {
			return
		}
		again, err := parseService(s.withPort(false).hostPort())
		if err != nil || again.host != s.host && !strings.Contains(s.host, "%") {
			t.Errorf("%q gives host %q, which does not read back: %v", text, s.host, err)
		}
	})
}
