package callers

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

func TestAuth(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 4, 23, 9, 0, 0, 0, time.UTC)
	auth := Auth{Token: "token", HMACKey: []byte("key")}
	body, at := []byte(`{"token":"x"}`), now.Unix()
	good := signed("key", "POST", consumePath, at, body)
	tests := map[string]struct {
		auth   Auth
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
		"scheme in any case":  {auth, "bEARER token", good, body, true},
		"another scheme":      {auth, "Basic token", good, body, false},
		"no signature":        {auth, "Bearer token", "", body, false},
		"another key":         {auth, "Bearer token", signed("else", "POST", consumePath, at, body), body, false},
		"another body":        {auth, "Bearer token", good, []byte(`{"token":"y"}`), false},
		"another path":        {auth, "Bearer token", signed("key", "POST", "/internal", at, body), body, false},
		"another method":      {auth, "Bearer token", signed("key", "PUT", consumePath, at, body), body, false},
		"more after the mac":  {auth, "Bearer token", good + ",v2=00", body, false},
		"nothing is set up":   {Auth{}, "Bearer ", good, body, false},
		"no key is set up":    {Auth{Token: "token"}, "Bearer token", signed("", "POST", consumePath, at, body), body, false},
		"no token is set up":  {Auth{HMACKey: []byte("key")}, "Bearer token", good, body, false},
		"empty token, no set": {Auth{HMACKey: []byte("key")}, "Bearer ", good, body, false},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, consumePath, bytes.NewReader(tc.body))
			r.Header.Set("Authorization", tc.bearer)
			r.Header.Set("X-Internal-HMAC", tc.hmac)
			err := tc.auth.Check(r, tc.body, now)
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
