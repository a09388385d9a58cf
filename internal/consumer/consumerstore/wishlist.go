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
	"melmastoon.ghasi.io/bff/internal/consumer/guest"
	"melmastoon.ghasi.io/bff/internal/idempotency"
	"melmastoon.ghasi.io/bff/internal/postgres"
)

// A wishlist is true in Postgres; Redis holds a mirror for quick reads. A change
// holds an exclusive lock per guest from the deletion of the mirror to the
// commit, and a fill of the mirror holds the same lock shared while it reads the
// one and writes the other. Each writing of the mirror, and its deletion, carries
// the database's clock under that lock, and Redis refuses one that is older than
// what it holds: a command that a stalled Redis gets to late brings nothing back,
// whichever process crashes where. A mirror that is absent is filled anew; one
// whose deletion Redis could not be told is not believed by this process, which
// deletes it as soon as Redis is back.

// mirrorTrust is how long a mirror is believed without asking Postgres. It
// bounds how long a change is overlooked of which Redis never heard because the
// process that made it died meanwhile.
const mirrorTrust = 5 * time.Minute

// droppedLife is how long a deletion of the mirror is remembered: no command that
// was sent before arrives later.
const droppedLife = 10 * time.Minute

// The first item of a mirror says what it is, when by the database's clock, in
// microseconds, and when by ours, in seconds. With it a list without wishes has a
// mirror, too. A release that does not know it fills the mirror anew.
const (
	mirrorFull    = "full"
	mirrorDropped = "dropped"
)

// listTimeout caps the reading of a list in Postgres: while that hangs the mirror, or
// an answer that says what it lacks, is better than a page that waits.
const listTimeout = time.Second

func (s *Store) wishlistKey(guestID bff.ID) string { return s.sessionKey(guestID) + ":wishlist" }

// lockWishlist serialises the changes of one guest's wishlist until the
// transaction ends.
func lockWishlist(ctx context.Context, tx pgx.Tx, guestID bff.ID, shared bool) error {
	fn := "pg_advisory_xact_lock"
	if shared {
		fn = "pg_advisory_xact_lock_shared"
	}
	if _, err := tx.Exec(ctx, "SELECT "+fn+"(hashtextextended('wishlist:' || $1, 0))", guestID.String()); err != nil {
		return fmt.Errorf("lock wishlist: %w", err)
	}
	return nil
}

// ListWishlist returns a guest's entries, from the mirror if it can.
func (s *Store) ListWishlist(ctx context.Context, guestID bff.ID) ([]consumer.WishlistEntry, error) {
	entries, fresh, mirrorErr := s.readMirror(ctx, guestID)
	if fresh && !s.undropped.has(guestID) {
		return entries, nil
	}
	inTime, cancel := s.within(ctx, listTimeout)
	defer cancel()
	filled, err := s.fillMirror(inTime, guestID)
	if err == nil {
		return filled, nil
	}
	if mirrorErr == nil && len(entries) > 0 { // Postgres is away: better old than none
		return entries, nil
	}
	return nil, durable(err)
}

func (s *Store) readMirror(ctx context.Context, guestID bff.ID) (entries []consumer.WishlistEntry, fresh bool, err error) {
	ctx, cancel := s.within(ctx, sessionTimeout)
	defer cancel()
	c := s.cfg.Sessions
	items, err := c.Do(ctx, c.B().Lrange().Key(s.wishlistKey(guestID)).Start(0).Stop(-1).Build()).AsStrSlice()
	if err != nil {
		return nil, false, fmt.Errorf("read wishlist mirror: %w", err)
	}
	if len(items) == 0 {
		return nil, false, nil
	}
	var what string
	var version, at int64
	if n, err := fmt.Sscan(items[0], &what, &version, &at); n != 3 || err != nil || what != mirrorFull {
		return nil, false, nil //nolint:nilerr // an unreadable mirror is filled anew
	}
	fresh = time.Since(time.Unix(at, 0)) < mirrorTrust
	for _, item := range items[1:] {
		var e consumer.WishlistEntry
		if err := json.Unmarshal([]byte(item), &e); err != nil {
			return nil, false, nil // an unreadable mirror is filled anew
		}
		entries = append(entries, e)
	}
	return entries, fresh, nil
}

