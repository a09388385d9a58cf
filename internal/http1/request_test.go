package http1

import (
	"bufio"
	"bytes"
	"io"
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"
)

// TestAmbiguousLength: a request with two lengths is refused and the connection
// closed, however its head is written and however it arrives: a proxy in front
// that believes the other length would see other requests than we do.
func TestAmbiguousLength(t *testing.T) {
	t.Parallel()
	s := serve(t, func(_ http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/before" {
			t.Errorf("%s %s reached the handler", r.Method, r.URL)
		}
	}, nil)
	const hidden = "\r\n0\r\n\r\nGET /hidden HTTP/1.1\r\nHost: h\r\n\r\n"
	for _, head := range []string{
		"POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n",
		"POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\nContent-Length: 5\r\n",
		"POST / HTTP/1.1\r\nHost: h\r\ntransfer-encoding:chunked\r\nX: y\r\nCONTENT-LENGTH:5\r\n",
		"POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: identity\r\nContent-Length: 0\r\n",
		"POST / HTTP/1.1\nHost: h\nTransfer-Encoding: chunked\nContent-Length: 5\n",
		"POST / HTTP/1.1\nHost: h\nTransfer-Encoding: chunked\r\nContent-Length : 5\n",
		"POST / HTTP/1.0\r\nHost: h\r\nTransfer-Encoding: chunked\r\nContent-Length: 5\r\n",
		"POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n" + strings.Repeat("X: "+strings.Repeat("y", 900)+"\r\n", 11) + "Content-Length: 5\r\n",
	} {
		before := "GET /before HTTP/1.1\r\nHost: h\r\n\r\n"
		all := before + head + hidden
		for _, step := range []int{len(all), 1} {
			c := s.dial()
			go func() {
				for rest := all; rest != ""; {
					n := min(step, len(rest))
					if _, err := io.WriteString(c, rest[:n]); err != nil {
						return // refused before all of it was sent
					}
					rest = rest[n:]
				}
			}()
			r := bufio.NewReader(c)
			res := s.hear(r, "GET", "POST")
			if res[0].status != http.StatusOK || res[1].status != http.StatusBadRequest || !res[1].closed {
				t.Errorf("%q: %d, then %d, closed %v", head, res[0].status, res[1].status, res[1].closed)
			}
			if more, err := r.ReadByte(); err == nil {
				t.Errorf("%q: %q follows the refusal", head, more)
			}
		}
	}
}

// TestNothingFollowsAnUnsureEnd: on a connection that net/http serves, whose later heads
// are not seen, a request that may have had two lengths is the last one. What hides
// behind it reaches no handler.
func TestNothingFollowsAnUnsureEnd(t *testing.T) {
	t.Parallel()
	const hidden = "GET /hidden HTTP/1.1\r\nHost: h\r\n\r\n"
	for _, opts := range []Options{{}, {NoFastPath: true}} {
		s := serveWith(t, func(_ http.ResponseWriter, r *http.Request) {
			if r.URL.Path == "/hidden" {
				t.Errorf("%s %s reached the handler", r.Method, r.URL)
			}
			_, _ = io.Copy(io.Discard, r.Body)
		}, nil, opts)
		for _, unsure := range []string{
			"POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 50\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
			"POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding:\r\n chunked\r\nContent-Length: 50\r\n\r\n0\r\n\r\n",
			"POST / HTTP/1.1\nHost: h\nX: y\nTransfer-Encoding: chunked\nContent-Length: 50\n\n0\r\n\r\n",
			"POST / HTTP/1.0\r\nHost: h\r\nConnection: keep-alive\r\nTransfer-Encoding: chunked\r\nContent-Length: 5\r\n\r\n0\r\n\r\n",
		} {
			c := s.dial()
			if _, err := io.WriteString(c, "GET /before HTTP/1.1\r\nHost: h\r\nTE: trailers\r\n\r\n"+unsure+hidden); err != nil {
				t.Fatal(err)
			}
			r := bufio.NewReader(c)
			res := s.hear(r, "GET", "POST")
			if res[0].status != http.StatusOK || res[0].closed || !res[1].closed {
				t.Errorf("%q: %+v", unsure, res)
			}
			if more, err := r.ReadByte(); err == nil {
				t.Errorf("%q: %q follows", unsure, more)
			}
		}
	}
}

// FuzzParse compares the parser with net/http's: what it accepts, net/http accepts
// too, with the same meaning. A difference would let one request hide in another.
func FuzzParse(f *testing.F) {
	for _, seed := range []string{
		"GET / HTTP/1.1\r\nHost: h\r\n\r\n",
		"POST /a/b?c=d&e HTTP/1.1\r\nHost: h:80\r\nContent-Length: 3\r\nCookie: a=b; c=d\r\nAccept: */*\r\naccept:\tx \r\n\r\nabcGET",
		"GET /a%20b?%zz HTTP/1.1\r\nHost: [::1]\r\nCache-Control: x\r\nPragma: no-cache\r\n\r\n",
		"POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 03\r\nConnection: keep-alive\r\nX:\r\nX:\xff\r\n\r\nabc",
		"POST / HTTP/1.1\r\nhOST: h\r\ntransfer-ENCODING: chunked\r\nCONTENT-length: 2\r\nCoNtEnT-LeNgTh: 2\r\n\r\n0\r\n\r\n",
		"GET /? HTTP/1.1\r\nHost: h\r\nIf-None-Match: \"x\"\r\n x\r\n\r\n",
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		if len(b) > maxRequest {
			return
		}
		var got http.Request
		x, v := parse(b, &got)
		if v != accept {
			return
		}
		r := bufio.NewReader(bytes.NewReader(b))
		want, err := http.ReadRequest(r)
		if err != nil {
			t.Fatalf("net/http does not take %q: %v", b, err)
		}
		wantBody, err := io.ReadAll(want.Body)
		if err != nil {
			t.Fatalf("net/http does not take the body of %q: %v", b, err)
		}
		gotBody, err := io.ReadAll(got.Body)
		if err != nil || !bytes.Equal(gotBody, wantBody) {
			t.Fatalf("%q: body %q, %v; want %q", b, gotBody, err, wantBody)
		}
		if left, _ := io.ReadAll(r); string(left) != string(b[x.size:]) {
			t.Fatalf("%q: %q is left, net/http leaves %q", b, b[x.size:], left)
		}
		if got.Method != want.Method || *got.URL != *want.URL || got.RequestURI != want.RequestURI || got.Host != want.Host ||
			got.Proto != want.Proto || got.ContentLength != want.ContentLength || got.Close != want.Close || want.TransferEncoding != nil ||
			!maps.EqualFunc(got.Header, want.Header, slices.Equal[[]string]) {
			t.Fatalf("%q:\ngot  %+v\nwant %+v", b, got, want)
		}
		// The server behind http.ReadRequest is stricter still.
		for name, values := range want.Header {
			if !consistsOf(name, isToken) {
				t.Fatalf("%q: name %q", b, name)
			}
			for _, value := range values {
				if strings.ContainsFunc(value, func(c rune) bool { return c < ' ' && c != '\t' || c == 0x7f }) {
					t.Fatalf("%q: value %q", b, value)
				}
			}
		}
	})
}
