package bff_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"pgregory.net/rapid"

	bff "melmastoon.ghasi.io/bff"
)

const (
	tenantULID = "01H8YN7QV4D8KZ4F8Y5CK4MV3D"
	tenantUUID = "018a3d53-df64-6a27-f23d-1e2b264a6c6d"
)

func TestParseID(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name string
		want bff.Prefix
		in   string
		id   string // empty: refused
	}{
		{"canonical", bff.PrefixTenant, "tnt_" + tenantULID, "tnt_" + tenantULID},
		{"lower-case ULID", bff.PrefixTenant, "tnt_" + strings.ToLower(tenantULID), "tnt_" + tenantULID},
		{"alias ten", bff.PrefixTenant, "ten_" + tenantULID, "tnt_" + tenantULID},
		{"alias tenant", bff.PrefixTenant, "tenant_" + tenantULID, "tnt_" + tenantULID},
		{"alias prp", bff.PrefixProperty, "prp_" + tenantULID, "ppt_" + tenantULID},
		{"alias prop", bff.PrefixProperty, "prop_" + tenantULID, "ppt_" + tenantULID},
		{"alias pty", bff.PrefixProperty, "pty_" + tenantULID, "ppt_" + tenantULID},
		{"all zeros", bff.PrefixHandoff, "bhd_00000000000000000000000000", "bhd_00000000000000000000000000"},
		{"all ones", bff.PrefixHandoff, "bhd_7ZZZZZZZZZZZZZZZZZZZZZZZZZ", "bhd_7ZZZZZZZZZZZZZZZZZZZZZZZZZ"},
		{"past 128 bits", bff.PrefixHandoff, "bhd_80000000000000000000000000", ""},
		{"another kind", bff.PrefixTenant, "ppt_" + tenantULID, ""},
		{"alias of another kind", bff.PrefixTenant, "prop_" + tenantULID, ""},
		{"capital prefix", bff.PrefixTenant, "TNT_" + tenantULID, ""},
		{"no prefix", bff.PrefixTenant, tenantULID, ""},
		{"empty prefix", bff.PrefixTenant, "_" + tenantULID, ""},
		{"empty", bff.PrefixTenant, "", ""},
		{"prefix alone", bff.PrefixTenant, "tnt_", ""},
		{"too short", bff.PrefixTenant, "tnt_" + tenantULID[1:], ""},
		{"too long", bff.PrefixTenant, "tnt_" + tenantULID + "0", ""},
		{"letter outside the alphabet", bff.PrefixTenant, "tnt_01H8YN7QV4D8KZ4F8Y5CK4MV3U", ""},
		{"two underscores", bff.PrefixTenant, "tnt__" + tenantULID[1:], ""},
		{"a UUID", bff.PrefixTenant, "tnt_" + tenantUUID, ""},
		{"line break", bff.PrefixTenant, "tnt_" + tenantULID + "\n", ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			id, err := bff.ParseID(tt.want, tt.in)
			if tt.id == "" {
				if !errors.Is(err, bff.ErrID) || !id.IsZero() {
					t.Fatalf("ParseID(%q) = %v, %v, want ErrID", tt.in, id, err)
				}
				// What anyone may send must not come back in a message.
				if len(tt.in) > len("tnt_") && strings.Contains(err.Error(), tt.in) {
					t.Errorf("the error quotes the input: %v", err)
				}
				return
			}
			if err != nil || id.String() != tt.id || id.Prefix() != tt.want || id.IsZero() {
				t.Errorf("ParseID(%q) = %v, %v, want %s", tt.in, id, err, tt.id)
			}
		})
	}
}

func TestIDForms(t *testing.T) {
	t.Parallel()
	id := bff.MustParseID(bff.PrefixTenant, "tnt_"+tenantULID)
	if got := id.UUID(); got != tenantUUID {
		t.Errorf("UUID = %s, want %s", got, tenantUUID)
	}
	if got := id.ULID(); got != tenantULID {
		t.Errorf("ULID = %s", got)
	}
	for _, s := range []string{tenantUUID, strings.ToUpper(tenantUUID)} {
		if back, err := bff.IDFromUUID(bff.PrefixTenant, s); err != nil || back != id {
			t.Errorf("IDFromUUID(%q) = %v, %v", s, back, err)
		}
	}
	for _, s := range []string{
		"", tenantULID, tenantUUID[1:], tenantUUID + "0", strings.ReplaceAll(tenantUUID, "-", "_"), "{" + tenantUUID[1:35] + "}", "g" + tenantUUID[1:],
		strings.ReplaceAll(tenantUUID, "-", "") + "----",
	} {
		if _, err := bff.IDFromUUID(bff.PrefixTenant, s); !errors.Is(err, bff.ErrID) {
			t.Errorf("IDFromUUID(%q): err = %v, want ErrID", s, err)
		}
	}
	if zero := (bff.ID{}); !zero.IsZero() || zero.String() != "" {
		t.Errorf("the zero id is %q", zero)
	}
}

