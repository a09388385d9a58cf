package handoff_test

import (
	"testing"

	bff "melmastoon.ghasi.io/bff"
	"melmastoon.ghasi.io/bff/handoff"
)

func addTokens(f *testing.F) {
	f.Helper()
	token, p := mint(f, ring(f), claims(), minted)
	f.Add(token)
	f.Add("")
	f.Add(token[:len(token)-1])
	f.Add(token + "\n")
	f.Add(handoff.Seal(secretB, p))
	p.KeyID, p.Locale = "k", "en"
	f.Add(handoff.Seal(secretA, p))
}

// FuzzVerify: only what was minted verifies, and nothing panics.
func FuzzVerify(f *testing.F) {
	addTokens(f)
	ring := ring(f)
	f.Fuzz(func(t *testing.T, token string) {
		p, err := handoff.Verify(ring, token, minted)
		switch {
		case err == nil:
			if again := handoff.Seal(secretA, p); again != token {
				t.Fatalf("%q verifies, but its payload is minted as %q", token, again)
			}
		case p != (handoff.Payload{}):
			t.Fatalf("refused with a payload: %v", p)
		case bff.CodeOf(err) != bff.CodeHandoffSignatureInvalid && bff.CodeOf(err) != bff.CodeHandoffExpired:
			t.Fatalf("refused with %v", err)
		}
	})
}

// FuzzInspect: a string that decodes is the only string that decodes to its
// payload and MAC.
func FuzzInspect(f *testing.F) {
	addTokens(f)
	f.Fuzz(func(t *testing.T, token string) {
		p, err := handoff.Inspect(token)
		if err != nil {
			return
		}
		_, mac := split(t, token)
		if again := handoff.Encode(p, mac); again != token {
			t.Fatalf("%q decodes to what encodes as %q", token, again)
		}
		if bad := p.Validate(); bad != nil {
			t.Fatalf("%q decodes to a payload that cannot be minted: %v", token, bad)
		}
	})
}

// FuzzParseKeySet: a file that is accepted survives being written and read,
// and the set it gives can mint.
func FuzzParseKeySet(f *testing.F) {
	f.Add([]byte(`{"keys":[{"id":"a","state":"active","secret":"AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=","activatedAt":"2026-04-01T00:00:00Z"}]}`))
	f.Add([]byte(`{"keys":[{"id":"a","state":"retired","activatedAt":"2026-04-01T00:00:00Z"}]}`))
	f.Add([]byte(`{"keys":null}`))
	f.Fuzz(func(t *testing.T, file []byte) {
		set, err := handoff.ParseKeySet(file)
		if err != nil {
			return
		}
		again, err := handoff.ParseKeySet(must(set.EncodeFile())(t))
		if err != nil {
			t.Fatalf("%v does not survive its own file: %v", set, err)
		}
		token, want := mint(t, handoff.NewKeyring(set), claims(), minted)
		if got, err := handoff.Verify(handoff.NewKeyring(again), token, minted); err != nil || got != want {
			t.Fatalf("Verify = %v, %v", got, err)
		}
	})
}
