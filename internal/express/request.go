package express

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"net/textproto"
	"net/url"
	"strconv"
	"strings"
	"sync"
)

// verdict is what is to become of a connection.
type verdict int

const (
	usual      verdict = iota // served here
	unusual                   // net/http's
	incomplete                // more is to be read
	gone                      // closed
)

// methods are those that may come here; nothing is special about them.
var methods = [...]string{
	http.MethodGet, http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete, http.MethodHead, http.MethodOptions,
}

// parse reads one request from the beginning of b. What it takes, net/http would
// take with the same meaning; everything that needs a second thought is unusual.
// Of one that is incomplete it returns the size, if that is known.
// The request is left in r, which belongs to the connection.
func parse(b []byte, r *http.Request) (*exchange, verdict) {
	end := bytes.Index(b, []byte("\r\n\r\n"))
	if end < 0 {
		return nil, begins(b)
	}
	head := string(b[:end+2]) // with the last line's end
	line, rest, _ := strings.Cut(head, "\r\n")
	x := &exchange{Context: context.Background()}
	*r = http.Request{}
	if !requestLine(r, line) {
		return nil, unusual
	}
	length, ok := x.headers(r, rest)
	if !ok {
		return nil, unusual
	}
	x.size = end + 4 + length
	switch {
	case x.size > maxRequest:
		return nil, unusual
	case x.size > len(b):
		return x, incomplete
	}
	r.ContentLength = int64(length)
	r.Body = http.NoBody
	if length > 0 {
		x.body.rest = b[end+4 : x.size]
		r.Body = &x.body
	}
	return x, usual
}

// begins judges a head that has not ended: it may never, by our rules, where
// net/http sees an end.
func begins(b []byte) verdict {
	for i, c := range b {
		if c == '\n' && (i == 0 || b[i-1] != '\r') {
			return unusual
		}
	}
	return incomplete
}

// requestLine takes "GET /path?query HTTP/1.1".
func requestLine(r *http.Request, line string) bool {
	method, line, _ := strings.Cut(line, " ")
	target, proto, _ := strings.Cut(line, " ")
	if proto != "HTTP/1.1" || len(target) == 0 || target[0] != '/' || strings.HasPrefix(target, "//") {
		return false
	}
	for _, m := range methods {
		if m == method {
			r.Method = m
		}
	}
	if r.Method == "" {
		return false
	}
	u, err := parseTarget(target)
	if err != nil {
		return false
	}
	r.URL, r.RequestURI = u, target
	r.Proto, r.ProtoMajor, r.ProtoMinor = "HTTP/1.1", 1, 1
	return true
}

func parseTarget(target string) (*url.URL, error) {
	path, query, asked := strings.Cut(target, "?")
	if !plain(path, isPath) || asked && (query == "" || !plain(query, isQuery)) {
		return url.ParseRequestURI(target)
	}
	return &url.URL{Path: path, RawQuery: query}, nil
}

// headers takes the lines of b and returns the body's length.
func (x *exchange) headers(r *http.Request, lines string) (length int, ok bool) {
	count := strings.Count(lines, "\n")
	r.Header = make(http.Header, count)
	values := x.values[:0]
	if count > len(x.values) {
		values = make([]string, 0, count)
	}
	length = -1
	pragma := false
	for lines != "" {
		var line string
		line, lines, _ = strings.Cut(lines, "\r\n")
		name, value, found := strings.Cut(line, ":")
		name, known := canonical(name)
		value = strings.Trim(value, " \t")
		if !found || !known || !plain(value, isValue) {
			return 0, false
		}
		switch name {
		case "Host":
			if r.Host != "" || value == "" || !plain(value, isHost) {
				return 0, false
			}
			r.Host = value
			continue // net/http keeps it apart too
		case "Content-Length":
			n, err := strconv.ParseUint(value, 10, 16)
			if length >= 0 || err != nil || !plain(value, isDigit) {
				return 0, false
			}
			length = int(n)
		case "Connection":
			if value != "keep-alive" {
				return 0, false
			}
		case "Transfer-Encoding", "Trailer", "Te", "Upgrade", "Expect", "Http2-Settings", "Proxy-Connection":
			return 0, false // they change what the rest means
		case "Pragma":
			pragma = true
		}
		if old := r.Header[name]; old != nil {
			r.Header[name] = append(old, value)
			continue
		}
		values = append(values, value)
		r.Header[name] = values[len(values)-1 : len(values) : len(values)]
	}
	if _, told := r.Header["Cache-Control"]; pragma && !told {
		return 0, false // net/http makes one of the other
	}
	return max(length, 0), r.Host != ""
}

