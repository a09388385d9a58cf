package ratelimit

import (
	"net/netip"
	"strings"
	"testing"
)

func TestNetwork(t *testing.T) {
	t.Parallel()
	for addr, want := range map[string]string{
		"192.0.2.7":                    "192.0.2.7",
		"::ffff:192.0.2.7":             "192.0.2.7",
		"2001:db8:1:2:3:4:5:6":         "2001:db8:1:2::",
		"2001:db8:1:2:ffff:ffff::":     "2001:db8:1:2::",
		"fe80::1%eth0":                 "fe80::",
		"2001:db8:1:3::":               "2001:db8:1:3::",
		"::ffff:0:0:1":                 "::",
		"64:ff9b::192.0.2.7":           "64:ff9b::",
		"2001:db8:1:2:ffff:ffff:f:1%x": "2001:db8:1:2::",
	} {
		if got := Network(netip.MustParseAddr(addr)); got != netip.MustParseAddr(want) {
			t.Errorf("Network(%s) = %s, want %s", addr, got, want)
		}
	}
	if got := Network(netip.Addr{}); got.IsValid() {
		t.Errorf("Network of nothing = %v", got)
	}
}

func TestBucketsHideTheirSubject(t *testing.T) {
	t.Parallel()
	l := newLimiter(t, Config{})
	r := rule(t, l, "search")
	a, b := r.Key("gms_a"), r.IP(netip.MustParseAddr("192.0.2.7"))
	seen := map[bucketID]bool{a.id(newMACs(pepper)): true, b.id(newMACs(pepper)): true, a.id(newMACs([]byte("another pepper.."))): true}
	if len(seen) != 3 {
		t.Error("bucket ids collide")
	}
	if name := bucket("search", a.id(newMACs(pepper))); strings.Contains(name, "gms_a") || len(name) != len("search:")+22 {
		t.Errorf("bucket name %q", name)
	}
}
