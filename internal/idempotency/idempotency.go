// Package idempotency makes a mutation happen once however often it is sent.
// The answer is written in the mutation's own transaction, so that there is no
// moment at which one stands without the other.
package idempotency

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"melmastoon.ghasi.io/bff"
	"melmastoon.ghasi.io/bff/internal/postgres"
)

// Lifetime is how long an answer is kept.
const Lifetime = 24 * time.Hour

// maxKey bounds what a client may call its request.
const maxKey = 128

// KeyFrom reads the client's key from either spelling of the header. Two
// spellings with two values would let two layers see two different requests.
func KeyFrom(h http.Header) (string, error) {
	var given []string
	for _, name := range []string{"X-Idempotency-Key", "Idempotency-Key"} {
		given = append(given, h.Values(name)...)
	}
	if len(given) == 0 || (len(given) == 1 && given[0] == "") {
		return "", bff.Errorf(bff.CodeIdempotencyKeyRequired, "send Idempotency-Key, a fresh value for every new action")
	}
	for _, g := range given[1:] {
		if g != given[0] {
			return "", bff.FieldErrors{{Field: "Idempotency-Key", Code: bff.FieldConflict}}.Err()
		}
	}
	key := given[0]
	if len(key) > maxKey {
		return "", bff.FieldErrors{{Field: "Idempotency-Key", Code: bff.FieldLength}}.Err()
	}
	for i := range len(key) {
		if key[i] < '!' || key[i] > '~' {
			return "", bff.FieldErrors{{Field: "Idempotency-Key", Code: bff.FieldFormat}}.Err()
		}
	}
	return key, nil
}

// Request is one attempt at a mutation.
type Request struct {
	Owner  string // whose key it is: another guest's same key is another request
	Route  string
	Key    string
	Digest [sha256.Size]byte // of the canonical body
}

// Composite is the name under which the answer is kept.
func (r Request) Composite() string {
	sum := sha256.Sum256([]byte(r.Owner + "|" + r.Route + "|" + r.Key))
	return hex.EncodeToString(sum[:])
}

// Digest hashes a JSON body without regard to white space and member order.
// Extra distinguishes what is not in the body, such as a path parameter.
func Digest(body any, extra ...string) ([sha256.Size]byte, error) {
	b, err := json.Marshal(append([]any{body}, anys(extra)...))
	if err != nil {
		return [sha256.Size]byte{}, fmt.Errorf("digest request: %w", err)
	}
	return sha256.Sum256(b), nil
}

func anys(in []string) []any {
	out := make([]any, len(in))
	for i, s := range in {
		out[i] = s
	}
	return out
}

// Answer is what the client was told. Body is canonical JSON: every replay has
// the same bytes.
type Answer struct {
	Status int
	Body   []byte
}

// NewAnswer encodes a body.
func NewAnswer(status int, body any) (Answer, error) {
	b, err := json.Marshal(body)
	if err != nil {
		return Answer{}, fmt.Errorf("encode answer: %w", err)
	}
	return Answer{Status: status, Body: canonical(b)}, nil
}

// canonical sorts the members of JSON, because a jsonb column does not keep
// their order and the first answer must equal the later ones.
func canonical(b []byte) []byte {
	var v any
	if json.Unmarshal(b, &v) != nil {
		return b
	}
	out, err := json.Marshal(v)
	if err != nil {
		return b
	}
	return out
}

// Store keeps answers in one service's table.
type Store struct {
	DB *pgxpool.Pool
	// Wait is how long a duplicate waits for the first to finish.
	Wait time.Duration
}

// Find returns the answer that a request already had, nil if it had none.
func (s *Store) Find(ctx context.Context, r Request, now time.Time) (*Answer, error) {
	return s.find(ctx, s.DB, r, now)
}

type querier interface {
	QueryRow(ctx context.Context, sql string, args ...any) pgx.Row
}

func (s *Store) find(ctx context.Context, q querier, r Request, now time.Time) (*Answer, error) {
	var (
		digest []byte
		a      Answer
	)
	err := q.QueryRow(ctx, `SELECT request_digest, response_status, response_body::text::bytea
		FROM bff_consumer.idempotency_keys WHERE composite_key = $1 AND expires_at > $2`, r.Composite(), now).
		Scan(&digest, &a.Status, &a.Body)
	if errors.Is(err, pgx.ErrNoRows) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("find answer: %w", err)
	}
	if string(digest) != string(r.Digest[:]) {
		return nil, bff.Errorf(bff.CodeIdempotencyKeyReused, "this key belongs to a request with another body")
	}
	a.Body = canonical(a.Body)
	return &a, nil
}

// errLost says that another request with the same key was first.
var errLost = errors.New("another request with this key was first")

// Do runs work in a transaction together with the record of its answer, at
// most once per key. A concurrent duplicate waits for the first; when the first
// fails, the duplicate takes its turn. replayed tells whether the answer is an
// earlier one.
func (s *Store) Do(ctx context.Context, r Request, now time.Time, work func(pgx.Tx) (Answer, error)) (a Answer, replayed bool, err error) {
	err = postgres.InTx(ctx, s.DB, func(tx pgx.Tx) error {
		// The claim is the row itself: its unique key makes duplicates queue up
		// behind the transaction that holds it, and a crash takes it away.
		if _, err := tx.Exec(ctx, fmt.Sprintf("SET LOCAL lock_timeout = %d", s.Wait.Milliseconds())); err != nil {
			return err
		}
		tag, err := tx.Exec(ctx, `INSERT INTO bff_consumer.idempotency_keys AS k
			(composite_key, guest_session_id, route, request_digest, response_status, response_body, created_at, expires_at)
			VALUES ($1, $2, $3, $4, 0, '{}', $5, $6)
			ON CONFLICT (composite_key) DO UPDATE SET request_digest = excluded.request_digest, created_at = excluded.created_at,
				expires_at = excluded.expires_at, response_status = 0, response_body = '{}'
			WHERE k.expires_at <= excluded.created_at`,
			r.Composite(), r.Owner, r.Route, r.Digest[:], now, now.Add(Lifetime))
		if err != nil {
			return err
		}
		if tag.RowsAffected() == 0 {
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
	return a, false, nil
}

func inFlight(cause error) error {
	return &bff.Error{Code: bff.CodeIdempotencyInFlight, RetryAfter: time.Second, Err: cause}
}

func isLockTimeout(err error) bool {
	pgErr, ok := errors.AsType[*pgconn.PgError](err)
	return ok && pgErr.Code == "55P03"
}
