package consumerstore

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/jackc/pgx/v5"

	"melmastoon.ghasi.io/bff"
	"melmastoon.ghasi.io/bff/internal/consumer"
	"melmastoon.ghasi.io/bff/internal/consumer/booking"
	"melmastoon.ghasi.io/bff/internal/consumer/guest"
	"melmastoon.ghasi.io/bff/internal/idempotency"
	"melmastoon.ghasi.io/bff/internal/pause"
	"melmastoon.ghasi.io/bff/internal/postgres"
)

// BeginMint returns a claim on a hand-off; see booking.Ledger.
func (s *Store) BeginMint(ctx context.Context, once consumer.Once, now time.Time) (booking.MintClaim, *consumer.Answer, error) {
	a, earlier, err := s.begin(ctx, once, now)
	if a == nil {
		return nil, earlier, err
	}
	return mintClaim{a}, nil, nil
}

type mintClaim struct{ *attempt }

// Mint writes ledger, outbox and idempotency rows in one transaction.
func (c mintClaim) Mint(ctx context.Context, m booking.Mint) (consumer.Answer, error) {
	answer, err := idempotency.NewAnswer(http.StatusCreated, m.Minted)
	if err != nil {
		return consumer.Answer{}, err
	}
	err = postgres.InTx(ctx, c.store.cfg.DB, func(tx pgx.Tx) error {
		if err := c.Record(ctx, tx, answer); err != nil {
			return err
		}
		if err := insertHandoff(ctx, tx, m.Handoff); err != nil {
			return err
		}
		return c.store.announce(ctx, tx, m.By, m.Initiated)
	})
	return c.settle(ctx, answer, err)
}

// tell appends an event, if there is one, in the transaction of what it tells of.
func (s *Store) tell(ctx context.Context, tx pgx.Tx, e *bff.Event) error {
	if e == nil {
		return nil
	}
	return s.cfg.Outbox.Append(ctx, tx, *e)
}

// announce appends the event of a fact, if one may leave, in the transaction of
// what it tells of. Whether the guest refused is read in the same transaction
// when the session could not be read: what was changed is then neither left
// without its event nor told against the guest's will.
func (s *Store) announce(ctx context.Context, tx pgx.Tx, by consumer.Announcer, f consumer.Fact) error {
	if by.Session.Unread && !by.Session.ID.IsZero() {
		kept, err := s.findRefusal(ctx, tx, by.Session.ID)
		if err != nil {
			return err
		}
		if kept.Cleared { // with an old card, while the store that says so is away
			return unreachable(guest.ErrSessionCleared)
		}
		by.Session = guest.Restored(by.Session, kept)
	}
	e, err := by.Event(f)
	if err != nil {
		return err
	}
	return s.tell(ctx, tx, e)
}

// insertHandoff writes the ledger row unless the tenant is suspended: the
// check and the write are one statement, so that no suspension that was
// acknowledged before can slip in between.
func insertHandoff(ctx context.Context, tx pgx.Tx, h booking.Handoff) error {
	campaign, err1 := optionalJSON(h.Campaign)
	shown, err2 := optionalJSON(h.Receipt.Shown)
	check, err3 := json.Marshal(priceCheck{h.Receipt.Verdict, h.Receipt.Current})
	if err := errors.Join(err1, err2, err3); err != nil {
		return err
	}
	ages := make([]int16, len(h.ChildrenAges))
	for i, a := range h.ChildrenAges {
		ages[i] = int16(a) //nolint:gosec // validated to 0..17
	}
	tag, err := tx.Exec(ctx, `INSERT INTO bff_consumer.handoff_replay_log
		(id, guest_session_id, tenant_id, property_id, check_in, check_out, adults, children, rooms, currency, locale,
		 source_campaign, hmac_key_id, fingerprint_hash, ip_hash, minted_at, expires_at, children_ages,
		 shown, price_check, user_agent_hash)
		SELECT $1, $2, $3::uuid, $4::uuid, $5::date, $6::date, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, $18, $19, $20, $21
		WHERE NOT EXISTS (SELECT 1 FROM bff_consumer.tenant_suspended_cache WHERE tenant_id = $3::uuid)`,
		h.ID.String(), h.GuestSessionID.String(), h.TenantID.UUID(), h.PropertyID.UUID(), h.Dates.CheckIn.Time(), h.Dates.CheckOut.Time(),
		h.Occupancy.Adults, h.Occupancy.Children, h.Occupancy.Rooms, string(h.Currency), string(h.Locale),
		campaign, h.KeyID, h.Fingerprint[:], h.IP[:], h.MintedAt.Time, h.ExpiresAt.Time, ages, shown, check, h.UserAgent[:])
	if err != nil {
		return fmt.Errorf("insert hand-off: %w", err)
	}
	if tag.RowsAffected() == 0 {
		return suspended()
	}
	return nil
}

