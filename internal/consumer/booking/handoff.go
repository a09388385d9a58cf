package booking

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"melmastoon.ghasi.io/bff"
	"melmastoon.ghasi.io/bff/handoff"
	"melmastoon.ghasi.io/bff/internal/consumer"
	"melmastoon.ghasi.io/bff/internal/consumer/hotel"
)

// HandoffRequest asks to be handed off to a hotel.
type HandoffRequest struct {
	PropertyID bff.ID
	TenantID   bff.ID
	Dates      bff.StayDates
	Occupancy  bff.Occupancy
	Currency   bff.Currency
	Locale     bff.Locale
	Shown      *Price // the price that the guest saw, if the client says
}

// Handoff is a minted hand-off as the ledger keeps it.
type Handoff struct {
	handoff.Payload
	ChildrenAges []int // not signed
	Campaign     *consumer.Campaign
	Receipt      Receipt
	Fingerprint  consumer.Hash
	IP           consumer.Hash
	UserAgent    consumer.Hash // zero in a ledger's row from before it was kept
	ConsumedAt   time.Time     // zero until consumed
}

// Minted is what the guest receives.
type Minted struct {
	HandoffID bff.ID        `json:"handoffId"`
	URL       string        `json:"url"`
	ExpiresAt bff.Timestamp `json:"expiresAt"`
	// PriceCheck compares the shown price with the price of now; the latter is
	// there when it changed.
	PriceCheck   PriceVerdict `json:"priceCheck"`
	CurrentPrice *Price       `json:"currentPrice,omitempty"`
}

// HandoffInitiated is the payload of handoff.initiated.v1.
type HandoffInitiated struct {
	HandoffID       bff.ID             `json:"handoffId"`
	GuestSessionID  bff.ID             `json:"guestSessionId"`
	TenantID        bff.ID             `json:"tenantId"`
	TenantSlug      string             `json:"tenantSlug"`
	PropertyID      bff.ID             `json:"propertyId"`
	Dates           bff.StayDates      `json:"dates"`
	Occupancy       bff.Occupancy      `json:"occupancy"`
	Currency        bff.Currency       `json:"currency"`
	Locale          bff.Locale         `json:"locale"`
	SourceCampaign  *consumer.Campaign `json:"sourceCampaign,omitempty"`
	MintedAt        bff.Timestamp      `json:"mintedAt"`
	ExpiresAt       bff.Timestamp      `json:"expiresAt"`
	HMACKeyID       string             `json:"hmacKeyId"`
	FingerprintHash consumer.Hash      `json:"fingerprintHash"`
	IPHash          consumer.Hash      `json:"ipHash"`
	OriginReferer   string             `json:"originReferer,omitempty"`
}

// Mint is a signed hand-off that the ledger does not know yet.
type Mint struct {
	Handoff   Handoff
	Minted    Minted
	Initiated HandoffInitiated
	By        consumer.Announcer // makes the event, if one may leave
}

// MintClaim is the exclusive right to mint one hand-off.
type MintClaim interface {
	// Mint writes the hand-off, its event (if any) and the answer in one
	// transaction. An attempt in another process that was first keeps its effect,
	// and this one gets its answer. A tenant that was suspended meanwhile is
	// refused.
	Mint(ctx context.Context, m Mint) (consumer.Answer, error)
	// Release ends the claim; what was not minted may be tried again.
	Release()
}

// Ledger keeps the hand-offs: single use is decided here.
type Ledger interface {
	// BeginMint returns a claim on a mutation, or the answer that an earlier
	// attempt at it got. A duplicate of a running attempt waits for it.
	BeginMint(ctx context.Context, once consumer.Once, now time.Time) (MintClaim, *consumer.Answer, error)
	// FindHandoff returns a hand-off as it stands; a CodeResourceNotFound error
	// when there is none.
	FindHandoff(ctx context.Context, id bff.ID) (Handoff, error)
	// Consume marks a hand-off as used. Of any number of callers one succeeds;
	// the others get CodeHandoffReplayed, CodeHandoffExpired or CodeTenantSuspended.
	Consume(ctx context.Context, id bff.ID, instance string, now time.Time) (Handoff, error)
}

// Hotels knows whose hotel a property is.
type Hotels interface {
	// FindProperty resolves a property; a CodeResourceNotFound error when there is none.
	FindProperty(ctx context.Context, propertyID bff.ID) (hotel.Projected, error)
}

// Prices previews prices.
type Prices interface {
	// Preview returns what pricing says of each property.
	Preview(ctx context.Context, req hotel.PriceRequest) (hotel.Previews, error)
}

// HandoffDesk signs hand-offs.
type HandoffDesk struct{ cfg HandoffDeskConfig }

// HandoffDeskConfig is what a HandoffDesk works with.
type HandoffDeskConfig struct {
	Search  Hotels
	Tenants consumer.Tenants
	Prices  Prices // for the price receipt; nil = none
	// Snapshots are asked for the price first, in their order.
	Snapshots []Snapshots
	Keys      *handoff.Keyring
	// RedirectTemplate holds {tenantSlug} and {token}.
	RedirectTemplate string
}

// NewHandoffDesk returns a HandoffDesk.
func NewHandoffDesk(cfg HandoffDeskConfig) *HandoffDesk { return &HandoffDesk{cfg} }

