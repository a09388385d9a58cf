package useragent

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/maypok86/otter/v2"
	"golang.org/x/sync/singleflight"
)

// Resolver asks the domain name system; [net.Resolver] does.
type Resolver interface {
	LookupAddr(ctx context.Context, addr string) ([]string, error)
	LookupNetIP(ctx context.Context, network, host string) ([]netip.Addr, error)
}

// Claim is what became of a search engine's claim.
type Claim uint8

const (
	// Unproven means: the name could not be looked up, or not in time.
	Unproven Claim = iota
	// Genuine means: the address is the operator's.
	Genuine
	// False means: the address is not the operator's.
	False
)

func (c Claim) String() string { return [...]string{"unproven", "genuine", "false"}[c] }

// VerifierConfig says whom to ask.
type VerifierConfig struct {
	// Resolver may be nil: then only ranges count.
	Resolver Resolver
	// Ranges are the published addresses by operator; see [ParseRanges].
	Ranges map[string][]netip.Prefix
	// Timeout caps both look-ups together. Default 500 ms.
	Timeout time.Duration
	// Concurrent caps look-ups under way: a flood of false claims must not become a
	// flood of queries. Default 8.
	Concurrent int
	// Remember is how many addresses are kept. Default 10,000.
	Remember int
}

// How long an answer holds: addresses of crawlers change seldom, and a failure should
// not last.
const (
	genuineFor  = 12 * time.Hour
	falseFor    = time.Hour
	unprovenFor = time.Minute
)

// Verifier checks claims by published ranges and by forward-confirmed reverse look-up:
// the address must resolve to a name of the operator's, and that name to the address.
// The owner of an address chooses its name, but only the operator chooses where the
// operator's names lead.
type Verifier struct {
	cfg     VerifierConfig
	domains map[string][]string
	slots   chan struct{}
	flight  singleflight.Group
	seen    *otter.Cache[claimKey, proof]
}

type claimKey struct {
	operator string
	addr     netip.Addr
}

type proof struct {
	claim Claim
	until time.Time
}

// NewVerifier checks the configuration.
func NewVerifier(cfg VerifierConfig) (*Verifier, error) {
	v := &Verifier{cfg: cfg, domains: map[string][]string{}}
	for _, o := range operators() {
		v.domains[o.Name] = o.Domains
	}
	var errs []error
	for operator := range cfg.Ranges {
		if _, ok := v.domains[operator]; !ok {
			errs = append(errs, fmt.Errorf("ranges: no operator %q", operator))
		}
	}
	if cfg.Timeout < 0 || cfg.Concurrent < 0 || cfg.Remember < 0 {
		errs = append(errs, errors.New("timeout, concurrent and remember must not be negative"))
	}
	if err := errors.Join(errs...); err != nil {
		return nil, fmt.Errorf("crawler verifier: %w", err)
	}
	if v.cfg.Timeout == 0 {
		v.cfg.Timeout = 500 * time.Millisecond
	}
	if v.cfg.Concurrent == 0 {
		v.cfg.Concurrent = 8
	}
	if v.cfg.Remember == 0 {
		v.cfg.Remember = 10_000
	}
	v.slots = make(chan struct{}, v.cfg.Concurrent)
	var err error
	if v.seen, err = otter.New(&otter.Options[claimKey, proof]{MaximumSize: v.cfg.Remember}); err != nil {
		return nil, fmt.Errorf("crawler verifier: %w", err)
	}
	return v, nil
}