// priceCheck is the receipt's verdict as the ledger keeps it.
type priceCheck struct {
	Verdict booking.PriceVerdict `json:"verdict"`
	Current *booking.Price       `json:"current,omitempty"`
}

// optionalJSON encodes a value that may be absent; nil then.
func optionalJSON[T any](v *T) ([]byte, error) {
	if v == nil {
		return nil, nil
	}
	return json.Marshal(v)
}

func suspended() error {
	return bff.Errorf(bff.CodeTenantSuspended, "this hotel is not taking bookings at the moment")
}

const handoffColumns = `id, guest_session_id, tenant_id::text, property_id::text, check_in, check_out, adults, children, rooms,
	currency::text, locale, source_campaign, hmac_key_id, fingerprint_hash, ip_hash, minted_at, expires_at, children_ages, consumed_at,
	shown, price_check, coalesce(consumed_by, ''), user_agent_hash`

// FindHandoff reads one row of the ledger.
func (s *Store) FindHandoff(ctx context.Context, id bff.ID) (booking.Handoff, error) {
	h, _, err := s.ledgerRow(ctx, id)
	return h, durable(err)
}

// ledgerRow returns a hand-off and who consumed it.
func (s *Store) ledgerRow(ctx context.Context, id bff.ID) (booking.Handoff, string, error) {
	return scanHandoff(s.cfg.DB.QueryRow(ctx, `SELECT `+handoffColumns+` FROM bff_consumer.handoff_replay_log WHERE id = $1`, id.String()))
}

// Consume decides the one winner with one conditional update; everyone else is
// told why not from the row as it stands.
func (s *Store) Consume(ctx context.Context, id bff.ID, instance string, now time.Time) (booking.Handoff, error) {
	now = now.Truncate(time.Microsecond) // as Postgres keeps it
	won, err := s.tryConsume(ctx, id, instance, now)
	if err == nil {
		return won, nil
	}
	unknown := errors.Is(err, postgres.ErrOutcomeUnknown)
	if bff.CodeOf(err) != bff.CodeResourceNotFound && !unknown {
		return booking.Handoff{}, durable(err)
	}
	h, by, err := s.ledgerRow(ctx, id)
	for unknown && postgres.Unavailable(err) && pause.For(ctx, consumePause) {
		// The answer to the commit was lost: this call may be the winner, and no other
		// would be told so.
		h, by, err = s.ledgerRow(ctx, id)
	}
	switch {
	case err != nil:
		return booking.Handoff{}, durable(err)
	case unknown && h.ConsumedAt.Equal(now) && by == instance:
		return h, nil
	case by == instance && !h.ConsumedAt.IsZero() && now.Sub(h.ConsumedAt).Abs() <= repeatWindow:
		return h, nil
	case !h.ConsumedAt.IsZero():
		return h, bff.Errorf(bff.CodeHandoffReplayed, "this hand-off was already used")
	case unknown: // it was not committed: the caller may try again
		return booking.Handoff{}, &bff.Error{Code: bff.CodeServiceUnavailable, RetryAfter: time.Second, Err: postgres.ErrOutcomeUnknown}
	case now.After(h.ExpiresAt.Time):
		return h, bff.Errorf(bff.CodeHandoffExpired, "this hand-off has expired")
	default:
		return h, suspended()
	}
}

