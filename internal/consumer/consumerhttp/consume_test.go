package consumerhttp

import (
	"bytes"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"melmastoon.ghasi.io/bff"
)

const consumePath = "/internal/handoff/bhd_01H8YN7QV4D8KZ4F8Y5CK4MV3D/consume"

func signed(key, method, path string, at int64, body []byte) string {
	digest := sha256.Sum256(body)
	mac := hmac.New(sha256.New, []byte(key))
	_, _ = fmt.Fprintf(mac, "%s\n%s\n%d\n%s", method, path, at, hex.EncodeToString(digest[:]))
	return fmt.Sprintf("t=%d,v1=%s", at, hex.EncodeToString(mac.Sum(nil)))
}

func TestCallerAuth(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 4, 23, 9, 0, 0, 0, time.UTC)
	auth := CallerAuth{Token: "token", HMACKey: []byte("key")}
	body, at := []byte(`{"token":"x"}`), now.Unix()
	good := signed("key", "POST", consumePath, at, body)
	tests := map[string]struct {
		auth   CallerAuth
		bearer string
		hmac   string
		body   []byte
		want   bool
	}{
		"both proofs":         {auth, "Bearer token", good, body, true},
		"a minute late":       {auth, "Bearer token", signed("key", "POST", consumePath, at-60, body), body, true},
		"more than a minute":  {auth, "Bearer token", signed("key", "POST", consumePath, at-61, body), body, false},
		"of the future":       {auth, "Bearer token", signed("key", "POST", consumePath, at+61, body), body, false},
		"another token":       {auth, "Bearer other", good, body, false},
		"part of the token":   {auth, "Bearer toke", good, body, false},
		"no token":            {auth, "Bearer ", good, body, false},
		"another scheme":      {auth, "Basic token", good, body, false},
		"no signature":        {auth, "Bearer token", "", body, false},
		"another key":         {auth, "Bearer token", signed("else", "POST", consumePath, at, body), body, false},
		"another body":        {auth, "Bearer token", good, []byte(`{"token":"y"}`), false},
		"another path":        {auth, "Bearer token", signed("key", "POST", "/internal", at, body), body, false},
		"another method":      {auth, "Bearer token", signed("key", "PUT", consumePath, at, body), body, false},
		"more after the mac":  {auth, "Bearer token", good + ",v2=00", body, false},
		"nothing is set up":   {CallerAuth{}, "Bearer ", good, body, false},
		"no key is set up":    {CallerAuth{Token: "token"}, "Bearer token", signed("", "POST", consumePath, at, body), body, false},
		"no token is set up":  {CallerAuth{HMACKey: []byte("key")}, "Bearer token", good, body, false},
		"empty token, no set": {CallerAuth{HMACKey: []byte("key")}, "Bearer ", good, body, false},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, consumePath, bytes.NewReader(tc.body))
			r.Header.Set("Authorization", tc.bearer)
			r.Header.Set("X-Internal-HMAC", tc.hmac)
			err := tc.auth.check(r, tc.body, now)
			if (err == nil) != tc.want || (err != nil && bff.CodeOf(err) != bff.CodeUnauthenticated) {
				t.Errorf("got %v, want accepted = %v", err, tc.want)
			}
		})
	}
}

func FuzzParseSignature(f *testing.F) {
	f.Add(signed("key", "POST", consumePath, 1776934800, nil))
	f.Add("t=,v1=")
	f.Add("t=1,v1=" + strings.Repeat("0", 64) + ",")
	f.Fuzz(func(t *testing.T, s string) {
		at, mac, err := parseSignature(s)
		if err == nil && (len(mac) != sha256.Size || !strings.EqualFold(strings.TrimPrefix(s[strings.Index(s, ",")+1:], "v1="), hex.EncodeToString(mac))) {
			t.Errorf("%q was read as %d and %x", s, at, mac)
		}
	})
}

func TestVisitorHashes(t *testing.T) {
	t.Parallel()
	v := Visitors{Pepper: []byte("a"), OldPeppers: [][]byte{[]byte("b")}, Classify: func(string) string { return "" }}
	now := time.Now()
	visit := func(v Visitors, header ...string) [2]string {
		r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/", nil)
		for i := 0; i+1 < len(header); i += 2 {
			r.Header.Set(header[i], header[i+1])
		}
		reads := newReader(v)
		got := reads.read(r, reads.browser(r.Header), now)
		return [2]string{got.Fingerprint.String(), got.Base.String()}
	}
	const ua = "Mozilla/5.0 (X11; Linux x86_64; rv:130.0) Gecko/20100101 Firefox/130.0"
	base := visit(v, "User-Agent", ua, "Accept-Language", "fa")
	if base[0] != base[1] {
		t.Error("without hints the fingerprint is not its base")
	}
	if visit(v, "User-Agent", strings.ReplaceAll(ua, "130.0", "131.0.2"), "Accept-Language", "fa") != base {
		t.Error("an updated browser is another")
	}
	hinted := visit(v, "User-Agent", ua, "Accept-Language", "fa", "X-Client-Screen", "1080x1920")
	if hinted[0] == base[0] || hinted[1] != base[1] {
		t.Error("hints change the base, or nothing")
	}
	if visit(v, "User-Agent", ua, "Accept-Language", "fa", "X-Client-Screen", "1920x1080") != hinted {
		t.Error("a turned phone is another")
	}
	for name, other := range map[string][2]string{
		"another browser":  visit(v, "User-Agent", "curl/8", "Accept-Language", "fa"),
		"another language": visit(v, "User-Agent", ua, "Accept-Language", "ps"),
		"another pepper":   visit(Visitors{Pepper: []byte("c"), Classify: v.Classify}, "User-Agent", ua, "Accept-Language", "fa"),
	} {
		if other[0] == base[0] || other[1] == base[1] {
			t.Errorf("%s is the same visitor", name)
		}
	}
}
