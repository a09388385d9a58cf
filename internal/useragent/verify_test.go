package useragent

import (
	"context"
	"net"
	"net/netip"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// zone is a resolver over two maps.
type zone struct {
	names map[string][]string
	addrs map[string][]string
	err   error
	delay time.Duration
	asked atomic.Int32
}

func (z *zone) LookupAddr(ctx context.Context, addr string) ([]string, error) {
	z.asked.Add(1)
	select {
	case <-time.After(z.delay):
	case <-ctx.Done():
		return nil, &net.DNSError{Err: "timeout", IsTimeout: true}
	}
	if z.err != nil {
		return nil, z.err
	}
	if names, ok := z.names[addr]; ok {
		return names, nil
	}
	return nil, &net.DNSError{Err: "no such host", IsNotFound: true}
}

func (z *zone) LookupNetIP(_ context.Context, _, host string) (addrs []netip.Addr, err error) {
	for _, a := range z.addrs[host] {
		addrs = append(addrs, netip.MustParseAddr(a))
	}
	if addrs == nil {
		return nil, &net.DNSError{Err: "no such host", IsNotFound: true}
	}
	return addrs, nil
}

var now = time.Date(2026, 4, 23, 9, 0, 0, 0, time.UTC)

func newVerifier(t *testing.T, cfg VerifierConfig) *Verifier {
	t.Helper()
	v, err := NewVerifier(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return v
}

func TestVerify(t *testing.T) {
	t.Parallel()
	z := &zone{
		names: map[string][]string{
			"66.249.66.1":    {"crawl-66-249-66-1.googlebot.com."},
			"2001:4860::1":   {"geo-crawl-1.geo.googlebot.com."},
			"192.0.2.6":      {"6.2.0.192.bc.googleusercontent.com."}, // a machine that anyone can rent
			"192.0.2.7":      {"crawl-7.customer.googlebot.com."},
			"192.0.2.8":      {"rate-limited-proxy-8.google.com."},
			"192.0.2.10":     {"mail.google.com."},
			"192.0.2.1":      {"crawl-66-249-66-1.googlebot.com."}, // leads elsewhere
			"192.0.2.2":      {"googlebot.com.example.net."},
			"192.0.2.3":      {"evilgooglebot.com."},
			"192.0.2.4":      {"host.example.net.", "crawl-4.googlebot.com."},
			"192.0.2.5":      {"gone.googlebot.com."},
			"157.55.39.1":    {"msnbot-157-55-39-1.search.msn.com."},
			"203.0.113.9":    {"CRAWL-9.GoogleBot.com."},
			"198.51.100.200": {"a.example.", "b.example.", "c.example.", "d.example.", "crawl-200.googlebot.com."},
		},
		addrs: map[string][]string{
			"crawl-66-249-66-1.googlebot.com.":    {"66.249.66.1"},
			"geo-crawl-1.geo.googlebot.com.":      {"2001:4860::1"},
			"6.2.0.192.bc.googleusercontent.com.": {"192.0.2.6"},
			"crawl-7.customer.googlebot.com.":     {"192.0.2.7"},
			"rate-limited-proxy-8.google.com.":    {"192.0.2.8"},
			"mail.google.com.":                    {"192.0.2.10"},
			"evilgooglebot.com.":                  {"192.0.2.3"},
			"googlebot.com.example.net.":          {"192.0.2.2"},
			"crawl-4.googlebot.com.":              {"::ffff:192.0.2.4"},
			"msnbot-157-55-39-1.search.msn.com.":  {"157.55.39.1"},
			"CRAWL-9.GoogleBot.com.":              {"203.0.113.9"},
			"crawl-200.googlebot.com.":            {"198.51.100.200"},
		},
	}
	ranges, err := ParseRanges(strings.NewReader(`{"creationTime":"x","prefixes":[{"ipv4Prefix":"20.191.45.212/32"},{"ipv6Prefix":"2001:db8::/32"}]}`))
	if err != nil {
		t.Fatal(err)
	}
	v := newVerifier(t, VerifierConfig{Resolver: z, Ranges: map[string][]netip.Prefix{"duckduckgo": ranges, "google": ranges}})
	for _, tt := range []struct {
		operator, addr string
		want           Claim
	}{
		{"google", "66.249.66.1", Genuine},
		{"google", "::ffff:66.249.66.1", Genuine},
		{"google", "2001:4860::1", Genuine},
		{"google", "203.0.113.9", Genuine},
		{"google", "192.0.2.4", Genuine},
		{"google", "2001:db8::5", Genuine}, // by range
		{"google", "192.0.2.1", False},
		{"google", "192.0.2.2", False},
		{"google", "192.0.2.3", False},
		{"google", "192.0.2.5", False},
		{"google", "192.0.2.6", False},
		{"google", "192.0.2.7", False},
		{"google", "192.0.2.8", Genuine},
		{"google", "192.0.2.10", False},
		{"google", "192.0.2.99", False},
		{"google", "198.51.100.200", False}, // hidden behind a heap of names
		{"bing", "157.55.39.1", Genuine},
		{"bing", "66.249.66.1", False},
		{"duckduckgo", "20.191.45.212", Genuine},
		{"duckduckgo", "20.191.45.213", False},
		{"", "66.249.66.1", Unproven},
		{"nobody", "66.249.66.1", Unproven},
	} {
		got := v.Verify(t.Context(), Verdict{Operator: tt.operator}, netip.MustParseAddr(tt.addr), now)
		if got != tt.want {
			t.Errorf("%s claims to be %s: %v, want %v", tt.addr, tt.operator, got, tt.want)
		}
	}
	if got := v.Verify(t.Context(), Verdict{Operator: "google"}, netip.Addr{}, now); got != Unproven {
		t.Errorf("no address: %v", got)
	}
	if got := newVerifier(t, VerifierConfig{}).Verify(t.Context(), Verdict{Operator: "duckduckgo"}, netip.MustParseAddr("20.191.45.212"), now); got != Unproven {
		t.Errorf("no ranges: %v", got)
	}
	if got := newVerifier(t, VerifierConfig{}).Verify(t.Context(), Verdict{Operator: "google"}, netip.MustParseAddr("66.249.66.1"), now); got != Unproven {
		t.Errorf("no resolver: %v", got)
	}
}

func TestVerifyRemembers(t *testing.T) {
	t.Parallel()
	z := &zone{err: &net.DNSError{Err: "server failure", IsTemporary: true}}
	v := newVerifier(t, VerifierConfig{Resolver: z})
	addr := netip.MustParseAddr("66.249.66.1")
	ask := func(now time.Time) Claim { return v.Verify(t.Context(), Verdict{Operator: "google"}, addr, now) }
	for range 3 {
		if got := ask(now); got != Unproven {
			t.Fatalf("server failure: %v", got)
		}
	}
	if got := z.asked.Load(); got != 1 {
		t.Errorf("asked %d times, want once", got)
	}
	z.err = nil // by now it says: no such host
	if got := ask(now.Add(2 * unprovenFor)); got != False {
		t.Errorf("after the failure: %v", got)
	}
	if got := ask(now.Add(falseFor / 2)); got != False || z.asked.Load() != 2 {
		t.Errorf("%v after %d look-ups, want false after 2", got, z.asked.Load())
	}
}

func TestVerifyHasLimits(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		z := &zone{delay: time.Hour}
		v := newVerifier(t, VerifierConfig{Resolver: z, Concurrent: 2})
		begin := time.Now()
		var wg sync.WaitGroup
		for i := range 100 {
			wg.Go(func() {
				addr := netip.AddrFrom4([4]byte{192, 0, 2, byte(i)})
				if got := v.Verify(t.Context(), Verdict{Operator: "google"}, addr, now); got != Unproven {
					t.Errorf("%v, want unproven", got)
				}
			})
		}
		wg.Wait()
		if took := time.Since(begin); took > 500*time.Millisecond {
			t.Errorf("took %v", took)
		}
		if got := z.asked.Load(); got > 2 {
			t.Errorf("%d look-ups at once", got)
		}

		// A caller who leaves does not wait.
		ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
		defer cancel()
		begin = time.Now()
		v.Verify(ctx, Verdict{Operator: "google"}, netip.MustParseAddr("198.51.100.1"), now)
		if took := time.Since(begin); took > time.Millisecond {
			t.Errorf("a cancelled caller waited %v", took)
		}
		<-time.After(time.Second) // the look-up it left behind
	})
}

