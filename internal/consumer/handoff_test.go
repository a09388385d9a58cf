package consumer_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"melmastoon.ghasi.io/bff"
	"melmastoon.ghasi.io/bff/handoff"
	"melmastoon.ghasi.io/bff/internal/consumer"
	"melmastoon.ghasi.io/bff/internal/consumer/booking"
	"melmastoon.ghasi.io/bff/internal/consumer/consumertest"
	"melmastoon.ghasi.io/bff/internal/consumer/discovery"
	"melmastoon.ghasi.io/bff/internal/consumer/hotel"
)

func deskOn(t *testing.T, p *platform) *booking.HandoffDesk {
	t.Helper()
	return booking.NewHandoffDesk(deskConfig(t, p))
}

func deskConfig(t *testing.T, p *platform) booking.HandoffDeskConfig {
	t.Helper()
	keys, err := handoff.NewKeySet("k1", []byte(strings.Repeat("s", 32)), midday)
	if err != nil {
		t.Fatal(err)
	}
	p = platformOr(p)
	if p.Captured == nil {
		p.Captured = func() time.Time { return midday }
	}
	return booking.HandoffDeskConfig{
		Search: p, Tenants: p, Prices: p, Keys: handoff.NewKeyring(keys), RedirectTemplate: "https://{tenantSlug}.example.com/book?h={token}",
	}
}

// stayRequest asks for hotel 70, which is tenant 7's.
func stayRequest() booking.HandoffRequest {
	return booking.HandoffRequest{
		PropertyID: propertyID(70), TenantID: tenantID(7), Dates: bff.StayDates{CheckIn: bff.DateOf(midday), CheckOut: bff.DateOf(midday) + 2},
		Occupancy: bff.Occupancy{Adults: 2, Children: 1, Rooms: 1, ChildrenAges: []int{7}}, Currency: bff.AFN, Locale: bff.LocaleEnglish,
	}
}

func TestMintResolvesTheHotel(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name     string
		platform *platform
		tenant   int // 7 unless said otherwise
		wantCode bff.Code
		wantSlug string
	}{
		{name: "whole", wantSlug: consumertest.TenantSlug},
		{name: "no such property", platform: &platform{Gone: true}, wantCode: bff.CodeResourceNotFound},
		{name: "another tenant's property", tenant: 8, wantCode: bff.CodeResourceNotFound},
		{name: "no such tenant", platform: &platform{Unknown: map[int]bool{7: true}}, wantCode: bff.CodeResourceNotFound},
		{name: "suspended tenant", platform: &platform{Suspended: map[int]bool{7: true}}, wantCode: bff.CodeTenantSuspended},
		{name: "no projection", platform: &platform{Down: failures{Search: errDown}}, wantCode: bff.CodeUpstreamUnavailable},
		{name: "tenant service is away", platform: &platform{Down: failures{Tenant: errDown}}, wantSlug: consumertest.Slug},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			req := stayRequest()
			if tt.tenant != 0 {
				req.TenantID = tenantID(tt.tenant)
			}
			_, minted, _, err := deskOn(t, tt.platform).Mint(t.Context(), req, someGuest(true), &consumer.Visit{}, midday)
			if tt.wantCode != "" {
				if bff.CodeOf(err) != tt.wantCode {
					t.Errorf("got %v, want %s", err, tt.wantCode)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if want := "https://" + tt.wantSlug + ".example.com/book?h="; !strings.HasPrefix(minted.URL, want) {
				t.Errorf("got %s, want %s…", minted.URL, want)
			}
		})
	}
}

// A slug goes into the host of the redirect: one with other characters would send
// the guest and the token to another site.
func TestMintRefusesSlugs(t *testing.T) {
	t.Parallel()
	for slug, want := range map[string]bff.Code{
		"hotel-7": "", "": bff.CodeUpstreamUnavailable, "evil.example/": bff.CodeUpstreamUnavailable, "a@evil": bff.CodeUpstreamUnavailable,
		"a.b": bff.CodeUpstreamUnavailable, "Hotel": bff.CodeUpstreamUnavailable, "a#": bff.CodeUpstreamUnavailable, "{token}": bff.CodeUpstreamUnavailable,
		strings.Repeat("a", 63): "", strings.Repeat("a", 64): bff.CodeUpstreamUnavailable,
	} {
		p := &platform{Slugs: map[int]string{7: slug}}
		_, minted, _, err := deskOn(t, p).Mint(t.Context(), stayRequest(), someGuest(true), &consumer.Visit{}, midday)
		if got := bff.CodeOf(err); err != nil && got != want || err == nil && want != "" {
			t.Errorf("%q: got %v and %s, want %q", slug, err, minted.URL, want)
		}
	}
}