// replaceScript swaps a whole mirror for a newer one. A cleared session's list
// stays away.
//
//	KEYS[1] list; ARGV[1] life in seconds; ARGV[2] mark of a cleared list;
//	ARGV[3] version; ARGV[4…] items, the first says what they are
var replaceScript = rueidis.NewLuaScript(`
local head = redis.call('LINDEX', KEYS[1], 0)
if head == ARGV[2] then return 0 end
local version = head and string.match(head, '^%a+ (%d+) ')
if version and tonumber(version) > tonumber(ARGV[3]) then return 0 end
redis.call('DEL', KEYS[1])
redis.call('RPUSH', KEYS[1], unpack(ARGV, 4))
redis.call('EXPIRE', KEYS[1], ARGV[1])
return 1`)

// replaceMirror writes a mirror of a version with its items.
func (s *Store) replaceMirror(ctx context.Context, guestID bff.ID, what string, version int64, items ...string) error {
	life := lifetimeText
	if what == mirrorDropped {
		life = seconds(droppedLife)
	}
	v := strconv.FormatInt(version, 10)
	args := append([]string{life, clearedMark, v, what + " " + v + " " + strconv.FormatInt(time.Now().Unix(), 10)}, items...)
	ctx, cancel := s.within(ctx, sessionTimeout)
	defer cancel()
	return replaceScript.Exec(ctx, s.cfg.Sessions, []string{s.wishlistKey(guestID)}, args).Error()
}

// mirrorVersion is the database's clock; it is read under the guest's lock.
func mirrorVersion(ctx context.Context, tx pgx.Tx) (version int64, err error) {
	if err := tx.QueryRow(ctx, `SELECT (extract(epoch FROM clock_timestamp()) * 1000000)::bigint`).Scan(&version); err != nil {
		return 0, fmt.Errorf("lock wishlist: %w", err)
	}
	return version, nil
}

// fillMirror reads Postgres and writes the mirror under the shared lock.
func (s *Store) fillMirror(ctx context.Context, guestID bff.ID) ([]consumer.WishlistEntry, error) {
	var entries []consumer.WishlistEntry
	err := postgres.InTx(ctx, s.cfg.DB, func(tx pgx.Tx) (err error) {
		if err := lockWishlist(ctx, tx, guestID, true); err != nil {
			return err
		}
		version, err := mirrorVersion(ctx, tx)
		if err != nil {
			return err
		}
		if entries, err = listWishlist(ctx, tx, guestID); err != nil {
			return err
		}
		s.writeMirror(ctx, guestID, version, entries)
		return nil
	})
	return entries, err
}

// writeMirror is best effort: a mirror that was not written is filled by the
// next read.
func (s *Store) writeMirror(ctx context.Context, guestID bff.ID, version int64, entries []consumer.WishlistEntry) {
	var items []string
	for _, e := range entries {
		b, err := json.Marshal(e)
		if err != nil {
			return
		}
		items = append(items, string(b))
	}
	if s.replaceMirror(ctx, guestID, mirrorFull, version, items...) == nil {
		s.undropped.remove(guestID, version)
	}
}

