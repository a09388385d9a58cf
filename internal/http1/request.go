package http1

import (
	"bytes"
	"io"
	"maps"
	"net/http"
	"net/textproto"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
)

// decision says what becomes of a connection after some bytes of a request.
type decision int

const (
	accept    decision = iota // the request is served here
	delegate                  // the connection is handed to net/http
	readMore                  // the request is incomplete
	closeConn                 // the connection is closed
)

// methods are those of requests that are served here.
var methods = [...]string{
	http.MethodGet, http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete, http.MethodHead, http.MethodOptions,
}

// parse reads one request from the beginning of b into r, which belongs to the
// connection. What it accepts, net/http would accept with the same meaning; all
// else is delegated. Of an incomplete request it returns the size once it is known.
func parse(b []byte, r *http.Request) (*exchange, decision) {
	end := bytes.Index(b, []byte("\r\n\r\n"))
	if end < 0 {
		if endsHead(b) {
			return nil, delegate
		}
		return nil, readMore
	}
	head := string(b[:end+2]) // with the last line's end
	line, rest, _ := strings.Cut(head, "\r\n")
	x := new(exchange)
	*r = http.Request{}
	if !x.requestLine(r, line) {
		return nil, delegate
	}
	length, ok := x.headers(r, rest)
	if !ok {
		return nil, delegate
	}
	x.size = end + 4 + length
	switch {
	case x.size > maxRequest:
		return nil, delegate
	case x.size > len(b):
		return x, readMore
	}
	r.ContentLength = int64(length)
	r.Body = http.NoBody
	if length > 0 {
		x.body.rest = b[end+4 : x.size]
		r.Body = &x.body
	}
	return x, accept
}

// endsHead reports whether net/http, which also takes lines that end without a
// carriage return, sees the end of a head in b.
func endsHead(b []byte) bool {
	return bytes.Contains(b, []byte("\n\n")) || bytes.Contains(b, []byte("\n\r\n")) ||
		bytes.HasPrefix(b, []byte("\n")) || bytes.HasPrefix(b, []byte("\r\n"))
}

// ambiguousLength reports whether a head has both Transfer-Encoding and
// Content-Length. net/http believes the first, a proxy in front may believe the
// second: the bytes between the two ends would be a request that only one of them
// sees (request smuggling, RFC 9112 §6.3). Lines are read as leniently as net/http
// reads them. Later heads of a connection that net/http serves are not seen here: see
// closesAfter. Equal lengths in several lines, lines that end with a bare line feed and
// folded lines are read as net/http reads them: all of them name one length.
func ambiguousLength(b []byte) bool {
	encoding, length := false, false
	for line := range bytes.Lines(b) {
		name, _, _ := bytes.Cut(line, []byte{':'})
		switch string(bytes.ToLower(bytes.TrimSpace(name))) {
		case "":
			return encoding && length // the end of the head
		case "transfer-encoding":
			encoding = true
		case "content-length":
			length = true
		}
	}
	return encoding && length
}

// requestLine reads "GET /path?query HTTP/1.1".
func (x *exchange) requestLine(r *http.Request, line string) bool {
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
	if !x.target(target) {
		return false
	}
	r.URL, r.RequestURI = &x.url, target
	r.Proto, r.ProtoMajor, r.ProtoMinor = "HTTP/1.1", 1, 1
	return true
}

func (x *exchange) target(target string) bool {
	path, query, asked := strings.Cut(target, "?")
	if consistsOf(path, isPath) && (!asked || query != "" && consistsOf(query, isQuery)) {
		x.url.Path, x.url.RawQuery = path, query
		return true
	}
	u, err := url.ParseRequestURI(target)
	if err != nil {
		return false
	}
	x.url = *u
	return true
}