// A property of another tenant, an unknown property and an unknown tenant must
// look alike: else the answers say who owns what.
func TestMintIsNoOracle(t *testing.T) {
	t.Parallel()
	foreign := stayRequest()
	foreign.TenantID = tenantID(8)
	var told []string
	for _, tt := range []struct {
		platform *platform
		req      booking.HandoffRequest
	}{
		{nil, foreign},
		{&platform{Gone: true}, stayRequest()},
		{&platform{Unknown: map[int]bool{7: true}}, stayRequest()},
	} {
		_, _, _, err := deskOn(t, tt.platform).Mint(t.Context(), tt.req, someGuest(true), &consumer.Visit{}, midday)
		told = append(told, err.Error())
	}
	if told[0] != told[1] || told[1] != told[2] {
		t.Errorf("the refusals differ: %q", told)
	}
}

func TestMintCancelled(t *testing.T) {
	t.Parallel()
	_, _, _, err := deskOn(t, &platform{Down: failures{Tenant: context.Canceled}}).Mint(t.Context(), stayRequest(), someGuest(true), &consumer.Visit{}, midday)
	if !errors.Is(err, context.Canceled) {
		t.Errorf("got %v, want %v: a guest who left is no outage of tenant service", err, context.Canceled)
	}
}

// address is one whose hash is itself.
type address consumer.Hash

func (a address) Hash() consumer.Hash { return consumer.Hash(a) }

// The token, the ledger row and the event of one hand-off say the same.
func TestMintTellsOneStory(t *testing.T) {
	t.Parallel()
	s, v := someGuest(true), &consumer.Visit{Fingerprint: consumer.Hash{1}, Address: address{2}, Referer: "https://example.com/"}
	s.Campaign = &consumer.Campaign{Source: "radio"}
	cfg, req := deskConfig(t, nil), stayRequest()
	h, minted, event, err := booking.NewHandoffDesk(cfg).Mint(t.Context(), req, s, v, midday)
	if err != nil {
		t.Fatal(err)
	}
	_, token, _ := strings.Cut(minted.URL, "?h=")
	signed, err := handoff.Verify(cfg.Keys, token, midday)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(signed, h.Payload, sameID); diff != "" {
		t.Errorf("the ledger differs from the token:\n%s", diff)
	}
	want := booking.HandoffInitiated{
		HandoffID: signed.ID, GuestSessionID: s.ID, TenantID: req.TenantID, TenantSlug: consumertest.TenantSlug, PropertyID: req.PropertyID,
		Dates: req.Dates, Occupancy: req.Occupancy, Currency: req.Currency, Locale: req.Locale, SourceCampaign: s.Campaign,
		MintedAt: signed.MintedAt, ExpiresAt: signed.ExpiresAt, HMACKeyID: "k1", FingerprintHash: v.Fingerprint, IPHash: v.IP(), OriginReferer: v.Referer,
	}
	if diff := cmp.Diff(want, event, sameID); diff != "" {
		t.Errorf("event (-want +got):\n%s", diff)
	}
	if h.Fingerprint != v.Fingerprint || h.IP != v.IP() || h.Campaign != s.Campaign || !cmp.Equal(h.ChildrenAges, []int{7}) {
		t.Errorf("ledger row %+v", h)
	}
	if minted.HandoffID != signed.ID || minted.ExpiresAt != signed.ExpiresAt {
		t.Errorf("answer %+v", minted)
	}
}

func TestReceipt(t *testing.T) {
	t.Parallel()
	price := func(minor string, currency bff.Currency) *booking.Price {
		return &booking.Price{Minor: minor, Currency: currency, CapturedAt: bff.At(midday)}
	}
	current := consumertest.Price.MinorString()
	for _, tt := range []struct {
		name        string
		platform    *platform
		shown       *booking.Price
		want        booking.PriceVerdict
		wantCurrent string
	}{
		{name: "nothing was shown", want: booking.PriceUnchecked},
		{name: "the same", shown: price(current, bff.AFN), want: booking.PriceMatched},
		{name: "another", shown: price("1", bff.AFN), want: booking.PriceChanged, wantCurrent: current},
		{name: "sold out", platform: &platform{SoldOut: map[int]bool{70: true}}, shown: price(current, bff.AFN), want: booking.PriceUnavailable},
		{name: "pricing is away", platform: &platform{Down: failures{Pricing: errDown}}, shown: price(current, bff.AFN), want: booking.PriceUnchecked},
		{name: "another currency", shown: price(current, bff.USD), want: booking.PriceUnchecked},
		{
			name: "an old price", platform: &platform{Captured: func() time.Time { return midday.Add(-time.Hour) }}, shown: price("1", bff.AFN),
			want: booking.PriceUnchecked,
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			req := stayRequest()
			req.Shown = tt.shown
			h, minted, _, err := deskOn(t, tt.platform).Mint(t.Context(), req, someGuest(true), &consumer.Visit{}, midday)
			if err != nil {
				t.Fatal(err)
			}
			if minted.PriceCheck != tt.want || h.Receipt.Verdict != tt.want || h.Receipt.Shown != tt.shown {
				t.Errorf("answer %s, ledger %+v, want %s", minted.PriceCheck, h.Receipt, tt.want)
			}
			got := ""
			if minted.CurrentPrice != nil {
				got = minted.CurrentPrice.Minor
			}
			if got != tt.wantCurrent {
				t.Errorf("current price %q, want %q", got, tt.wantCurrent)
			}
		})
	}
}