func (s *Store) tryConsume(ctx context.Context, id bff.ID, instance string, now time.Time) (won booking.Handoff, err error) {
	err = postgres.InTx(ctx, s.cfg.DB, func(tx pgx.Tx) error {
		won, _, err = scanHandoff(tx.QueryRow(ctx, `UPDATE bff_consumer.handoff_replay_log l
			SET consumed = true, consumed_at = $2, consumed_by = $3
			WHERE id = $1 AND NOT consumed AND expires_at >= $2
			  AND NOT EXISTS (SELECT 1 FROM bff_consumer.tenant_suspended_cache t WHERE t.tenant_id = l.tenant_id)
			RETURNING `+handoffColumns, id.String(), now, instance))
		return err
	})
	return won, err
}

// repeatWindow is how long the instance that has consumed a hand-off is told the same
// again: its first answer may have been lost, and that is no replay by the guest.
const repeatWindow = 10 * time.Second

// consumePause is how long to wait for a database that has just gone away.
const consumePause = 50 * time.Millisecond

func scanHandoff(row pgx.Row) (h booking.Handoff, by string, err error) {
	var (
		id, guestID, tenant, prop string
		checkIn, checkOut         time.Time
		currency, locale          string
		campaign, fingerprint, ip []byte
		userAgent                 []byte
		minted, expires           time.Time
		ages                      []int16
		consumed                  *time.Time
		shown, check              []byte
		verdict                   priceCheck
	)
	err = row.Scan(&id, &guestID, &tenant, &prop, &checkIn, &checkOut, &h.Occupancy.Adults, &h.Occupancy.Children, &h.Occupancy.Rooms,
		&currency, &locale, &campaign, &h.KeyID, &fingerprint, &ip, &minted, &expires, &ages, &consumed,
		&shown, &check, &by, &userAgent)
	if errors.Is(err, pgx.ErrNoRows) {
		return h, "", bff.Errorf(bff.CodeResourceNotFound, "no such hand-off")
	}
	if err != nil {
		return h, "", fmt.Errorf("read hand-off: %w", err)
	}
	var errs [7]error
	h.ID, errs[0] = bff.ParseID(bff.PrefixHandoff, id)
	h.GuestSessionID, errs[1] = bff.ParseID(bff.PrefixGuestSession, guestID)
	h.TenantID, errs[2] = bff.IDFromUUID(bff.PrefixTenant, tenant)
	h.PropertyID, errs[3] = bff.IDFromUUID(bff.PrefixProperty, prop)
	if campaign != nil {
		errs[4] = json.Unmarshal(campaign, &h.Campaign)
	}
	if shown != nil {
		errs[5] = json.Unmarshal(shown, &h.Receipt.Shown)
	}
	if check != nil {
		errs[6] = json.Unmarshal(check, &verdict)
	}
	h.Receipt.Verdict, h.Receipt.Current = verdict.Verdict, verdict.Current
	if err := errors.Join(errs[:]...); err != nil {
		return h, "", fmt.Errorf("read hand-off: %w", err)
	}
	h.Dates = bff.StayDates{CheckIn: bff.DateOf(checkIn), CheckOut: bff.DateOf(checkOut)}
	h.Currency, h.Locale = bff.Currency(currency), bff.Locale(locale)
	copy(h.Fingerprint[:], fingerprint)
	copy(h.IP[:], ip)
	copy(h.UserAgent[:], userAgent)
	h.MintedAt, h.ExpiresAt = bff.At(minted), bff.At(expires)
	for _, a := range ages {
		h.ChildrenAges = append(h.ChildrenAges, int(a))
	}
	if consumed != nil {
		h.ConsumedAt = *consumed
	}
	return h, by, nil
}