// TestIDLossless: the same 128 bits in every form.
func TestIDLossless(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		bits := [16]byte(rapid.SliceOfN(rapid.Byte(), 16, 16).Draw(t, "bits"))
		id := bff.IDFromBytes(bff.PrefixProperty, bits)
		fromUUID, err := bff.IDFromUUID(bff.PrefixProperty, id.UUID())
		if err != nil || fromUUID != id {
			t.Fatalf("through %s: %v, %v", id.UUID(), fromUUID, err)
		}
		fromWire, err := bff.ParseID(bff.PrefixProperty, id.String())
		if err != nil || fromWire != id || fromWire.Bytes() != bits {
			t.Fatalf("through %s: %v, %v", id, fromWire, err)
		}
		b, err := json.Marshal(id)
		if err != nil {
			t.Fatal(err)
		}
		var fromJSON bff.ID
		if err := json.Unmarshal(b, &fromJSON); err != nil || fromJSON != id {
			t.Fatalf("through %s: %v, %v", b, fromJSON, err)
		}
	})
}

// TestIDOrder: ids sort like their bits, on the wire and as uuid.
func TestIDOrder(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		draw := rapid.SliceOfN(rapid.Byte(), 16, 16)
		x, y := [16]byte(draw.Draw(t, "x")), [16]byte(draw.Draw(t, "y"))
		a, b := bff.IDFromBytes(bff.PrefixEvent, x), bff.IDFromBytes(bff.PrefixEvent, y)
		want := bytes.Compare(x[:], y[:])
		if strings.Compare(a.String(), b.String()) != want || strings.Compare(a.UUID(), b.UUID()) != want {
			t.Fatalf("%s and %s do not sort like their bits", a, b)
		}
	})
}

func TestIDText(t *testing.T) {
	t.Parallel()
	tests := []struct{ in, want string }{
		{"", ""},
		{"tnt_" + tenantULID, "tnt_" + tenantULID},
		{"ten_" + strings.ToLower(tenantULID), "tnt_" + tenantULID},
		{"newkind_" + tenantULID, "newkind_" + tenantULID},
	}
	for _, tt := range tests {
		var id bff.ID
		if err := id.UnmarshalText([]byte(tt.in)); err != nil || id.String() != tt.want {
			t.Errorf("UnmarshalText(%q) = %v, %v, want %q", tt.in, id, err, tt.want)
		}
	}
	before := bff.MustParseID(bff.PrefixTenant, "tnt_"+tenantULID)
	for _, in := range []string{
		"_" + tenantULID, "a\nb_" + tenantULID, "TNT_" + tenantULID, "é_" + tenantULID, "a\"_" + tenantULID, "ninechars_" + tenantULID, "tnt", tenantULID,
		"tnt_x",
	} {
		id := before
		if err := id.UnmarshalText([]byte(in)); !errors.Is(err, bff.ErrID) || id != before {
			t.Errorf("UnmarshalText(%q) = %v, %v, want ErrID and nothing changed", in, id, err)
		}
	}
}

func TestNewID(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 4, 22, 9, 30, 0, 123456789, time.UTC)
	a, b := bff.NewID(bff.PrefixGuestSession, now), bff.NewID(bff.PrefixGuestSession, now)
	if a == b {
		t.Error("two ids of one moment are equal")
	}
	if got := a.Time(); !got.Equal(now.Truncate(time.Millisecond)) || got.Location() != time.UTC {
		t.Errorf("Time = %v", got)
	}
	for _, clock := range []time.Time{{}, time.UnixMilli(-1), time.Date(20000, 1, 1, 0, 0, 0, 0, time.UTC)} {
		if a, b := bff.NewID(bff.PrefixEvent, clock), bff.NewID(bff.PrefixEvent, clock); a == b {
			t.Errorf("two ids with the clock at %v are equal", clock)
		}
	}
}

func TestMustParseID(t *testing.T) {
	t.Parallel()
	defer func() {
		if recover() == nil {
			t.Error("a malformed constant must panic")
		}
	}()
	bff.MustParseID(bff.PrefixTenant, "tnt_x")
}

func TestParseRequestID(t *testing.T) {
	t.Parallel()
	want := bff.MustParseID(bff.PrefixRequest, "req_"+tenantULID)
	for _, s := range []string{tenantULID, strings.ToLower(tenantULID), "req_" + tenantULID, tenantUUID} {
		if got, err := bff.ParseRequestID(s); err != nil || got != want {
			t.Errorf("ParseRequestID(%q) = %v, %v", s, got, err)
		}
	}
	for _, s := range []string{"", "x", "req_", "tnt_" + tenantULID, tenantULID + "\n", strings.Repeat("x", 36), strings.Repeat("0", 10_000)} {
		if got, err := bff.ParseRequestID(s); !errors.Is(err, bff.ErrID) || !got.IsZero() {
			t.Errorf("ParseRequestID(%q) = %v, %v", s, got, err)
		}
	}
}

