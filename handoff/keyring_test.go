package handoff_test

import (
	"bytes"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	bff "melmastoon.ghasi.io/bff"
	"melmastoon.ghasi.io/bff/handoff"
)

// states lists the keys of a set as "id state".
func states(s *handoff.KeySet) string {
	var names []string
	for _, k := range s.Keys() {
		names = append(names, k.ID()+" "+string(k.State()))
	}
	return strings.Join(names, ", ")
}

// TestRotation walks a ring through two rotations and asks at every step which
// keys may still do what.
func TestRotation(t *testing.T) {
	t.Parallel()
	start := minted
	set := must(handoff.NewKeySet(keyA, secretA, start))(t)
	tokens := map[string]string{}
	for id, secret := range map[string][]byte{keyA: secretA, keyB: secretB, keyC: secretC} {
		alone := handoff.NewKeyring(must(handoff.NewKeySet(id, secret, start))(t))
		tokens[id], _ = mint(t, alone, claims(), start)
	}
	steps := []struct {
		name         string
		do           func(*handoff.KeySet) (*handoff.KeySet, error)
		wantStates   string
		wantSigning  string
		wantVerifies []string
	}{
		{
			"one key", func(s *handoff.KeySet) (*handoff.KeySet, error) { return s, nil },
			keyA + " active", keyA,
			[]string{keyA},
		},
		{
			"B known", func(s *handoff.KeySet) (*handoff.KeySet, error) { return s.Add(keyB, secretB) },
			keyA + " active, " + keyB + " pending", keyA,
			[]string{keyA},
		},
		{
			"B signs", func(s *handoff.KeySet) (*handoff.KeySet, error) { return s.Promote(keyB, start.Add(time.Hour)) },
			keyA + " grace, " + keyB + " active", keyB,
			[]string{keyA, keyB},
		},
		{
			"C known", func(s *handoff.KeySet) (*handoff.KeySet, error) { return s.Add(keyC, secretC) },
			keyA + " grace, " + keyB + " active, " + keyC + " pending", keyB,
			[]string{keyA, keyB},
		},
		{
			"C signs", func(s *handoff.KeySet) (*handoff.KeySet, error) { return s.Promote(keyC, start.Add(80*time.Minute)) },
			keyA + " grace, " + keyB + " grace, " + keyC + " active", keyC,
			[]string{keyA, keyB, keyC},
		},
		{
			"A gone", func(s *handoff.KeySet) (*handoff.KeySet, error) { return s.Retire(keyA, start.Add(90*time.Minute)) },
			keyA + " retired, " + keyB + " grace, " + keyC + " active", keyC,
			[]string{keyB, keyC},
		},
		{
			"B leaked", func(s *handoff.KeySet) (*handoff.KeySet, error) { return s.Revoke(keyB) },
			keyA + " retired, " + keyB + " retired, " + keyC + " active", keyC,
			[]string{keyC},
		},
	}
	ring := handoff.NewKeyring(set)
	for _, step := range steps {
		next, err := step.do(ring.KeySet())
		if err != nil {
			t.Fatalf("%s: %v", step.name, err)
		}
		before := states(ring.KeySet())
		if next != ring.KeySet() && states(ring.KeySet()) != before {
			t.Errorf("%s: the set before was changed", step.name)
		}
		ring.Replace(next)
		if got := states(next); got != step.wantStates {
			t.Errorf("%s: states %q, want %q", step.name, got, step.wantStates)
		}
		if _, p := mint(t, ring, claims(), start); p.KeyID != step.wantSigning {
			t.Errorf("%s: signed by %s, want %s", step.name, p.KeyID, step.wantSigning)
		}
		var verifies []string
		for _, id := range []string{keyA, keyB, keyC} {
			switch _, err := handoff.Verify(ring, tokens[id], start); {
			case err == nil:
				verifies = append(verifies, id)
			case !errors.Is(err, handoff.ErrUnknownKey) || bff.CodeOf(err) != bff.CodeHandoffSignatureInvalid:
				t.Errorf("%s: %s refused with %v", step.name, id, err)
			}
		}
		if fmt.Sprint(verifies) != fmt.Sprint(step.wantVerifies) {
			t.Errorf("%s: %v verify, want %v", step.name, verifies, step.wantVerifies)
		}
	}
}

