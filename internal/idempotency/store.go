package idempotency

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"melmastoon.ghasi.io/bff"
	"melmastoon.ghasi.io/bff/internal/postgres"
)

// Copies holds quick copies of answers. It may lose them at any time.
type Copies interface {
	// Find returns a copy, nil when there is none or it cannot be had.
	Find(ctx context.Context, composite string) []byte
	// Keep stores a copy if it can.
	Keep(ctx context.Context, composite string, copied []byte, life time.Duration)
}

// Codes are a service's own codes of refused attempts.
type Codes struct {
	Reused   bff.Code // the key belongs to a request with another body, or of another sender
	InFlight bff.Code // an attempt with this key is still running
}

// Config says where a service keeps its answers.
type Config struct {
	DB     *pgxpool.Pool
	Table  Table
	Codes  Codes
	Copies Copies        // nil = none
	Wait   time.Duration // how long a duplicate waits for the first to finish
	Life   time.Duration // how long an answer is kept; 0 = Lifetime
	// Begin starts the store's own transactions, for tables whose rows only their
	// tenant's transaction sees; nil = rows are read and written without one.
	Begin func(ctx context.Context, r Request, work func(pgx.Tx) error) error
}

// Store lets mutations happen once.
type Store struct {
	cfg  Config
	sql  statements
	gate Gate
}

// New returns a Store.
func New(cfg Config) *Store {
	cfg.Life = cmp.Or(cfg.Life, Lifetime)
	return &Store{cfg: cfg, sql: cfg.Table.statements()}
}

// Begin returns a claim on a request, or the answer that an earlier attempt at it
// got. A duplicate of a running attempt waits for it; when that one fails, the
// duplicate gets the claim. The caller must release a claim.
func (s *Store) Begin(ctx context.Context, r Request, now time.Time) (*Claim, *Answer, error) {
	return s.BeginWith(ctx, r, now, nil)
}

// Also writes, in a claim's transaction, what must stand before the mutation is tried.
// The batch has the claim: Also adds to it, sends it and returns its error, which undoes
// all of it when another attempt has the key.
type Also func(ctx context.Context, tx pgx.Tx, claim *pgx.Batch) error

// BeginWith is Begin for a table whose claims are committed, with more in their
// transaction.
func (s *Store) BeginWith(ctx context.Context, r Request, now time.Time, also Also) (*Claim, *Answer, error) {
	c := &Claim{store: s, request: r, now: now}
	if s.cfg.Table.TakeOver > 0 {
		earlier, err := c.commitClaim(ctx, also)
		if err != nil || earlier != nil {
			return nil, earlier, err
		}
		return c, nil, nil
	}
	earlier, err := s.Find(ctx, r, now)
	if err != nil || earlier != nil {
		return nil, earlier, err
	}
	// Duplicates in this process wait here, without a connection: if they waited
	// in Postgres, one impatient client could use up the pool.
	leave, waited, err := s.gate.Enter(ctx, r.Composite(), s.cfg.Wait)
	if errors.Is(err, ErrBusy) {
		err = s.inFlight(err)
	}
	if err != nil {
		return nil, nil, err
	}
	c.leave = leave
	if waited {
		if earlier, err = s.Find(ctx, r, now); err != nil || earlier != nil {
			c.Release()
			return nil, earlier, err
		}
	}
	return c, nil, nil
}

// Find returns the answer that a request already had, nil if it had none.
func (s *Store) Find(ctx context.Context, r Request, now time.Time) (*Answer, error) {
	if a, digest := s.findCopy(ctx, r); a != nil {
		return s.checked(a, digest, r)
	}
	var found row
	var err error
	args := []any{r.Composite(), now}
	if i := slices.Index(s.cfg.Table.By, s.cfg.Table.Whose); i >= 0 {
		args = append(args, r.By[i])
	}
	if s.cfg.Begin == nil {
		err = found.scan(s.cfg.DB.QueryRow(ctx, s.sql.find, args...))
	} else {
		err = s.cfg.Begin(ctx, r, func(tx pgx.Tx) error { return found.scan(tx.QueryRow(ctx, s.sql.find, args...)) })
	}
	if errors.Is(err, pgx.ErrNoRows) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("find answer: %w", err)
	}
	if found.other {
		return nil, bff.Errorf(s.cfg.Codes.Reused, "this key belongs to another sender's request: send a new key with a new request")
	}
	a, err := s.checked(&found.answer, found.digest, r)
	if err != nil {
		return nil, err
	}
	if found.state == "in_flight" {
		return nil, s.inFlight(ErrBusy)
	}
	s.keep(ctx, r, *a, found.expires.Sub(now))
	return a, nil
}

// row is an answer as the table holds it.
type row struct {
	answer  Answer
	digest  []byte
	expires time.Time
	state   string
	other   bool // it is another's
}

func (r *row) scan(found pgx.Row) error {
	err := found.Scan(&r.digest, &r.answer.Status, &r.answer.Body, &r.expires, &r.state, &r.other)
	r.answer.Body = canonical(r.answer.Body)
	return err
}

func (s *Store) checked(a *Answer, digest []byte, r Request) (*Answer, error) {
	if string(digest) != string(r.Digest[:]) {
		return nil, bff.Errorf(s.cfg.Codes.Reused, "this key belongs to a request with another body: send a new key with a new request")
	}
	return a, nil
}

// copied is an answer as Copies holds it. Body is kept as bytes, not as JSON,
// so that a replay is the same to the byte.
type copied struct {
	Digest []byte `json:"requestDigest"`
	Status int    `json:"responseStatus"`
	Body   []byte `json:"responseBody"`
}

func (s *Store) keep(ctx context.Context, r Request, a Answer, life time.Duration) {
	if s.cfg.Copies == nil {
		return
	}
	b, err := json.Marshal(copied{r.Digest[:], a.Status, a.Body})
	if err == nil {
		s.cfg.Copies.Keep(ctx, r.Composite(), b, life)
	}
}

func (s *Store) findCopy(ctx context.Context, r Request) (*Answer, []byte) {
	if s.cfg.Copies == nil {
		return nil, nil
	}
	var c copied
	b := s.cfg.Copies.Find(ctx, r.Composite())
	if len(b) == 0 || json.Unmarshal(b, &c) != nil || len(c.Digest) != sha256.Size || c.Status == 0 {
		return nil, nil
	}
	return &Answer{Status: c.Status, Body: c.Body}, c.Digest
}

// Forget deletes every answer of an owner in the given transaction and returns
// their composite keys, whose copies are then to be deleted too.
func (s *Store) Forget(ctx context.Context, tx pgx.Tx, owner string) ([]string, error) {
	rows, err := tx.Query(ctx, s.sql.forget, owner)
	if err != nil {
		return nil, fmt.Errorf("forget answers: %w", err)
	}
	keys, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		return nil, fmt.Errorf("forget answers: %w", err)
	}
	return keys, nil
}

func (s *Store) inFlight(cause error) error {
	return &bff.Error{Code: s.cfg.Codes.InFlight, RetryAfter: time.Second, Err: cause}
}

// inTx runs the store's own transaction.
func (s *Store) inTx(ctx context.Context, r Request, work func(pgx.Tx) error) error {
	if s.cfg.Begin != nil {
		return s.cfg.Begin(ctx, r, work)
	}
	return postgres.InTx(ctx, s.cfg.DB, work)
}

func isLockTimeout(err error) bool {
	pgErr, ok := errors.AsType[*pgconn.PgError](err)
	return ok && pgErr.Code == "55P03"
}