// Verify checks that addr belongs to the operator that the verdict names. Verdicts
// that name none are unproven.
func (v *Verifier) Verify(ctx context.Context, verdict Verdict, addr netip.Addr, now time.Time) Claim {
	domains, known := v.domains[verdict.Operator]
	if !known || !addr.IsValid() {
		return Unproven
	}
	addr = addr.Unmap().WithZone("")
	ranges := v.cfg.Ranges[verdict.Operator]
	if slices.ContainsFunc(ranges, func(p netip.Prefix) bool { return p.Contains(addr) }) {
		return Genuine
	}
	if len(domains) == 0 {
		if len(ranges) == 0 {
			return Unproven
		}
		return False
	}
	if v.cfg.Resolver == nil {
		return Unproven
	}
	key := claimKey{operator: verdict.Operator, addr: addr}
	if p, ok := v.seen.GetIfPresent(key); ok && now.Before(p.until) {
		return p.claim
	}
	// The look-up outlives a caller who leaves: the next request wants it too.
	result := v.flight.DoChan(verdict.Operator+" "+addr.String(), func() (any, error) {
		claim := v.look(context.WithoutCancel(ctx), domains, addr)
		hold := map[Claim]time.Duration{Genuine: genuineFor, False: falseFor, Unproven: unprovenFor}[claim]
		v.seen.Set(key, proof{claim: claim, until: now.Add(hold)})
		return claim, nil
	})
	select {
	case r := <-result:
		claim, _ := r.Val.(Claim)
		return claim
	case <-ctx.Done():
		return Unproven
	}
}

// maxNames bounds the forward look-ups that a hostile reverse zone can cause.
const maxNames = 4

func (v *Verifier) look(ctx context.Context, domains []string, addr netip.Addr) Claim {
	select {
	case v.slots <- struct{}{}:
		defer func() { <-v.slots }()
	default:
		return Unproven
	}
	ctx, cancel := context.WithTimeout(ctx, v.cfg.Timeout)
	defer cancel()
	names, err := v.cfg.Resolver.LookupAddr(ctx, addr.String())
	if err != nil {
		return failed(err)
	}
	claim := False
	for _, name := range names[:min(len(names), maxNames)] {
		if !under(name, domains) {
			continue
		}
		addrs, err := v.cfg.Resolver.LookupNetIP(ctx, "ip", name)
		if err != nil {
			claim = failed(err)
			continue
		}
		if slices.ContainsFunc(addrs, func(a netip.Addr) bool { return a.Unmap() == addr }) {
			return Genuine
		}
	}
	return claim
}

// failed tells "there is no such name" from "I could not ask".
func failed(err error) Claim {
	if e, ok := errors.AsType[interface {
		error
		Temporary() bool
		Timeout() bool
	}](err); ok && !e.Temporary() && !e.Timeout() {
		return False
	}
	return Unproven
}

// under reports whether a name lies in one of the domains, or has the form that a
// star gives.
func under(name string, domains []string) bool {
	name = strings.ToLower(strings.TrimSuffix(name, "."))
	return slices.ContainsFunc(domains, func(d string) bool {
		before, after, starred := strings.Cut(d, "*")
		if !starred {
			return strings.HasSuffix(name, "."+d)
		}
		rest, ok1 := strings.CutPrefix(name, before)
		rest, ok2 := strings.CutSuffix(rest, after)
		return ok1 && ok2 && rest != "" && !strings.Contains(rest, ".")
	})
}

// maxRanges bounds a file of ranges; the largest published one has about 100 KB.
const maxRanges = 4 << 20

// ParseRanges reads the format in which search engines publish their addresses:
// {"prefixes":[{"ipv4Prefix":"192.0.2.0/24"},{"ipv6Prefix":"2001:db8::/32"}]}.
func ParseRanges(r io.Reader) ([]netip.Prefix, error) {
	var file struct {
		Prefixes []struct {
			V4 string `json:"ipv4Prefix"`
			V6 string `json:"ipv6Prefix"`
		} `json:"prefixes"`
	}
	if err := json.NewDecoder(io.LimitReader(r, maxRanges)).Decode(&file); err != nil {
		return nil, fmt.Errorf("crawler ranges: %w", err)
	}
	var ranges []netip.Prefix
	for _, p := range file.Prefixes {
		for _, text := range []string{p.V4, p.V6} {
			if text == "" {
				continue
			}
			prefix, err := netip.ParsePrefix(text)
			if err != nil {
				return nil, fmt.Errorf("crawler ranges: %w", err)
			}
			// A slip in the file must not make every client a crawler.
			if prefix.Bits() < 8 {
				return nil, fmt.Errorf("crawler ranges: %s is too wide", prefix)
			}
			ranges = append(ranges, prefix.Masked())
		}
	}
	if len(ranges) == 0 {
		return nil, errors.New("crawler ranges: none")
	}
	return ranges, nil
}
