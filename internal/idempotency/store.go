package idempotency

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
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

// Store keeps answers in the anonymous service's table.
type Store struct {
	DB     *pgxpool.Pool
	Copies Copies // nil = none
	// Wait is how long a duplicate waits for the first to finish.
	Wait time.Duration

	gate Gate
}

// Work is a mutation, ready to be done in a transaction. It may be run again
// after a conflict and must have no other effect.
type Work func(tx pgx.Tx) (Answer, error)

// Do runs a mutation in a transaction together with the record of its answer,
// at most once per key. Prepare does what needs no transaction, such as asking
// other services; it runs only if no answer is known. A concurrent duplicate
// waits for the first; when the first fails, the duplicate takes its turn.
// replayed tells whether the answer is an earlier one.
func (s *Store) Do(ctx context.Context, r Request, now time.Time, prepare func(context.Context) (Work, error)) (a Answer, replayed bool, err error) {
	earlier, err := s.Find(ctx, r, now)
	if err != nil || earlier != nil {
		return answerOf(earlier), earlier != nil, err
	}
	// Duplicates in this process wait here, without a connection: were they to
	// wait in Postgres, one guest's impatience could use up the pool.
	leave, waited, err := s.gate.Enter(ctx, r.Composite(), s.Wait)
	if err != nil {
		return Answer{}, false, err
	}
	defer leave()
	if waited {
		if earlier, err = s.Find(ctx, r, now); err != nil || earlier != nil {
			return answerOf(earlier), earlier != nil, err
		}
	}
	work, err := prepare(ctx)
	if err != nil {
		return Answer{}, false, err
	}
	return s.run(ctx, r, now, work)
}

func answerOf(a *Answer) Answer {
	if a == nil {
		return Answer{}
	}
	return *a
}

// errLost says that another request with the same key was first.
var errLost = errors.New("another request with this key was first")

func (s *Store) run(ctx context.Context, r Request, now time.Time, work Work) (a Answer, replayed bool, err error) {
	err = postgres.InTx(ctx, s.DB, func(tx pgx.Tx) error {
		// The claim is the row itself: its unique key makes duplicates in other
		// processes queue up behind the transaction that holds it, and a crash
		// takes it away.
		var b pgx.Batch // both in one round trip
		b.Queue(fmt.Sprintf("SET LOCAL lock_timeout = %d", s.Wait.Milliseconds()))
		claimed := false
		b.Queue(`INSERT INTO bff_consumer.idempotency_keys AS k
			(composite_key, guest_session_id, route, request_digest, response_status, response_body, created_at, expires_at)
			VALUES ($1, $2, $3, $4, 0, '{}', $5, $6)
			ON CONFLICT (composite_key) DO UPDATE SET request_digest = excluded.request_digest, created_at = excluded.created_at,
				expires_at = excluded.expires_at, response_status = 0, response_body = '{}'
			WHERE k.expires_at <= excluded.created_at`,
			r.Composite(), r.Owner, r.Route, r.Digest[:], now, now.Add(Lifetime)).Exec(func(tag pgconn.CommandTag) error {
			claimed = tag.RowsAffected() > 0
			return nil
		})
		if err := tx.SendBatch(ctx, &b).Close(); err != nil {
			return err
		}
		if !claimed {
			return errLost
		}
		if a, err = work(tx); err != nil {
			return err
		}
		_, err = tx.Exec(ctx, `UPDATE bff_consumer.idempotency_keys SET response_status = $2, response_body = $3
			WHERE composite_key = $1`, r.Composite(), a.Status, string(a.Body))
		return err
	})
	switch {
	case errors.Is(err, errLost):
		earlier, findErr := s.Find(ctx, r, now)
		if findErr != nil {
			return Answer{}, false, findErr
		}
		if earlier == nil {
			return Answer{}, false, inFlight(errLost)
		}
		return *earlier, true, nil
	case isLockTimeout(err):
		return Answer{}, false, inFlight(err)
	case err != nil:
		return Answer{}, false, err
	}
	s.keep(ctx, r, a, Lifetime)
	return a, false, nil
}

// Find returns the answer that a request already had, nil if it had none.
func (s *Store) Find(ctx context.Context, r Request, now time.Time) (*Answer, error) {
	if s.Copies != nil {
		if a, digest, ok := decodeCopy(s.Copies.Find(ctx, r.Composite())); ok {
			return checked(&a, digest, r)
		}
	}
	var (
		digest  []byte
		a       Answer
		expires time.Time
	)
	err := s.DB.QueryRow(ctx, `SELECT request_digest, response_status, response_body::text::bytea, expires_at
		FROM bff_consumer.idempotency_keys WHERE composite_key = $1 AND expires_at > $2`, r.Composite(), now).
		Scan(&digest, &a.Status, &a.Body, &expires)
	if errors.Is(err, pgx.ErrNoRows) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("find answer: %w", err)
	}
	a.Body = canonical(a.Body)
	found, err := checked(&a, digest, r)
	if err == nil {
		s.keep(ctx, r, a, expires.Sub(now))
	}
	return found, err
}

func checked(a *Answer, digest []byte, r Request) (*Answer, error) {
	if string(digest) != string(r.Digest[:]) {
		return nil, bff.Errorf(bff.CodeIdempotencyKeyReused, "this key belongs to a request with another body")
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
	if s.Copies == nil {
		return
	}
	b, err := json.Marshal(copied{r.Digest[:], a.Status, a.Body})
	if err == nil {
		s.Copies.Keep(ctx, r.Composite(), b, life)
	}
}

func decodeCopy(b []byte) (Answer, []byte, bool) {
	var c copied
	if len(b) == 0 || json.Unmarshal(b, &c) != nil || len(c.Digest) != sha256.Size || c.Status == 0 {
		return Answer{}, nil, false
	}
	return Answer{Status: c.Status, Body: c.Body}, c.Digest, true
}

// Forget deletes every answer of an owner in the given transaction and returns
// their composite keys, whose copies are then to be deleted too.
func Forget(ctx context.Context, tx pgx.Tx, owner string) ([]string, error) {
	rows, err := tx.Query(ctx, `DELETE FROM bff_consumer.idempotency_keys WHERE guest_session_id = $1 RETURNING composite_key`, owner)
	if err != nil {
		return nil, fmt.Errorf("forget answers: %w", err)
	}
	keys, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		return nil, fmt.Errorf("forget answers: %w", err)
	}
	return keys, nil
}

func inFlight(cause error) error {
	return &bff.Error{Code: bff.CodeIdempotencyInFlight, RetryAfter: time.Second, Err: cause}
}

func isLockTimeout(err error) bool {
	pgErr, ok := errors.AsType[*pgconn.PgError](err)
	return ok && pgErr.Code == "55P03"
}
