// Package desk is a hotel computer as the staff service sees it: a device with a
// key of its own, an operator who signs in at iam, and requests that prove the
// possession of the key (RFC 9449). Tests and `melmastoon desk` call the staff
// service through it; it imports nothing of that service.
package desk

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"runtime"
	"strings"
	"sync"
	"time"

	"melmastoon.ghasi.io/bff"
)

const (
	// Base is the path below which the staff service has its routes.
	Base = "/bff/backoffice/v1"
	// AppVersion is the version that a desk reports unless it is told another.
	AppVersion = "1.0.0"

	maxAnswer  = 16 << 20
	maxRefusal = 64 << 10
)

// Config says where a desk works.
type Config struct {
	BackofficeURL string // scheme and authority of the staff service
	PublicURL     string // what proofs name, if the service is known by another URL than it is reached at
	IAMURL        string // base of iam; needed to sign in
	Device        *Device
	AppVersion    string
	Platform      string           // win32, darwin or linux; by default this machine's
	HTTP          *http.Client     // by default one without a timeout: streams are long, and calls have a context
	Now           func() time.Time // the computer's clock, which may be wrong
}

// Client calls the staff service as an operator on a device. Its methods may be
// called at once.
type Client struct {
	cfg  Config
	file *file // nil: nothing is kept

	updating sync.Mutex // held during a refresh: two would look like a stolen token
	mu       sync.Mutex
	state    state
}

// New returns a client that keeps nothing on disk.
func New(cfg Config) (*Client, error) { return open(cfg, nil) }

