package idempotency

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"melmastoon.ghasi.io/bff/internal/postgres"
)

// Claim is the right to carry out one request in this process. In the
// transaction of the mutation call Record, or Take and later Answer when the
// answer is known only inside; after the transaction call Settle, whatever its
// outcome. A transaction that runs again repeats the calls.
type Claim struct {
	store   *Store
	request Request
	now     time.Time
	leave   func() // the gate; nil = not held
	token   [16]byte
	done    bool // settled or released
}

// errLost says that an attempt in another process was first.
var errLost = errors.New("another request with this key was first")

// Record claims the key and writes the answer in the mutation's transaction.
func (c *Claim) Record(ctx context.Context, tx pgx.Tx, a Answer) error {
	if c.store.cfg.Table.TakeOver > 0 { // the claim is committed already
		return c.Answer(ctx, tx, a)
	}
	return c.insert(ctx, tx, a)
}

// Take claims the key in the mutation's transaction. The claim is the row itself:
// its unique key makes duplicates in other processes queue up behind the
// transaction that holds it, and a crash takes it away.
func (c *Claim) Take(ctx context.Context, tx pgx.Tx) error {
	return c.insert(ctx, tx, unanswered())
}

// unanswered is what a claimed key has until its answer is known.
func unanswered() Answer { return Answer{Body: []byte("{}")} }

// Answer writes the answer of a claimed key.
func (c *Claim) Answer(ctx context.Context, tx pgx.Tx, a Answer) error {
	var b pgx.Batch
	c.QueueAnswer(&b, a)
	if err := tx.SendBatch(ctx, &b).Close(); err != nil {
		return fmt.Errorf("record answer: %w", err)
	}
	return nil
}

// QueueAnswer is Answer in one round trip with what is queued behind it. The batch
// fails if the claim was taken over meanwhile, and the transaction is to be undone.
func (c *Claim) QueueAnswer(b *pgx.Batch, a Answer) {
	args := []any{c.request.Composite(), a.Status, string(a.Body)}
	if c.store.cfg.Table.TakeOver > 0 {
		args = append(args, c.token)
	}
	b.Queue(c.store.sql.answer, args...).Exec(lostWithoutRow)
}

func (c *Claim) insert(ctx context.Context, tx pgx.Tx, a Answer) error {
	var b pgx.Batch
	c.queueInsert(&b, a)
	if err := tx.SendBatch(ctx, &b).Close(); err != nil {
		return fmt.Errorf("claim key: %w", err)
	}
	return nil
}

func (c *Claim) queueInsert(b *pgx.Batch, a Answer) {
	b.Queue(fmt.Sprintf("SET LOCAL lock_timeout = %d", max(1, c.store.cfg.Wait.Milliseconds())))
	b.Queue(c.store.sql.insert, c.args(a)...).Exec(lostWithoutRow)
}

func lostWithoutRow(tag pgconn.CommandTag) error {
	if tag.RowsAffected() == 0 {
		return errLost
	}
	return nil
}

func (c *Claim) args(a Answer) []any {
	t, r := c.store.cfg.Table, c.request
	var digest any = r.Digest[:]
	if t.Hex {
		digest = hex.EncodeToString(r.Digest[:])
	}
	args := []any{r.Composite(), digest, a.Status, string(a.Body), c.now, c.now.Add(c.store.cfg.Life)}
	if t.TakeOver > 0 {
		args = append(args, c.token, c.now.Add(-t.TakeOver))
	}
	if t.Route != "" {
		args = append(args, r.Route)
	}
	for i := range t.Owners {
		args = append(args, r.Owner[i])
	}
	for i := range t.By {
		args = append(args, r.By[i])
	}
	return args
}

// Settle turns the outcome of the mutation's transaction into the answer that the
// client gets: this attempt's, or that of the attempt that was first.
func (c *Claim) Settle(ctx context.Context, a Answer, err error) (answer Answer, replayed bool, _ error) {
	s := c.store
	switch {
	case errors.Is(err, errLost):
		earlier, findErr := s.Find(ctx, c.request, c.now)
		if findErr != nil {
			return Answer{}, false, findErr
		}
		if earlier == nil {
			return Answer{}, false, s.inFlight(errLost)
		}
		return *earlier, true, nil
	case isLockTimeout(err):
		return Answer{}, false, s.inFlight(err)
	case err != nil:
		return Answer{}, false, err
	}
	s.keep(ctx, c.request, a, s.cfg.Life)
	c.done = true
	return a, false, nil
}

// freeTimeout caps the release of a committed claim. One that cannot be released
// is taken over by its age.
const freeTimeout = time.Second

// Release ends the claim: a duplicate that waits gets the answer, or its turn if
// there is none. A committed claim may be taken over at once then, by the same
// request alone: what it asked for may have happened. It may be called again.
func (c *Claim) Release() {
	if c.leave != nil {
		c.leave()
		c.leave = nil
	}
	if c.done || c.store.cfg.Table.TakeOver == 0 {
		return
	}
	c.done = true
	ctx, cancel := context.WithTimeout(context.Background(), freeTimeout)
	defer cancel()
	_ = c.store.inTx(ctx, c.request, func(tx pgx.Tx) error { // said above
		_, err := tx.Exec(ctx, c.store.sql.free, c.request.Composite(), c.token, c.now.Add(-c.store.cfg.Table.TakeOver))
		return err
	})
}

// commitClaim commits a claim of its own before the mutation, or returns the
// earlier answer.
func (c *Claim) commitClaim(ctx context.Context, also Also) (*Answer, error) {
	s := c.store
	if a, digest := s.findCopy(ctx, c.request); a != nil {
		return s.checked(a, digest, c.request)
	}
	_, _ = rand.Read(c.token[:]) // never fails
	err := s.inTx(ctx, c.request, func(tx pgx.Tx) error {
		if also == nil {
			return c.Take(ctx, tx)
		}
		var b pgx.Batch
		c.queueInsert(&b, unanswered())
		return also(ctx, tx, &b)
	})
	switch {
	case errors.Is(err, errLost):
		earlier, err := s.Find(ctx, c.request, c.now)
		if err == nil && earlier == nil { // freed this moment
			err = s.inFlight(errLost)
		}
		return earlier, err
	case isLockTimeout(err):
		return nil, s.inFlight(err)
	case errors.Is(err, postgres.ErrOutcomeUnknown):
		c.Release() // it may stand, and would keep the next attempt waiting
	}
	return nil, err
}