func TestRotationRefuses(t *testing.T) {
	t.Parallel()
	one := must(handoff.NewKeySet(keyA, secretA, minted))(t)
	pending := must(one.Add(keyB, secretB))(t)
	promoted := must(pending.Promote(keyB, minted.Add(time.Hour)))(t)
	third := must(promoted.Add(keyC, secretC))(t)
	// C follows B at once: A's tokens still live as long as B's activation says.
	hasty := must(third.Promote(keyC, minted.Add(time.Hour+time.Millisecond)))(t)
	tests := []struct {
		name string
		do   func() (*handoff.KeySet, error)
		want string
	}{
		{"add an id again", func() (*handoff.KeySet, error) { return one.Add(keyA, secretB) }, "id is used twice"},
		{"add a secret again", func() (*handoff.KeySet, error) { return one.Add(keyB, secretA) }, "secret is used twice"},
		{"add a short secret", func() (*handoff.KeySet, error) { return one.Add(keyB, secretB[:31]) }, "secret must be 32 to 256 bytes"},
		{"add a bad id", func() (*handoff.KeySet, error) { return one.Add("Key_1", secretB) }, "id must be"},
		{"promote the active", func() (*handoff.KeySet, error) { return one.Promote(keyA, minted) }, "is not pending"},
		{"promote the unknown", func() (*handoff.KeySet, error) { return one.Promote(keyB, minted) }, "no such key"},
		{"promote with the clock set back", func() (*handoff.KeySet, error) { return pending.Promote(keyB, minted) }, "before the active key's"},
		{"retire the active", func() (*handoff.KeySet, error) { return one.Retire(keyA, minted.Add(1e6*time.Hour)) }, "is not in grace"},
		{"retire the pending", func() (*handoff.KeySet, error) { return pending.Retire(keyB, minted.Add(1e6*time.Hour)) }, "is not in grace"},
		{"retire too early", func() (*handoff.KeySet, error) {
			return promoted.Retire(keyA, minted.Add(time.Hour+handoff.Lifetime-1))
		}, "may still have living tokens until 2026-04-22T11:00:00Z"},
		{
			"retire the second too early", func() (*handoff.KeySet, error) { return hasty.Retire(keyB, minted.Add(time.Hour+handoff.Lifetime)) },
			"may still have living tokens",
		},
		{"revoke the active", func() (*handoff.KeySet, error) { return promoted.Revoke(keyB) }, "promote another key first"},
		{"revoke the unknown", func() (*handoff.KeySet, error) { return promoted.Revoke("x") }, "no such key"},
		{"a ring with no active key", func() (*handoff.KeySet, error) { return (*handoff.KeySet)(nil).Add(keyA, secretA) }, "0 active keys"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			if got, err := tt.do(); err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("got %v, %v, want %q", got, err, tt.want)
			}
		})
	}
	for _, set := range []*handoff.KeySet{promoted, hasty} {
		if _, err := set.Retire(keyA, minted.Add(time.Hour+handoff.Lifetime)); err != nil {
			t.Errorf("after a token's whole life: %v", err)
		}
	}
	if got := states(must(pending.Revoke(keyB))(t)); got != keyA+" active" {
		t.Errorf("a revoked pending key leaves %q", got)
	}
}

// TestSecretsAreCopied: a caller that wipes or reuses its buffer must not
// change the key.
func TestSecretsAreCopied(t *testing.T) {
	t.Parallel()
	secret := bytes.Clone(secretA)
	wiped := handoff.NewKeyring(must(handoff.NewKeySet(keyA, secret, minted))(t))
	clear(secret)
	token, _ := mint(t, wiped, claims(), minted)
	if _, err := handoff.Verify(ring(t), token, minted); err != nil {
		t.Error(err)
	}
}

