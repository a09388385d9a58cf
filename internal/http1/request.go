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
	x := new(exchange)
	*r = http.Request{}
	if !x.requestLine(r, line) {
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
	if plain(path, isPath) && (!asked || query != "" && plain(query, isQuery)) {
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

// headers takes the lines of a head, each with its end, and returns the body's
// length.
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
		if !plain(value, isValue) {
			return 0, false
		}
		name, known := names[lines[:colon]]
		if !known {
			if !plain(lines[:colon], isToken) {
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
		switch name.meaning {
		case bystander:
		case host:
			if again || value == "" || !plain(value, isHost) {
				return 0, false
			}
			r.Host = value
			continue // net/http keeps it apart too
		case contentLength:
			n, err := strconv.ParseUint(value, 10, 16)
			if again || err != nil || !plain(value, isDigit) {
				return 0, false
			}
			length = int(n)
		case connection:
			if !strings.EqualFold(value, "keep-alive") {
				return 0, false
			}
		case pragma:
			if _, told := r.Header["Cache-Control"]; !told {
				return 0, false // net/http makes one of the other
			}
		case meddler:
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

// trim takes the blanks from both ends.
func trim(s string) string {
	for len(s) > 0 && (s[0] == ' ' || s[0] == '\t') {
		s = s[1:]
	}
	for len(s) > 0 && (s[len(s)-1] == ' ' || s[len(s)-1] == '\t') {
		s = s[:len(s)-1]
	}
	return s
}

// meaning is what a header is to the server itself.
type meaning uint8

const (
	bystander meaning = iota // nothing
	host
	contentLength
	connection
	pragma
	meddler // changes what the rest means: a case for net/http
)

var meanings = map[string]meaning{
	"Host": host, "Content-Length": contentLength, "Connection": connection, "Pragma": pragma,
	"Transfer-Encoding": meddler, "Trailer": meddler, "Te": meddler, "Upgrade": meddler, "Expect": meddler,
	"Http2-Settings": meddler, "Proxy-Connection": meddler,
}

// headerName is a header that is expected.
type headerName struct {
	text    string // as net/http spells it
	bit     uint64 // its own
	meaning meaning
}

// names are the headers that mean something here and those that browsers, proxies
// and our clients send, by what they write: finding one costs less than spelling
// it anew.
var names = func() map[string]headerName {
	all := map[string]headerName{}
	add := func(text string) {
		name := headerName{text: text, bit: 1 << (len(all) / 2), meaning: meanings[text]}
		if name.bit == 0 {
			panic("http1: more names than bits")
		}
		all[text], all[strings.ToLower(text)] = name, name
	}
	for _, text := range slices.Sorted(maps.Keys(meanings)) {
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
