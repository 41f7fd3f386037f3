package source

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/chancery-gateway/chancery/wasm/fault"
)

// HTTP is a module on a web server. The digest is not its affair, but the host asks for one.
type HTTP struct {
	URL string
	// Client is http.DefaultClient's transport with a timeout when nil.
	Client *http.Client
}

const (
	requestTime  = 2 * time.Minute
	maxRedirects = 3
)

var standardClient = &http.Client{
	Timeout: requestTime,
	CheckRedirect: func(r *http.Request, via []*http.Request) error {
		switch {
		case len(via) > maxRedirects:
			return errors.New("too many redirects")
		case via[0].URL.Scheme == "https" && r.URL.Scheme != "https":
			return errors.New("redirect from https to " + r.URL.Scheme)
		}
		return nil
	},
}

// Remote returns true.
func (HTTP) Remote() bool { return true }

// String returns the address, without user and password.
func (h HTTP) String() string {
	u, err := url.Parse(h.URL)
	if err != nil {
		return "an address that can't be parsed"
	}
	return u.Redacted()
}

// Fetch gets the module, and its signature from the same address with ".sig" behind the path.
func (h HTTP) Fetch(ctx context.Context) (*Artifact, error) {
	u, err := url.Parse(h.URL)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
		return nil, fault.New(fault.Spec, "%s is no http or https address", h)
	}
	data, err := h.get(ctx, u, MaxModule)
	if err != nil {
		return nil, err
	}
	module, err := unpack(data, MaxModule)
	if err != nil {
		return nil, err
	}
	u.Path, u.RawPath = u.Path+SignatureSuffix, ""
	signature, err := h.get(ctx, u, maxDocument)
	if err != nil && !fault.Is(err, fault.NotFound) {
		return nil, err
	}
	return &Artifact{Module: module, Signature: signature}, nil
}

func (h HTTP) get(ctx context.Context, u *url.URL, limit int64) ([]byte, error) {
	client := h.Client
	if client == nil {
		client = standardClient
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, u.String(), nil)
	if err != nil {
		return nil, fault.New(fault.Spec, "%s: %w", u.Redacted(), err)
	}
	request.Header.Set("Accept", strings.Join([]string{mediaWasm, "application/octet-stream", "*/*;q=0.5"}, ", "))
	response, err := client.Do(request)
	if err != nil {
		return nil, fault.Retry(fault.Fetch, "%w", err)
	}
	defer response.Body.Close()
	switch status := response.StatusCode; {
	case status == http.StatusOK:
		return readAll(response.Body, limit, u.Redacted())
	case status == http.StatusNotFound, status == http.StatusGone:
		return nil, fault.Retry(fault.NotFound, "%s: %s", u.Redacted(), response.Status)
	case status == http.StatusTooManyRequests, status == http.StatusRequestTimeout, status >= 500:
		return nil, fault.Retry(fault.Fetch, "%s: %s", u.Redacted(), response.Status)
	default:
		return nil, fault.New(fault.Fetch, "%s: %s", u.Redacted(), response.Status)
	}
}