func TestKeyFile(t *testing.T) {
	t.Parallel()
	set := must(handoff.NewKeySet(keyA, secretA, minted))(t)
	set = must(set.Add(keyB, secretB))(t)
	set = must(set.Promote(keyB, minted.Add(time.Hour)))(t)
	set = must(set.Retire(keyA, minted.Add(2*time.Hour)))(t)
	set = must(set.Add(keyC, secretC))(t)
	file := must(set.EncodeFile())(t)
	const want = `{
  "keys": [
    {
      "id": "hmac-2026-04",
      "state": "retired",
      "activatedAt": "2026-04-22T09:30:00.123Z"
    },
    {
      "id": "hmac-2026-07",
      "state": "active",
      "secret": "dGVzdC1vbmx5IHNlY3JldCBCOiAzMiBieXRlcyBtaW4=",
      "activatedAt": "2026-04-22T10:30:00.123Z"
    },
    {
      "id": "hmac-2026-10",
      "state": "pending",
      "secret": "dGVzdC1vbmx5IHNlY3JldCBDOiAzMiBieXRlcyBtaW4="
    }
  ]
}
`
	if string(file) != want {
		t.Errorf("file:\n%s", file)
	}
	read := must(handoff.ParseKeySet(file))(t)
	if again := must(read.EncodeFile())(t); !bytes.Equal(again, file) {
		t.Errorf("read and written again:\n%s", again)
	}
	token, _ := mint(t, handoff.NewKeyring(set), claims(), minted)
	if _, err := handoff.Verify(handoff.NewKeyring(read), token, minted); err != nil {
		t.Error(err)
	}
	// A retired key that still has its secret in the file loses it on reading.
	leftover := strings.Replace(want, `"state": "retired",`, `"state": "retired", "secret": "AAAA",`, 1)
	if again := must(must(handoff.ParseKeySet([]byte(leftover)))(t).EncodeFile())(t); !bytes.Equal(again, file) {
		t.Errorf("a retired secret survived:\n%s", again)
	}
}

func TestKeyFileRefuses(t *testing.T) {
	t.Parallel()
	const (
		shy = "c2h5LXNlY3JldC1zaHktc2VjcmV0LXNoeS1zZWNyZXQ=" // "shy-secret-…": must never be quoted
		at  = `,"activatedAt":"2026-04-01T00:00:00Z"`
	)
	key := func(id, state, secret, more string) string {
		return fmt.Sprintf(`{"id":%q,"state":%q,"secret":%q%s}`, id, state, secret, more)
	}
	file := func(keys ...string) string { return `{"keys":[` + strings.Join(keys, ",") + `]}` }
	good := key("a", "active", shy, at)
	tests := []struct {
		name, file string
		want       []string
	}{
		{"empty", "", []string{"keyring file: want"}},
		{"not JSON", shy, []string{"keyring file: want"}},
		{"another type", `{"keys":"` + shy + `"}`, []string{"keyring file: want"}},
		{"unknown field", `{"keys":[{"` + shy + `":1}]}`, []string{"keyring file: want"}},
		{"a bad moment", file(key("a", "active", shy, `,"activatedAt":"`+shy+`"`)), []string{"keyring file: want"}},
		{"two documents", file(good) + file(good), []string{"data after"}},
		{"too large", strings.Repeat(" ", 64<<10) + file(good), []string{"too large"}},
		{"no keys", file(), []string{"0 active keys"}},
		{"no active key", file(key("a", "grace", shy, at)), []string{"0 active keys"}},
		{"two active keys", file(good, key("b", "active", "AAAA"+shy, at)), []string{"2 active keys"}},
		{"too many keys", file(strings.Split(strings.Repeat(good+"|", 99)+good, "|")...), []string{"more than 32 keys"}},
		{"bad base64", file(key("a", "active", shy+"!", at)), []string{"secret is not base64"}},
		{"loose base64", file(key("a", "active", strings.TrimRight(shy, "="), at)), []string{"secret is not base64"}},
		{"no secret", file(key("a", "active", "", at)), []string{"secret must be"}},
		{"state", file(good, key("b", shy, "AAAA"+shy, at)), []string{"key 2: state must be"}},
		{"active since never", file(key("a", "active", shy, "")), []string{"activatedAt must be set"}},
		{"pending since", file(good, key("b", "pending", "AAAA"+shy, at)), []string{"activatedAt must be set"}},
		{"grace after active", file(good, key("b", "grace", "AAAA"+shy, at)), []string{"before the active key's"}},
		{
			"all at once", file(key("", "active", "AAAA", ""), key("B", "?", shy, at)),
			[]string{"key 1: id", "key 1: secret", "key 1: activatedAt", "key 2: id", "key 2: state"},
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			_, err := handoff.ParseKeySet([]byte(tt.file))
			if err == nil {
				t.Fatal("accepted")
			}
			for _, want := range tt.want {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("err = %v, want %q", err, want)
				}
			}
			if strings.Contains(err.Error(), shy[:10]) {
				t.Errorf("the error quotes the file: %v", err)
			}
		})
	}
	if _, err := handoff.ParseKeySet([]byte(file(good))); err != nil {
		t.Errorf("the good key alone: %v", err)
	}
}