// slowPricer answers only when its caller's time is over.
type slowPricer struct{ discovery.Pricer }

func (slowPricer) Preview(ctx context.Context, _ hotel.PriceRequest) (hotel.Previews, error) {
	<-ctx.Done()
	return nil, ctx.Err()
}

// A hand-off asks pricing for at most 120 ms: it is worth more than its receipt.
func TestReceiptDoesNotWait(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		cfg, req := deskConfig(t, nil), stayRequest()
		cfg.Prices = slowPricer{}
		req.Shown = &booking.Price{Minor: "1", Currency: bff.AFN}
		began := time.Now() // the bubble's
		_, minted, _, err := booking.NewHandoffDesk(cfg).Mint(t.Context(), req, someGuest(true), &consumer.Visit{}, midday)
		if err != nil || minted.PriceCheck != booking.PriceUnchecked {
			t.Errorf("%s, %v", minted.PriceCheck, err)
		}
		if got := time.Since(began); got != 120*time.Millisecond {
			t.Errorf("waited %s, want 120ms", got)
		}
	})
}

// keptRate is a price that the caches hold.
type keptRate hotel.RateSnapshot

func (k keptRate) FindRate(context.Context, hotel.PriceRequest) (hotel.RateSnapshot, bool) {
	return hotel.RateSnapshot(k), true
}

// TestReceiptFromSnapshot has pricing too slow to be asked.
func TestReceiptFromSnapshot(t *testing.T) {
	t.Parallel()
	price := consumertest.Price
	other := bff.Money{Minor: price.Minor + 1, Currency: price.Currency}
	for _, tt := range []struct {
		name        string
		kept        bff.Money
		age         time.Duration // of the snapshot
		shown       time.Duration // how long ago the guest was shown a price
		want        booking.PriceVerdict
		wantCurrent string
	}{
		{name: "the very one", kept: price, age: 58 * time.Second, shown: 58 * time.Second, want: booking.PriceMatched},
		{name: "a newer one, same price", kept: price, age: time.Second, shown: 30 * time.Minute, want: booking.PriceMatched},
		{name: "a newer one, other price", kept: other, age: time.Second, shown: time.Minute, want: booking.PriceChanged, wantCurrent: other.MinorString()},
		{name: "too old", kept: price, age: time.Minute, shown: time.Minute, want: booking.PriceUnchecked},
		{name: "older than the one shown", kept: other, age: 50 * time.Second, shown: 10 * time.Second, want: booking.PriceUnchecked},
		{name: "another currency", kept: bff.Money{Minor: price.Minor, Currency: bff.USD}, age: time.Second, shown: time.Second, want: booking.PriceUnchecked},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				cfg, req := deskConfig(t, nil), stayRequest()
				cfg.Prices = slowPricer{}
				cfg.Snapshots = []booking.Snapshots{keptRate(hotel.NewRateSnapshot(tt.kept, tt.kept, "tenant", midday.Add(-tt.age)))}
				req.Shown = &booking.Price{Minor: price.MinorString(), Currency: price.Currency, CapturedAt: bff.At(midday.Add(-tt.shown))}
				began := time.Now() // the bubble's
				_, minted, _, err := booking.NewHandoffDesk(cfg).Mint(t.Context(), req, someGuest(true), &consumer.Visit{}, midday)
				if err != nil {
					t.Fatal(err)
				}
				current := ""
				if minted.CurrentPrice != nil {
					current = minted.CurrentPrice.Minor
				}
				if minted.PriceCheck != tt.want || current != tt.wantCurrent {
					t.Errorf("%s %q, want %s %q", minted.PriceCheck, current, tt.want, tt.wantCurrent)
				}
				if waited := time.Since(began); (waited == 0) != (tt.want != booking.PriceUnchecked) {
					t.Errorf("waited %s", waited)
				}
			})
		})
	}
}

var sameID = cmp.Comparer(func(a, b bff.ID) bool { return a == b })