func open(cfg Config, f *file) (*Client, error) {
	var bad []error
	for name, text := range map[string]string{"staff service": cfg.BackofficeURL, "iam": cfg.IAMURL} {
		u, err := url.Parse(text)
		if err != nil || u.Host == "" || strings.HasSuffix(text, "/") {
			bad = append(bad, fmt.Errorf("URL of the %s: %q is not scheme://host without a slash at the end", name, text))
		}
	}
	if err := errors.Join(bad...); err != nil {
		return nil, err
	}
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	if cfg.HTTP == nil {
		cfg.HTTP = &http.Client{}
	}
	cfg.PublicURL = cmp.Or(cfg.PublicURL, cfg.BackofficeURL)
	cfg.AppVersion = cmp.Or(cfg.AppVersion, AppVersion)
	cfg.Platform = cmp.Or(cfg.Platform, thisPlatform())
	c := &Client{cfg: cfg, file: f, state: state{Device: cfg.Device}}
	err := c.update(func(s *state) error {
		if s.Device == nil {
			var err error
			s.Device, err = NewDevice(ES256, cfg.Now())
			return err
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return c, nil
}

func thisPlatform() string {
	switch runtime.GOOS {
	case "windows":
		return "win32"
	case "darwin":
		return "darwin"
	default:
		return "linux"
	}
}

// Device returns the computer.
func (c *Client) Device() *Device { return c.look().Device }

// Call is a request to the staff service.
type Call struct {
	Method string
	Path   string // below Base, with its query
	Header http.Header
	Body   any // marshalled, unless it is a json.RawMessage; nil means none
	// IdempotencyKey names a mutation; empty means a fresh key.
	IdempotencyKey string
}

// Answer is what the service said, read to its end.
type Answer struct {
	Status int
	Header http.Header
	Body   []byte
}

// Into decodes the body.
func (a *Answer) Into(v any) error { return json.Unmarshal(a.Body, v) }

// Err is the refusal, if the answer is one.
func (a *Answer) Err() error {
	if a.Status < http.StatusBadRequest {
		return nil
	}
	return readRefusal(a.Status, a.Body)
}

// Do sends a request and reads the whole answer. Refusals of the service are
// answers, not errors.
func (c *Client) Do(ctx context.Context, method, path string, body any) (*Answer, error) {
	return c.Ask(ctx, Call{Method: method, Path: path, Body: body})
}

// Ask is Do for a call with headers or a key of its own.
func (c *Client) Ask(ctx context.Context, call Call) (*Answer, error) {
	res, err := c.Send(ctx, call)
	if err != nil {
		return nil, err
	}
	defer func() { _ = res.Body.Close() }()
	b, err := io.ReadAll(io.LimitReader(res.Body, maxAnswer))
	if err != nil {
		return nil, fmt.Errorf("read answer: %w", err)
	}
	return &Answer{Status: res.StatusCode, Header: res.Header, Body: b}, nil
}

// Send sends a request and returns the answer as it comes; the caller closes its
// body. An access token that is about to end is refreshed before, one that the
// service finds ended is refreshed once, and a wrong clock is mended with the
// service's nonce.
func (c *Client) Send(ctx context.Context, call Call) (*http.Response, error) {
	m, err := c.message(call)
	if err != nil {
		return nil, err
	}
	for renewed := false; ; renewed = true {
		in, err := c.signedIn(ctx)
		if err != nil {
			return nil, err
		}
		m.token = in.AccessToken
		res, err := c.exchange(ctx, m)
		if err != nil || res.StatusCode != http.StatusUnauthorized || renewed {
			return res, err
		}
		if !strings.HasSuffix(peek(res).Code, ".TOKEN_EXPIRED") {
			return res, nil
		}
		_ = res.Body.Close() // it was peeked at
		if err := c.renew(ctx, in.RefreshToken); err != nil {
			return nil, err
		}
	}
}

// message is a request that can be sent again.
type message struct {
	method, url, token string
	header             http.Header
	body               []byte
}

func (c *Client) message(call Call) (message, error) {
	m := message{method: call.Method, url: c.url(call.Path), header: http.Header{}}
	if call.Body != nil {
		body, err := json.Marshal(call.Body)
		if err != nil {
			return m, fmt.Errorf("encode request: %w", err)
		}
		m.body = body
		m.header.Set("Content-Type", "application/json")
	}
	if call.Method != http.MethodGet && call.Method != http.MethodHead {
		key := call.IdempotencyKey
		if key == "" {
			key = c.newKey()
		}
		m.header.Set("X-Idempotency-Key", key)
	}
	m.header.Set("X-Device-Id", c.Device().ID())
	m.header.Set("X-App-Version", c.cfg.AppVersion)
	m.header.Set("X-App-Platform", c.cfg.Platform)
	m.header.Set("X-Network-Profile", "good")
	for name, values := range call.Header {
		m.header[http.CanonicalHeaderKey(name)] = values
	}
	return m, nil
}

// newKey returns a fresh ULID.
func (c *Client) newKey() string {
	_, key, _ := strings.Cut(bff.NewID("key", c.cfg.Now()).String(), "_")
	return key
}

// url of a path; a path that has the base already is taken as it is.
func (c *Client) url(path string) string {
	if strings.HasPrefix(path, "/bff/") || strings.HasPrefix(path, "/api/bff/") {
		return c.cfg.BackofficeURL + path
	}
	return c.cfg.BackofficeURL + Base + "/" + strings.TrimPrefix(path, "/")
}

// exchange sends a message with a fresh proof. A server that asks for its nonce
// is asked again with it, once; so is one that has seen the proof, because
// net/http repeats requests by itself when a connection breaks.
func (c *Client) exchange(ctx context.Context, m message) (*http.Response, error) {
	u, err := url.Parse(m.url)
	if err != nil {
		return nil, err
	}
	for again := false; ; again = true {
		nonce := c.look().Nonces[u.Host]
		res, err := c.attempt(ctx, m, nonce)
		if err != nil {
			return nil, err
		}
		var refusal Refusal
		if res.StatusCode == http.StatusUnauthorized {
			refusal = *peek(res)
		}
		offered := res.Header.Get("DPoP-Nonce")
		news := offered != "" && offered != nonce
		if news && (nonce != "" || refusal.wantsNonce()) { // a clock that is right needs no nonce
			c.learn(u.Host, offered)
		}
		if again || !(news && refusal.wantsNonce()) && !strings.HasSuffix(refusal.Code, ".DPOP_REPLAYED") {
			return res, nil
		}
		_ = res.Body.Close() // it was peeked at
	}
}

func (c *Client) attempt(ctx context.Context, m message, nonce string) (*http.Response, error) {
	named := m.url
	if path, ok := strings.CutPrefix(m.url, c.cfg.BackofficeURL); ok {
		named = c.cfg.PublicURL + path
	}
	proof, err := c.Device().Prove(Proof{Method: m.method, URL: named, AccessToken: m.token, Nonce: nonce, At: c.cfg.Now()})
	if err != nil {
		return nil, err
	}
	req, err := http.NewRequestWithContext(ctx, m.method, m.url, bytes.NewReader(m.body))
	if err != nil {
		return nil, err
	}
	req.GetBody = nil // or net/http repeats a change with the proof that was used
	req.Header = m.header.Clone()
	req.Header.Set("DPoP", proof)
	if m.token != "" {
		req.Header.Set("Authorization", "DPoP "+m.token)
	}
	return c.cfg.HTTP.Do(req)
}

// learn keeps a server's nonce for this process.
func (c *Client) learn(host, nonce string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	nonces := map[string]string{host: nonce}
	for h, n := range c.state.Nonces {
		if h != host {
			nonces[h] = n
		}
	}
	c.state.Nonces = nonces // replaced, not changed: others may be reading it
}

// Refusal is a failure that a service answered with.
type Refusal struct {
	Status int
	Code   string
	Detail string
}

func (r *Refusal) Error() string {
	return strings.TrimSpace(fmt.Sprintf("%d %s %s", r.Status, cmp.Or(r.Code, http.StatusText(r.Status)), r.Detail))
}

func (r *Refusal) wantsNonce() bool {
	return strings.HasSuffix(r.Code, "DPOP_INVALID") || r.Code == "USE_DPOP_NONCE"
}

func readRefusal(status int, body []byte) *Refusal {
	var doc struct {
		Error struct{ Code, Detail, Message, Title string }
	}
	_ = json.Unmarshal(body, &doc) // a body that is no problem document leaves the status
	return &Refusal{Status: status, Code: doc.Error.Code, Detail: cmp.Or(doc.Error.Detail, doc.Error.Message, doc.Error.Title)}
}

// peek reads a refusal and leaves the body to be read again.
func peek(res *http.Response) *Refusal {
	b, _ := io.ReadAll(io.LimitReader(res.Body, maxRefusal)) // what could not be read is not shown
	_ = res.Body.Close()
	res.Body = io.NopCloser(bytes.NewReader(b))
	return readRefusal(res.StatusCode, b)
}
