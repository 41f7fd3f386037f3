package emissary

import (
	"errors"
	"fmt"
	"net/netip"
	"strconv"
	"strings"
)

// service is a parsed "[scheme://]host[:port]" text, as Mapping.service and its kin have it.
type service struct {
	// scheme is "", "http" or "https".
	scheme string
	// host is lower case, without brackets and percent escapes.
	host string
	// port is 0 when the text has none.
	port uint32
	// ip says that host is an IP literal.
	ip bool
	// extra is what stood behind host and port: a path or a query.
	extra string
}

// invalidPort begins with Emissary's words, which others look for on the diagnostics page.
const invalidPort = "found invalid port for service: %q is no number from 1 to 65535"

// parseService reads a service text. The error says what is wrong with it in a half sentence.
func parseService(text string) (service, error) {
	var s service
	rest := text
	if i := strings.Index(rest, "://"); i >= 0 {
		switch scheme := strings.ToLower(rest[:i]); scheme {
		case "http", "https":
			s.scheme = scheme
		default:
			return s, fmt.Errorf("unknown scheme %q: only http and https are known", rest[:i])
		}
		rest = rest[i+3:]
	} else {
		rest = strings.TrimPrefix(rest, "//")
	}
	if i := strings.IndexAny(rest, "/?#"); i >= 0 {
		if rest[i:] != "/" {
			s.extra = rest[i:]
		}
		rest = rest[:i]
	}
	host, port, err := splitPort(rest)
	if err != nil {
		return s, err
	}
	if port != "" {
		n, err := strconv.ParseUint(port, 10, 16)
		if err != nil || n == 0 {
			return s, fmt.Errorf(invalidPort, port)
		}
		s.port = uint32(n)
	}
	if s.host, err = unescapeHost(host); err != nil {
		return s, err
	}
	if mayBeAddress(s.host) {
		if addr, err := netip.ParseAddr(s.host); err == nil {
			s.ip, s.host = true, addr.String()
			return s, nil
		}
	}
	s.host = strings.ToLower(s.host)
	return s, checkHostname(s.host)
}

// mayBeAddress spares most names the attempt to read them as an IP address.
func mayBeAddress(host string) bool {
	return host != "" && host[len(host)-1] >= '0' && host[len(host)-1] <= '9' || strings.IndexByte(host, ':') >= 0
}

// splitPort takes "host", "host:port", "[v6]" and "[v6]:port" apart.
func splitPort(text string) (host, port string, err error) {
	if strings.HasPrefix(text, "[") {
		end := strings.IndexByte(text, ']')
		if end < 0 {
			return "", "", errors.New("invalid host: '[' without ']'")
		}
		host, rest := text[1:end], text[end+1:]
		if addr, _, _ := strings.Cut(host, "%"); strings.IndexByte(addr, ':') < 0 {
			return "", "", fmt.Errorf("invalid host: %q in brackets is no IPv6 address", host)
		}
		if rest == "" {
			return host, "", nil
		}
		if rest[0] != ':' {
			return "", "", fmt.Errorf("invalid host: %q after the address", rest)
		}
		return host, rest[1:], nil
	}
	host, port, found := strings.Cut(text, ":")
	if found && port == "" {
		return "", "", fmt.Errorf(invalidPort, "")
	}
	if strings.IndexByte(port, ':') >= 0 {
		return "", "", errors.New("invalid host: an IPv6 address stands in brackets")
	}
	return host, port, nil
}

// unescapeHost resolves percent escapes, strictly.
func unescapeHost(host string) (string, error) {
	if strings.IndexByte(host, '%') < 0 {
		return host, nil
	}
	var b strings.Builder
	for i := 0; i < len(host); i++ {
		if host[i] != '%' {
			b.WriteByte(host[i])
			continue
		}
		if i+2 >= len(host) {
			return "", fmt.Errorf("invalid host: broken percent escape %q", host[i:])
		}
		n, err := strconv.ParseUint(host[i+1:i+3], 16, 8)
		if err != nil {
			return "", fmt.Errorf("invalid host: broken percent escape %q", host[i:i+3])
		}
		b.WriteByte(byte(n))
		i += 2
	}
	return b.String(), nil
}

// checkHostname refuses what cannot be a DNS name. Underscores are let through: resolvers do not mind them.
func checkHostname(host string) error {
	if host == "" {
		return errors.New("invalid host: there is none")
	}
	if len(host) > 253 {
		return errors.New("invalid host: longer than 253 characters")
	}
	label := 0
	for i := 0; i < len(host); i++ {
		c := host[i]
		switch {
		case c == '.':
			if label == 0 {
				return fmt.Errorf("invalid host: %q has an empty label", host)
			}
			label = 0
			continue
		case c >= 'a' && c <= 'z', c >= '0' && c <= '9', c == '-', c == '_', c >= 'A' && c <= 'Z':
		default:
			return fmt.Errorf("invalid host: character %q in %q", rune(c), host)
		}
		if label++; label > 63 {
			return fmt.Errorf("invalid host: a label of %q is longer than 63 characters", host)
		}
	}
	return nil
}

// qualify adds the namespace to an unqualified host, as Emissary does: not to dotted names, addresses and localhost, and
// not when the namespace is the gateway's own.
func (s service) qualify(namespace, own string) service {
	if s.ip || namespace == "" || namespace == own || s.host == "localhost" || strings.IndexByte(s.host, '.') >= 0 {
		return s
	}
	s.host += "." + namespace
	return s
}

// withPort fills in the default port.
func (s service) withPort(tls bool) service {
	if s.port == 0 {
		s.port = 80
		if tls {
			s.port = 443
		}
	}
	return s
}

// hostPort returns "host:port", with an IPv6 address in brackets.
func (s service) hostPort() string {
	if strings.IndexByte(s.host, ':') >= 0 {
		return "[" + s.host + "]:" + strconv.Itoa(int(s.port))
	}
	return s.host + ":" + strconv.Itoa(int(s.port))
}

// kubernetes returns the namespace and name of the Kubernetes Service that the host names: "svc", "svc.ns", "svc.ns.svc"
// and "svc.ns.svc.<cluster domain>". Other names with more dots are foreign and give ok false.
func (s service) kubernetes(fallback string) (namespace, name string, ok bool) {
	if s.ip || s.host == "localhost" {
		return "", "", false
	}
	name, rest, dotted := strings.Cut(s.host, ".")
	if !dotted {
		return fallback, name, true
	}
	namespace, rest, dotted = strings.Cut(rest, ".")
	if dotted && rest != "svc" && !strings.HasPrefix(rest, "svc.") {
		return "", "", false
	}
	return namespace, name, true
}