func TestParseRanges(t *testing.T) {
	t.Parallel()
	for _, bad := range []string{
		``, `{}`, `[]`, `{"prefixes":[]}`, `{"prefixes":[{"ipv4Prefix":"nonsense"}]}`,
		`{"prefixes":[{"ipv4Prefix":"0.0.0.0/0"}]}`, `{"prefixes":[{"ipv6Prefix":"::/0"}]}`,
	} {
		if got, err := ParseRanges(strings.NewReader(bad)); err == nil {
			t.Errorf("%s: %v, want an error", bad, got)
		}
	}
	if _, err := NewVerifier(VerifierConfig{Ranges: map[string][]netip.Prefix{"nobody": nil}, Timeout: -1}); err == nil ||
		!strings.Contains(err.Error(), "nobody") || !strings.Contains(err.Error(), "negative") {
		t.Errorf("NewVerifier = %v", err)
	}
}

func FuzzParseRanges(f *testing.F) {
	f.Add(`{"prefixes":[{"ipv4Prefix":"192.0.2.0/24"},{"ipv6Prefix":"2001:db8::/32"}]}`)
	f.Fuzz(func(t *testing.T, text string) {
		ranges, err := ParseRanges(strings.NewReader(text))
		for _, p := range ranges {
			if err != nil || !p.IsValid() || p.Bits() < 8 {
				t.Errorf("%q: %v, %v", text, p, err)
			}
		}
	})
}
