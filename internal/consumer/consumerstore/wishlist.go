package consumerstore

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/redis/rueidis"

	"melmastoon.ghasi.io/bff"
	"melmastoon.ghasi.io/bff/internal/consumer"
	"melmastoon.ghasi.io/bff/internal/idempotency"
	"melmastoon.ghasi.io/bff/internal/postgres"
)

// A wishlist is true in Postgres; Redis holds a mirror for quick reads. A change
// holds an exclusive lock per guest from the deletion of the mirror to the
// commit, and a fill of the mirror holds the same lock shared while it reads the
// one and writes the other: so no mirror older than the last commit is ever
// written, whichever process crashes where. A mirror that is absent, or that was
// written while Redis could not be told of a change, is filled anew.

// mirrorTrust is how long a mirror is believed without asking Postgres. It
// bounds how long a deletion that Redis never heard of can be overlooked.
const mirrorTrust = 5 * time.Minute

// mirrored is an entry as the mirror holds it.
type mirrored struct {
	consumer.WishlistEntry
	MirroredAt int64 `json:"mirroredAt"` // seconds
}

func (s *Store) wishlistKey(guest bff.ID) string { return s.sessionKey(guest) + ":wishlist" }

// lockWishlist serialises the changes of one guest's wishlist until the
// transaction ends.
func lockWishlist(ctx context.Context, tx pgx.Tx, guest bff.ID, shared bool) error {
	fn := "pg_advisory_xact_lock"
	if shared {
		fn = "pg_advisory_xact_lock_shared"
	}
	if _, err := tx.Exec(ctx, "SELECT "+fn+"(hashtextextended('wishlist:' || $1, 0))", guest.String()); err != nil {
		return fmt.Errorf("lock wishlist: %w", err)
	}
	return nil
}

// ListWishlist returns a guest's entries, from the mirror if it can.
func (s *Store) ListWishlist(ctx context.Context, guest bff.ID) ([]consumer.WishlistEntry, error) {
	entries, fresh, mirrorErr := s.readMirror(ctx, guest)
	if fresh {
		return entries, nil
	}
	filled, err := s.fillMirror(ctx, guest)
	if err == nil {
		return filled, nil
	}
	if mirrorErr == nil && len(entries) > 0 { // Postgres is away: better old than none
		return entries, nil
	}
	return nil, durable(err)
}

func (s *Store) readMirror(ctx context.Context, guest bff.ID) (entries []consumer.WishlistEntry, fresh bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, sessionTimeout)
	defer cancel()
	c := s.cfg.Sessions
	items, err := c.Do(ctx, c.B().Lrange().Key(s.wishlistKey(guest)).Start(0).Stop(-1).Build()).AsStrSlice()
	if err != nil {
		return nil, false, fmt.Errorf("read wishlist mirror: %w", err)
	}
	fresh = len(items) > 0
	for _, item := range items {
		var m mirrored
		if err := json.Unmarshal([]byte(item), &m); err != nil {
			return nil, false, nil // an unreadable mirror is filled anew
		}
		fresh = fresh && time.Since(time.Unix(m.MirroredAt, 0)) < mirrorTrust
		entries = append(entries, m.WishlistEntry)
	}
	return entries, fresh, nil
}

// replaceScript swaps a whole list. A cleared session's list stays away.
//
//	KEYS[1] list; ARGV[1] life in seconds; ARGV[2] mark of a cleared list; ARGV[3…] items
var replaceScript = rueidis.NewLuaScript(`
if redis.call('LINDEX', KEYS[1], 0) == ARGV[2] then return 0 end
redis.call('DEL', KEYS[1])
if #ARGV > 2 then
  redis.call('RPUSH', KEYS[1], unpack(ARGV, 3))
  redis.call('EXPIRE', KEYS[1], ARGV[1])
end
return #ARGV - 2`)

// fillMirror reads Postgres and writes the mirror under the shared lock.
func (s *Store) fillMirror(ctx context.Context, guest bff.ID) ([]consumer.WishlistEntry, error) {
	var entries []consumer.WishlistEntry
	err := postgres.InTx(ctx, s.cfg.DB, func(tx pgx.Tx) (err error) {
		if err := lockWishlist(ctx, tx, guest, true); err != nil {
			return err
		}
		if entries, err = listWishlist(ctx, tx, guest); err != nil {
			return err
		}
		s.writeMirror(ctx, guest, entries)
		return nil
	})
	return entries, err
}