// TestSecretsAreNotPrinted tries the ways in which a value ends up in a log.
func TestSecretsAreNotPrinted(t *testing.T) {
	t.Parallel()
	ring := ring(t)
	set := ring.KeySet()
	key := set.Keys()[0]
	mint(t, ring, claims(), minted) // prepares HMAC states, which are as good as the secret
	type nested struct {
		Key     handoff.Key
		Set     *handoff.KeySet
		Ring    *handoff.Keyring
		private handoff.Key
		keys    []handoff.Key
	}
	n := nested{key, set, ring, key, set.Keys()}
	values := []any{key, &key, set, *set, ring, n, &n, n.keys, []any{key}, map[string]handoff.Key{"k": key}, n.private}
	var log bytes.Buffer
	text := slog.New(slog.NewTextHandler(&log, nil))
	structured := slog.New(slog.NewJSONHandler(&log, nil))
	for _, v := range values {
		for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x", "%X", "%d", "%08b", "%p", "%T"} {
			fmt.Fprintf(&log, verb+"\n", v)
		}
		fmt.Fprintln(&log, v)
		text.Info("x", "v", v)
		structured.Info("x", "v", v)
		if b, err := json.Marshal(v); err == nil {
			log.Write(b)
		}
	}
	for name, shape := range map[string]string{
		"bytes":   string(secretA),
		"base64":  base64.StdEncoding.EncodeToString(secretA),
		"hex":     hex.EncodeToString(secretA),
		"HEX":     strings.ToUpper(hex.EncodeToString(secretA)),
		"decimal": strings.Trim(fmt.Sprintf("%d", secretA), "[]"),
		"Go":      strings.Trim(strings.TrimPrefix(fmt.Sprintf("%#v", secretA), "[]byte{"), "}"),
	} {
		if strings.Contains(log.String(), shape) {
			t.Errorf("the secret is printed in %s", name)
		}
	}
	for _, want := range []string{
		"hmac-2026-04 (active)", "keyring [hmac-2026-04 (active)]", "v.id=hmac-2026-04 v.state=active", `{"id":"hmac-2026-04","state":"active"}`,
	} {
		if !strings.Contains(log.String(), want) {
			t.Errorf("%q is not printed", want)
		}
	}
}

// TestReplaceConcurrently: minting and verifying go on while the ring is
// rotated under them, and every token verifies.
func TestReplaceConcurrently(t *testing.T) {
	t.Parallel()
	before := must(must(handoff.NewKeySet(keyA, secretA, minted))(t).Add(keyB, secretB))(t)
	after := must(before.Promote(keyB, minted.Add(time.Hour)))(t)
	// As the package says: who verifies is promoted first.
	minting, verifying := handoff.NewKeyring(before), handoff.NewKeyring(after)
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			for range 500 {
				token, p, err := handoff.Mint(minting, claims(), minted)
				if err != nil {
					t.Error(err)
					return
				}
				if got, err := handoff.Verify(verifying, token, minted); err != nil || got != p {
					t.Errorf("Verify = %v, %v", got, err)
					return
				}
			}
		})
	}
	wg.Go(func() {
		for range 500 {
			minting.Replace(after)
			minting.Replace(before)
		}
	})
	wg.Wait()
}