// Mint resolves the hotel and signs a hand-off for the guest. Nothing is
// stored yet: the token is worth nothing until the ledger has its row.
func (d *HandoffDesk) Mint(
	ctx context.Context, req HandoffRequest, s consumer.GuestSession, v *consumer.Visit, now time.Time,
) (Handoff, Minted, HandoffInitiated, error) {
	receipt := d.checkPrice(ctx, req, now) // while the hotel is resolved
	tenant, err := d.resolve(ctx, req)
	if err != nil {
		return Handoff{}, Minted{}, HandoffInitiated{}, err
	}
	if !isSlug(tenant.Slug) {
		// Whatever else stands there would lead the guest, and the token, elsewhere.
		return Handoff{}, Minted{}, HandoffInitiated{}, &bff.Error{
			Code: bff.CodeUpstreamUnavailable, Detail: "this hotel cannot be reached at the moment", RetryAfter: slugRetry,
			Err: fmt.Errorf("tenant %s: slug is not a host label", req.TenantID),
		}
	}
	token, payload, err := handoff.Mint(d.cfg.Keys, handoff.Claims{
		ID: bff.NewID(bff.PrefixHandoff, now), GuestSessionID: s.ID, TenantID: req.TenantID, PropertyID: req.PropertyID,
		Dates: req.Dates, Occupancy: handoff.OccupancyOf(req.Occupancy), Currency: req.Currency, Locale: req.Locale,
	}, now)
	if err != nil {
		return Handoff{}, Minted{}, HandoffInitiated{}, err
	}
	compared := receipt()
	if shown := compared.Shown; shown != nil && shown.CapturedAt.IsZero() { // readers of the receipt may rely on a moment
		compared.Shown = &Price{Minor: shown.Minor, Currency: shown.Currency, CapturedAt: payload.MintedAt}
	}
	h := Handoff{
		Payload: payload, ChildrenAges: req.Occupancy.ChildrenAges, Campaign: s.Campaign, Receipt: compared,
		Fingerprint: v.Fingerprint, IP: v.IP(), UserAgent: v.UserAgent,
	}
	minted := Minted{
		HandoffID: payload.ID,
		URL:       strings.NewReplacer("{tenantSlug}", tenant.Slug, "{token}", token).Replace(d.cfg.RedirectTemplate),
		ExpiresAt: payload.ExpiresAt, PriceCheck: h.Receipt.Verdict, CurrentPrice: h.Receipt.Current,
	}
	return h, minted, HandoffInitiated{
		HandoffID: payload.ID, GuestSessionID: s.ID, TenantID: req.TenantID, TenantSlug: tenant.Slug, PropertyID: req.PropertyID,
		Dates: req.Dates, Occupancy: req.Occupancy, Currency: req.Currency, Locale: req.Locale, SourceCampaign: s.Campaign,
		MintedAt: payload.MintedAt, ExpiresAt: payload.ExpiresAt, HMACKeyID: payload.KeyID,
		FingerprintHash: v.Fingerprint, IPHash: h.IP, OriginReferer: v.Referer,
	}, nil
}

// slugRetry is when a tenant's slug may have been mended.
const slugRetry = time.Minute

// isSlug reports whether a tenant's slug can be one label of a host name.
func isSlug(s string) bool {
	if s == "" || len(s) > 63 {
		return false
	}
	for _, c := range []byte(s) {
		if c != '-' && (c < '0' || c > '9') && (c < 'a' || c > 'z') {
			return false
		}
	}
	return true
}

// resolve checks that the property is the tenant's. Unknown property, unknown
// tenant and a property of another tenant look alike, so that a client cannot probe
// who owns what.
func (d *HandoffDesk) resolve(ctx context.Context, req HandoffRequest) (consumer.Tenant, error) {
	notFound := bff.Errorf(bff.CodeResourceNotFound, "no such property at this hotel")
	found, err := d.cfg.Search.FindProperty(ctx, req.PropertyID)
	listing := found.Listing
	switch {
	case bff.CodeOf(err) == bff.CodeResourceNotFound:
		return consumer.Tenant{}, notFound
	case err != nil:
		return consumer.Tenant{}, consumer.Unavailable(err)
	case listing.TenantID != req.TenantID:
		return consumer.Tenant{}, notFound
	}
	tenant, err := d.cfg.Tenants.FindTenant(ctx, req.TenantID)
	switch {
	case bff.CodeOf(err) == bff.CodeResourceNotFound:
		return consumer.Tenant{}, notFound
	case errors.Is(err, context.Canceled):
		return consumer.Tenant{}, err
	case err != nil:
		// The tenant service is down: the projection knows the slug, and the
		// ledger checks our own record of suspensions as it writes.
		return consumer.Tenant{ID: req.TenantID, Slug: listing.TenantSlug}, nil //nolint:nilerr // said above
	case tenant.Suspended:
		return consumer.Tenant{}, bff.Errorf(bff.CodeTenantSuspended, "this hotel is not taking bookings at the moment")
	}
	return tenant, nil
}

// Subject implements consumer.Fact.
func (HandoffInitiated) Subject() consumer.Subject { return consumer.SubjectHandoffInitiated }