// writeMirror is best effort: a mirror that was not written is filled by the
// next read.
func (s *Store) writeMirror(ctx context.Context, guest bff.ID, entries []consumer.WishlistEntry) {
	args := []string{strconv.FormatInt(lifetime, 10), clearedMark}
	now := time.Now().Unix()
	for _, e := range entries {
		b, err := json.Marshal(mirrored{e, now})
		if err != nil {
			return
		}
		args = append(args, string(b))
	}
	ctx, cancel := context.WithTimeout(ctx, sessionTimeout)
	defer cancel()
	_ = replaceScript.Exec(ctx, s.cfg.Sessions, []string{s.wishlistKey(guest)}, args).Error() // said above
}

// dropMirror deletes the mirror before a commit that changes what it shows.
func (s *Store) dropMirror(ctx context.Context, guest bff.ID) {
	ctx, cancel := context.WithTimeout(ctx, sessionTimeout)
	defer cancel()
	c := s.cfg.Sessions
	_ = c.Do(ctx, c.B().Del().Key(s.wishlistKey(guest)).Build()).Error() // Redis is away: mirrorTrust bounds the harm
}

const wishlistColumns = `id, property_id::text, tenant_id::text, added_at, source, coalesce(note, '')`

func scanEntry(row pgx.CollectableRow) (consumer.WishlistEntry, error) {
	var (
		e                consumer.WishlistEntry
		id, prop, tenant string
		added            time.Time
		errs             [3]error
	)
	if err := row.Scan(&id, &prop, &tenant, &added, &e.Source, &e.Note); err != nil {
		return e, err
	}
	e.ID, errs[0] = bff.ParseID(bff.PrefixWishlist, id)
	e.PropertyID, errs[1] = bff.IDFromUUID(bff.PrefixProperty, prop)
	e.TenantID, errs[2] = bff.IDFromUUID(bff.PrefixTenant, tenant)
	e.AddedAt = bff.At(added)
	return e, errors.Join(errs[:]...)
}

func listWishlist(ctx context.Context, tx pgx.Tx, guest bff.ID) ([]consumer.WishlistEntry, error) {
	rows, err := tx.Query(ctx, `SELECT `+wishlistColumns+` FROM bff_consumer.wishlist_anonymous
		WHERE guest_session_id = $1 AND removed_at IS NULL ORDER BY added_at, id`, guest.String())
	if err != nil {
		return nil, fmt.Errorf("list wishlist: %w", err)
	}
	entries, err := pgx.CollectRows(rows, scanEntry)
	if err != nil {
		return nil, fmt.Errorf("list wishlist: %w", err)
	}
	return entries, nil
}

// BeginWishlist returns a claim on a change; see consumer.Wishlists.
func (s *Store) BeginWishlist(ctx context.Context, once consumer.Once, now time.Time) (consumer.WishlistClaim, *consumer.Answer, error) {
	a, earlier, err := s.begin(ctx, once, now)
	if a == nil {
		return nil, earlier, err
	}
	return wishlistClaim{a}, nil, nil
}

type wishlistClaim struct{ *attempt }

// Add adds an entry in the guest's lane.
func (c wishlistClaim) Add(ctx context.Context, e consumer.WishlistEntry, by consumer.Announcer) (consumer.Answer, error) {
	return c.inLane(ctx, func(tx pgx.Tx) (idempotency.Answer, error) { return c.add(ctx, tx, e, by) })
}

// Remove removes a hotel in the guest's lane.
func (c wishlistClaim) Remove(ctx context.Context, property bff.ID, by consumer.Announcer) (consumer.Answer, error) {
	return c.inLane(ctx, func(tx pgx.Tx) (idempotency.Answer, error) { return c.remove(ctx, tx, property, by) })
}

// Times of a change that are not its request's.
const (
	laneWait = 10 * time.Second // the request's own deadline comes first
	fillTime = time.Second
)

// inLane makes the guest's changes one after the other in this process. The last
// in the lane fills the mirror for all before it, even if it was refused itself;
// when it cannot, the mirror is absent, and the next read fills it.
func (c wishlistClaim) inLane(ctx context.Context, change func(pgx.Tx) (idempotency.Answer, error)) (consumer.Answer, error) {
	s, lane := c.store, c.guest.String()
	leave, _, err := s.lanes.Enter(ctx, lane, laneWait)
	if err != nil {
		return consumer.Answer{}, &bff.Error{Code: bff.CodeServiceUnavailable, RetryAfter: retryStore, Err: err}
	}
	answer, err := c.commit(ctx, change)
	last := !s.lanes.Crowded(lane)
	leave()
	c.Release() // duplicates need not wait for the mirror
	if last {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), fillTime)
		defer cancel()
		_, _ = s.fillMirror(ctx, c.guest)
	}
	return answer, err
}

