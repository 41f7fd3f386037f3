// Package simulator answers, in process, what Envoy would do with one request under a linked program: which listener,
// filter chain, virtual host and route take it, which shares go where, and why nearer candidates lost. It follows
// Envoy's matching rules (Envoy docs: "HTTP route table", "HTTP connection manager", "FilterChainMatch") and reads
// nothing but the program.
package simulator

import (
	"errors"
	"fmt"
	"net/netip"
	"net/url"
	"strconv"
	"strings"
)

// Header is one request header. Name is in lower case.
type Header struct {
	Name  string `json:"name"`
	Value string `json:"value"`
}

// Request is one request as a client sends it.
type Request struct {
	Method string `json:"method"`
	// Scheme is "http" or "https": what the client believes. TLS says what the connection is.
	Scheme string `json:"scheme"`
	// Host is the authority: the Host header, with its port where the client sends one.
	Host string `json:"host"`
	// Path is the request target, query string included.
	Path    string   `json:"path"`
	Headers []Header `json:"headers,omitempty"`
	// TLS says whether the client speaks TLS, with the server name SNI ("" for none, as with IP addresses).
	TLS bool   `json:"tls"`
	SNI string `json:"sni,omitempty"`
	// Port is the port that the client connects to.
	Port uint32 `json:"port,omitempty"`
	// Listener picks a listener by name, whatever its port; "" picks by port.
	Listener string `json:"listener,omitempty"`
	// Client is the client's IP address, for x-forwarded-for; "" is 127.0.0.1.
	Client string `json:"client,omitempty"`
}

// String returns "METHOD URL", the URL made of the Host header.
func (r Request) String() string { return r.Method + " " + r.Scheme + "://" + r.Host + r.Path }

// ParseRequest makes a request as curl would: method ("" is GET), an absolute http or https URL, and headers as
// "name: value". A Host header replaces the authority but neither the server name nor the port of the connection.
func ParseRequest(method, rawURL string, headers []string) (Request, error) {
	r := Request{Method: method}
	if r.Method == "" {
		r.Method = "GET"
	}
	if !isToken(r.Method) {
		return Request{}, fmt.Errorf("method %q is no HTTP method: letters only, for example GET", method)
	}
	if err := r.parseURL(rawURL); err != nil {
		return Request{}, fmt.Errorf("URL %q: %w", rawURL, err)
	}
	for _, h := range headers {
		if err := r.parseHeader(h); err != nil {
			return Request{}, fmt.Errorf("header %q: %w", h, err)
		}
	}
	return r, nil
}

func (r *Request) parseURL(raw string) error {
	scheme, rest, found := strings.Cut(raw, "://")
	if !found {
		return errors.New("not absolute; write it as http://HOST/PATH or https://HOST/PATH")
	}
	switch r.Scheme = strings.ToLower(scheme); r.Scheme {
	case "http":
		r.Port = 80
	case "https":
		r.Port, r.TLS = 443, true
	default:
		return fmt.Errorf("scheme %q is not http or https", scheme)
	}
	rest, _, _ = strings.Cut(rest, "#")
	authority, path := rest, "/"
	if i := strings.IndexAny(rest, "/?"); i >= 0 {
		authority, path = rest[:i], rest[i:]
		if path[0] == '?' {
			path = "/" + path
		}
	}
	if strings.Contains(authority, "@") {
		return errors.New("user names and passwords are not supported; send an authorization header")
	}
	// The standard parser judges the authority; the path is kept as written, because Envoy sees it so.
	u, err := url.Parse(r.Scheme + "://" + authority)
	if err != nil {
		var inner *url.Error
		if errors.As(err, &inner) {
			err = inner.Err
		}
		return err
	}
	if u.Hostname() == "" {
		return errors.New("has no host")
	}
	if p := u.Port(); p != "" {
		n, err := strconv.ParseUint(p, 10, 16)
		if err != nil || n == 0 {
			return fmt.Errorf("port %s is not in 1 to 65535", p)
		}
		r.Port = uint32(n)
		// Clients leave a scheme's own port out of the Host header.
		if r.TLS && n == 443 || !r.TLS && n == 80 {
			authority = strings.TrimSuffix(authority, ":"+p)
		}
	}
	for i := range len(authority) {
		if authority[i] >= 0x80 {
			return errors.New("the host has letters beyond ASCII; write it in its xn-- form")
		}
	}
	for i := range len(path) {
		if path[i] <= ' ' || path[i] == 0x7f {
			return fmt.Errorf("the path has a space or control character at byte %d; write it as %%%02X", i, path[i])
		}
	}
	r.Host, r.Path = authority, escapeBeyondASCII(path)
	if r.TLS {
		if _, err := netip.ParseAddr(u.Hostname()); err != nil {
			r.SNI = strings.TrimSuffix(strings.ToLower(u.Hostname()), ".")
		}
	}
	return nil
}

func (r *Request) parseHeader(line string) error {
	name, value, found := strings.Cut(line, ":")
	if strings.HasPrefix(line, ":") {
		return errors.New("names with a leading colon cannot be sent; use the URL, the method or Host")
	}
	if !found {
		return errors.New(`has no colon; write it as "name: value"`)
	}
	if !isToken(name) {
		return fmt.Errorf("%q is no header name (letters, digits and -_. only)", name)
	}
	value = strings.Trim(value, " \t")
	if strings.ContainsAny(value, "\r\n\x00") {
		return errors.New("the value has a line break or NUL")
	}
	name = strings.ToLower(name)
	if name == "host" {
		if value == "" {
			return errors.New("the host is empty")
		}
		r.Host = value
		return nil
	}
	r.Headers = append(r.Headers, Header{name, value})
	return nil
}

// isToken reports whether s is an RFC 9110 token.
func isToken(s string) bool {
	for i := range len(s) {
		c := s[i]
		letter := c|0x20 >= 'a' && c|0x20 <= 'z'
		if !letter && (c < '0' || c > '9') && !strings.ContainsRune("!#$%&'*+-.^_`|~", rune(c)) || c >= 0x80 {
			return false
		}
	}
	return s != ""
}

func escapeBeyondASCII(s string) string {
	var b strings.Builder
	for i := range len(s) {
		if s[i] < 0x80 {
			b.WriteByte(s[i])
		} else {
			fmt.Fprintf(&b, "%%%02X", s[i])
		}
	}
	return b.String()
}