// headers reads the lines of a head, each with its line end, and returns the
// length of the body.
func (x *exchange) headers(r *http.Request, lines string) (length int, ok bool) {
	count := strings.Count(lines, "\n")
	r.Header = make(http.Header, count)
	values := x.values[:0]
	if count > len(x.values) {
		values = make([]string, 0, count)
	}
	length = -1
	var seen uint64 // of names
	for len(lines) > 0 {
		colon, end := strings.IndexByte(lines, ':'), strings.IndexByte(lines, '\n')
		if colon <= 0 || end <= colon || lines[end-1] != '\r' {
			return 0, false
		}
		value := trim(lines[colon+1 : end-1])
		if !consistsOf(value, isValue) {
			return 0, false
		}
		name, known := names[lines[:colon]]
		if !known {
			if !consistsOf(lines[:colon], isToken) {
				return 0, false
			}
			text := textproto.CanonicalMIMEHeaderKey(lines[:colon])
			if name, known = names[text]; !known {
				name.text = text
			}
		}
		again := seen&name.bit != 0 || !known && r.Header[name.text] != nil
		seen |= name.bit
		lines = lines[end+1:]
		switch name.kind {
		case headerPlain:
		case headerHost:
			if again || value == "" || !consistsOf(value, isHost) {
				return 0, false
			}
			r.Host = value
			continue // net/http does not put it into the map either
		case headerLength:
			n, err := strconv.ParseUint(value, 10, 16)
			if again || err != nil || !consistsOf(value, isDigit) {
				return 0, false
			}
			length = int(n)
		case headerConnection:
			if !strings.EqualFold(value, "keep-alive") {
				return 0, false
			}
		case headerPragma:
			if _, set := r.Header["Cache-Control"]; !set {
				return 0, false // net/http derives a Cache-Control from it
			}
		case headerUnsupported:
			return 0, false
		}
		if again {
			r.Header[name.text] = append(r.Header[name.text], value)
			continue
		}
		values = append(values, value)
		r.Header[name.text] = values[len(values)-1 : len(values) : len(values)]
	}
	return max(length, 0), r.Host != ""
}

// trim removes spaces and tabs from both ends.
func trim(s string) string {
	for len(s) > 0 && (s[0] == ' ' || s[0] == '\t') {
		s = s[1:]
	}
	for len(s) > 0 && (s[len(s)-1] == ' ' || s[len(s)-1] == '\t') {
		s = s[:len(s)-1]
	}
	return s
}

// headerKind is what a header means to the server.
type headerKind uint8

const (
	headerPlain headerKind = iota // nothing: it is for the handler
	headerHost
	headerLength
	headerConnection
	headerPragma
	headerUnsupported // changes the meaning of the request: net/http handles it
)

var headerKinds = map[string]headerKind{
	"Host": headerHost, "Content-Length": headerLength, "Connection": headerConnection, "Pragma": headerPragma,
	"Transfer-Encoding": headerUnsupported, "Trailer": headerUnsupported, "Te": headerUnsupported, "Upgrade": headerUnsupported,
	"Expect": headerUnsupported, "Http2-Settings": headerUnsupported, "Proxy-Connection": headerUnsupported,
}

// headerName is a known header.
type headerName struct {
	text string // in canonical form
	bit  uint64 // its own, to notice a repeated header
	kind headerKind
}

// names are the headers with a kind and those that browsers, proxies and our
// clients send, in the two spellings in which they are sent. A look-up costs less
// than bringing a name into canonical form.
var names = func() map[string]headerName {
	all := map[string]headerName{}
	add := func(text string) {
		name := headerName{text: text, bit: 1 << (len(all) / 2), kind: headerKinds[text]}
		if name.bit == 0 {
			panic("http1: more known headers than bits")
		}
		all[text], all[strings.ToLower(text)] = name, name
	}
	for _, text := range slices.Sorted(maps.Keys(headerKinds)) {
		add(text)
	}
	for text := range strings.FieldsSeq(`
		Accept Accept-Encoding Accept-Language Authorization Cache-Control Content-Type Cookie Date Dnt Origin Priority Range Referer User-Agent Via
		If-None-Match If-Modified-Since
		Sec-Ch-Ua Sec-Ch-Ua-Mobile Sec-Ch-Ua-Platform Sec-Fetch-Dest Sec-Fetch-Mode Sec-Fetch-Site Sec-Fetch-User Sec-Gpc Upgrade-Insecure-Requests
		Forwarded X-Forwarded-For X-Forwarded-Host X-Forwarded-Port X-Forwarded-Proto X-Real-Ip X-Cloud-Trace-Context Traceparent Tracestate
		X-Request-Id X-Client-Screen X-Client-Timezone X-Currency X-Challenge X-View-Source Idempotency-Key Dpop`) {
		add(text)
	}
	return all
}()

// Classes of bytes.
const (
	isToken = 1 << iota
	isPath  // bytes that need no escaping in a path
	isQuery
	isValue
	isHost
	isDigit
)

var classes = func() (table [256]uint8) {
	add := func(class uint8, chars string) {
		for _, c := range []byte(chars) {
			table[c] |= class
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

// consistsOf reports whether all bytes of s are of a class.
func consistsOf(s string, class uint8) bool {
	for i := range len(s) {
		if classes[s[i]]&class == 0 {
			return false
		}
	}
	return true
}

// body is a request's body, which lies in the connection's buffer: it cannot be
// read once the request is answered.
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