// names are the headers that browsers, proxies and our clients send, by what
// they write: finding one costs less than spelling it anew.
var names = func() map[string]string {
	all := map[string]string{}
	for name := range strings.FieldsSeq(`
		Host Connection Content-Length Content-Type Transfer-Encoding Upgrade Expect Te Trailer Pragma
		Accept Accept-Encoding Accept-Language Accept-Charset Authorization Cache-Control Cookie Date Dnt Origin Priority Range Referer User-Agent Via
		If-None-Match If-Match If-Modified-Since If-Unmodified-Since
		Sec-Ch-Ua Sec-Ch-Ua-Mobile Sec-Ch-Ua-Platform Sec-Fetch-Dest Sec-Fetch-Mode Sec-Fetch-Site Sec-Fetch-User Sec-Gpc Upgrade-Insecure-Requests
		Forwarded X-Forwarded-For X-Forwarded-Host X-Forwarded-Port X-Forwarded-Proto X-Real-Ip X-Cloud-Trace-Context Traceparent Tracestate
		X-Request-Id X-Client-Timezone X-Challenge X-Recaptcha-Token X-Internal-Hmac Idempotency-Key Dpop`) {
		all[name], all[strings.ToLower(name)] = name, name
	}
	return all
}()

// canonical is the name as net/http spells it.
func canonical(name string) (string, bool) {
	if known, ok := names[name]; ok {
		return known, true
	}
	if name == "" || !plain(name, isToken) {
		return "", false
	}
	return textproto.CanonicalMIMEHeaderKey(name), true
}

// Kinds of bytes.
const (
	isToken = 1 << iota
	isPath  // that no escaping changes
	isQuery
	isValue
	isHost
	isDigit
)

var kinds = func() (table [256]uint8) {
	add := func(kind uint8, chars string) {
		for _, c := range []byte(chars) {
			table[c] |= kind
		}
	}
	const digits = "0123456789"
	const alnum = digits + "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
	add(isToken, alnum+"!#$%&'*+-.^_`|~")
	add(isPath, alnum+"-._~/")
	add(isQuery, alnum+"-._~/?&=%+,:@!$'()*;")
	add(isHost, alnum+"-._:[]")
	add(isDigit, digits)
	for c := range table {
		if c == '\t' || c >= ' ' && c != 0x7f {
			table[c] |= isValue
		}
	}
	return table
}()

func plain(s string, kind uint8) bool {
	for i := range len(s) {
		if kinds[s[i]]&kind == 0 {
			return false
		}
	}
	return true
}

// body is a request's body, which was read with the rest. It ends with the
// request: the bytes are the connection's.
type body struct {
	mu    sync.Mutex
	rest  []byte
	ended bool
}

func (b *body) Read(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.ended {
		return 0, http.ErrBodyReadAfterClose
	}
	if len(b.rest) == 0 {
		return 0, io.EOF
	}
	n := copy(p, b.rest)
	b.rest = b.rest[n:]
	if len(b.rest) == 0 {
		return n, io.EOF
	}
	return n, nil
}

func (b *body) Close() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.ended, b.rest = true, nil
	return nil
}