// commit makes a change in one transaction with its answer.
func (c wishlistClaim) commit(ctx context.Context, change func(pgx.Tx) (idempotency.Answer, error)) (consumer.Answer, error) {
	var answer idempotency.Answer
	err := postgres.InTx(ctx, c.store.cfg.DB, func(tx pgx.Tx) (err error) {
		if err := c.Take(ctx, tx); err != nil {
			return err
		}
		if answer, err = change(tx); err != nil {
			return err
		}
		return c.Answer(ctx, tx, answer)
	})
	return c.settle(ctx, answer, err)
}

func (c wishlistClaim) add(ctx context.Context, tx pgx.Tx, entry consumer.WishlistEntry, by consumer.Announcer) (idempotency.Answer, error) {
	guest := c.guest
	if err := lockWishlist(ctx, tx, guest, false); err != nil {
		return idempotency.Answer{}, err
	}
	there, err := listWishlist(ctx, tx, guest)
	if err != nil {
		return idempotency.Answer{}, err
	}
	for _, e := range there {
		if e.PropertyID == entry.PropertyID {
			return idempotency.NewAnswer(http.StatusOK, consumer.WishlistChanged{WishlistEntry: e, Size: len(there)})
		}
	}
	if len(there) >= consumer.MaxWishlist {
		return idempotency.Answer{}, bff.Errorf(bff.CodeWishlistLimitExceeded, "a wishlist holds at most %d hotels", consumer.MaxWishlist)
	}
	// A hotel that was removed before comes back as a new entry in its old row.
	if _, err := tx.Exec(ctx, `INSERT INTO bff_consumer.wishlist_anonymous
		(id, guest_session_id, tenant_id, property_id, source, note, added_at)
		VALUES ($1, $2, $3::uuid, $4::uuid, $5, nullif($6, ''), $7)
		ON CONFLICT (guest_session_id, property_id) DO UPDATE SET id = excluded.id, tenant_id = excluded.tenant_id,
			source = excluded.source, note = excluded.note, added_at = excluded.added_at, removed_at = NULL, seen_at = excluded.seen_at`,
		entry.ID.String(), guest.String(), entry.TenantID.UUID(), entry.PropertyID.UUID(), entry.Source, entry.Note, entry.AddedAt.Time); err != nil {
		return idempotency.Answer{}, fmt.Errorf("add to wishlist: %w", err)
	}
	size := len(there) + 1
	if err := c.store.announce(ctx, tx, by, entry.Added(guest, size)); err != nil {
		return idempotency.Answer{}, err
	}
	c.store.dropMirror(ctx, guest)
	return idempotency.NewAnswer(http.StatusCreated, consumer.WishlistChanged{WishlistEntry: entry, Size: size})
}

func (c wishlistClaim) remove(ctx context.Context, tx pgx.Tx, property bff.ID, by consumer.Announcer) (idempotency.Answer, error) {
	guest := c.guest
	gone := idempotency.Answer{Status: http.StatusNoContent, Body: []byte("null")}
	if err := lockWishlist(ctx, tx, guest, false); err != nil {
		return idempotency.Answer{}, err
	}
	rows, err := tx.Query(ctx, `UPDATE bff_consumer.wishlist_anonymous SET removed_at = $3
		WHERE guest_session_id = $1 AND property_id = $2::uuid AND removed_at IS NULL
		RETURNING `+wishlistColumns, guest.String(), property.UUID(), c.now)
	if err != nil {
		return idempotency.Answer{}, fmt.Errorf("remove from wishlist: %w", err)
	}
	removed, err := pgx.CollectRows(rows, scanEntry)
	if err != nil {
		return idempotency.Answer{}, fmt.Errorf("remove from wishlist: %w", err)
	}
	if len(removed) == 0 {
		return gone, nil
	}
	var size int
	if err := tx.QueryRow(ctx, `SELECT count(*) FROM bff_consumer.wishlist_anonymous
		WHERE guest_session_id = $1 AND removed_at IS NULL`, guest.String()).Scan(&size); err != nil {
		return idempotency.Answer{}, fmt.Errorf("remove from wishlist: %w", err)
	}
	if err := c.store.announce(ctx, tx, by, removed[0].Removed(guest, size, c.now)); err != nil {
		return idempotency.Answer{}, err
	}
	c.store.dropMirror(ctx, guest)
	return gone, nil
}