// dropMirror deletes the mirror before a commit that changes what it shows. What
// Redis cannot be told now it is told when it is back.
func (s *Store) dropMirror(ctx context.Context, tx pgx.Tx, guestID bff.ID) error {
	version, err := mirrorVersion(ctx, tx)
	if err != nil {
		return err
	}
	if s.replaceMirror(ctx, guestID, mirrorDropped, version) != nil {
		s.undropped.add(guestID, version)
	}
	return nil
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

func listWishlist(ctx context.Context, tx pgx.Tx, guestID bff.ID) ([]consumer.WishlistEntry, error) {
	rows, err := tx.Query(ctx, `SELECT `+wishlistColumns+` FROM bff_consumer.wishlist_anonymous
		WHERE guest_session_id = $1 AND removed_at IS NULL ORDER BY added_at, id`, guestID.String())
	if err != nil {
		return nil, fmt.Errorf("list wishlist: %w", err)
	}
	entries, err := pgx.CollectRows(rows, scanEntry)
	if err != nil {
		return nil, fmt.Errorf("list wishlist: %w", err)
	}
	return entries, nil
}

// BeginWishlist returns a claim on a change; see guest.Wishlists.
func (s *Store) BeginWishlist(ctx context.Context, once consumer.Once, now time.Time) (guest.WishlistClaim, *consumer.Answer, error) {
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
	leave, _, err := s.lanes.Enter(ctx, lane, max(laneWait, s.cfg.LeastTimeout))
	if err != nil {
		return consumer.Answer{}, &bff.Error{Code: bff.CodeServiceUnavailable, RetryAfter: retryStore, Err: err}
	}
	answer, err := c.commit(ctx, change)
	last := !s.lanes.Crowded(lane)
	leave()
	c.Release() // duplicates need not wait for the mirror
	if last {
		ctx, cancel := s.within(context.WithoutCancel(ctx), fillTime)
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
	guestID := c.guest
	if err := lockWishlist(ctx, tx, guestID, false); err != nil {
		return idempotency.Answer{}, err
	}
	there, err := listWishlist(ctx, tx, guestID)
	if err != nil {
		return idempotency.Answer{}, err
	}
	for _, e := range there {
		if e.PropertyID == entry.PropertyID {
			return idempotency.NewAnswer(http.StatusOK, guest.WishlistChanged{WishlistEntry: e, Size: len(there)})
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
		entry.ID.String(), guestID.String(), entry.TenantID.UUID(), entry.PropertyID.UUID(), entry.Source, entry.Note, entry.AddedAt.Time); err != nil {
		return idempotency.Answer{}, fmt.Errorf("add to wishlist: %w", err)
	}
	size := len(there) + 1
	if err := c.store.announce(ctx, tx, by, guest.NewWishlistAdded(entry, guestID, size)); err != nil {
		return idempotency.Answer{}, err
	}
	if err := c.store.dropMirror(ctx, tx, guestID); err != nil {
		return idempotency.Answer{}, err
	}
	return idempotency.NewAnswer(http.StatusCreated, guest.WishlistChanged{WishlistEntry: entry, Size: size})
}

func (c wishlistClaim) remove(ctx context.Context, tx pgx.Tx, property bff.ID, by consumer.Announcer) (idempotency.Answer, error) {
	guestID := c.guest
	gone := idempotency.Answer{Status: http.StatusNoContent, Body: []byte("null")}
	if err := lockWishlist(ctx, tx, guestID, false); err != nil {
		return idempotency.Answer{}, err
	}
	rows, err := tx.Query(ctx, `UPDATE bff_consumer.wishlist_anonymous SET removed_at = $3
		WHERE guest_session_id = $1 AND property_id = $2::uuid AND removed_at IS NULL
		RETURNING `+wishlistColumns, guestID.String(), property.UUID(), c.now)
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
		WHERE guest_session_id = $1 AND removed_at IS NULL`, guestID.String()).Scan(&size); err != nil {
		return idempotency.Answer{}, fmt.Errorf("remove from wishlist: %w", err)
	}
	if err := c.store.announce(ctx, tx, by, guest.NewWishlistRemoved(removed[0], guestID, size, c.now)); err != nil {
		return idempotency.Answer{}, err
	}
	if err := c.store.dropMirror(ctx, tx, guestID); err != nil {
		return idempotency.Answer{}, err
	}
	return gone, nil
}