func TestSequence(t *testing.T) {
	t.Parallel()
	s := bff.NewSequence(bff.PrefixEvent)
	now := time.Date(2026, 4, 22, 9, 30, 0, 0, time.UTC)
	clocks := []time.Time{
		now, now, now.Add(time.Millisecond), now.Add(-time.Hour), now,
		// Clocks that no id can carry.
		{},
		time.UnixMilli(-1), time.Date(20000, 1, 1, 0, 0, 0, 0, time.UTC),
		now.Add(time.Second),
	}
	last := ""
	for i, clock := range clocks {
		id := s.Next(clock)
		if id.String() <= last || id.Prefix() != bff.PrefixEvent {
			t.Errorf("%d, clock %v: %s after %s", i, clock, id, last)
		}
		last = id.String()
	}
	if got := s.Next(now.Add(time.Hour)).Time(); !got.Equal(now.Add(time.Hour)) {
		t.Errorf("a strange clock has moved the sequence to %v", got)
	}
}

// TestSequenceConcurrently: every caller sees its own ids rise, and no id is
// handed out twice, also when a whole burst falls into one millisecond.
func TestSequenceConcurrently(t *testing.T) {
	t.Parallel()
	const callers, each = 8, 2000
	s := bff.NewSequence(bff.PrefixEvent)
	now := time.Date(2026, 4, 22, 9, 30, 0, 0, time.UTC)
	got := make([][]bff.ID, callers)
	var wg sync.WaitGroup
	for c := range callers {
		wg.Go(func() {
			for i := range each {
				got[c] = append(got[c], s.Next(now.Add(time.Duration(i/1000)*time.Millisecond)))
			}
		})
	}
	wg.Wait()
	seen := make(map[bff.ID]bool, callers*each)
	for _, ids := range got {
		last := ""
		for _, id := range ids {
			if id.String() <= last {
				t.Fatalf("%s after %s", id, last)
			}
			if seen[id] {
				t.Fatalf("%s was handed out twice", id)
			}
			last, seen[id] = id.String(), true
		}
	}
}

// TestSequenceOverflow: a millisecond without room left ends early, and the
// order holds.
func TestSequenceOverflow(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 4, 22, 9, 30, 0, 0, time.UTC)
	s := bff.NewSequence(bff.PrefixEvent)
	full := s.Next(now).Bytes()
	for i := 6; i < len(full); i++ {
		full[i] = 0xff
	}
	bff.SetLast(s, full)
	next := s.Next(now)
	if got := next.Time(); !got.Equal(now.Add(time.Millisecond)) {
		t.Errorf("the id after the last of %v carries %v", now, got)
	}
	carry := full
	carry[7] = 0 // room above the lower eight bytes
	bff.SetLast(s, carry)
	if got := s.Next(now).Bytes(); bytes.Compare(got[:], carry[:]) <= 0 || got[7] != 1 {
		t.Errorf("%x after %x", got, carry)
	}
}

// TestNewIDIsRandom: no byte of the eighty bits stands still, and none comes twice.
func TestNewIDIsRandom(t *testing.T) {
	t.Parallel()
	const callers, each = 4, 5000 // each draws its buffer empty many times
	now := time.Date(2026, 4, 22, 9, 30, 0, 0, time.UTC)
	var (
		mu   sync.Mutex
		wg   sync.WaitGroup
		seen = map[[16]byte]bool{}
	)
	for range callers {
		wg.Go(func() {
			for range each {
				b := bff.NewID(bff.PrefixGuestSession, now).Bytes()
				mu.Lock()
				seen[b] = true
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	if len(seen) != callers*each {
		t.Fatalf("%d different ids, want %d", len(seen), callers*each)
	}
	for at := 6; at < 16; at++ {
		var values [256]bool
		for b := range seen {
			values[b[at]] = true
		}
		for v, there := range values {
			if !there {
				t.Errorf("byte %d is never %d", at, v)
			}
		}
	}
}

func FuzzParseID(f *testing.F) {
	for _, s := range []string{"tnt_" + tenantULID, "ten_" + strings.ToLower(tenantULID), "", "_", "tnt_", tenantUUID, "req_" + tenantULID} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		if id, err := bff.ParseID(bff.PrefixTenant, s); err == nil {
			again, err := bff.ParseID(bff.PrefixTenant, id.String())
			if err != nil || again != id || len(id.String()) != 30 {
				t.Fatalf("ParseID(%q) = %v, which reads as %v, %v", s, id, again, err)
			}
		}
		var id bff.ID
		if err := id.UnmarshalText([]byte(s)); err == nil {
			var again bff.ID
			if err := again.UnmarshalText([]byte(id.String())); err != nil || again != id {
				t.Fatalf("%q is read as %v, which reads as %v, %v", s, id, again, err)
			}
			if strings.ContainsFunc(id.String(), func(r rune) bool { return r <= ' ' || r > '~' || r == '"' }) {
				t.Fatalf("%q is read as %q", s, id)
			}
		}
		if id, err := bff.ParseRequestID(s); err == nil {
			if again, err := bff.ParseRequestID(id.String()); err != nil || again != id {
				t.Fatalf("ParseRequestID(%q) = %v, which reads as %v, %v", s, id, again, err)
			}
		}
		if id, err := bff.IDFromUUID(bff.PrefixTenant, s); err == nil && id.UUID() != strings.ToLower(s) {
			t.Fatalf("IDFromUUID(%q) = %v", s, id.UUID())
		}
	})
}
