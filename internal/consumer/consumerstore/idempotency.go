package consumerstore

import (
	"context"
	"time"

	"github.com/redis/rueidis"

	"melmastoon.ghasi.io/bff"
	"melmastoon.ghasi.io/bff/internal/consumer"
	"melmastoon.ghasi.io/bff/internal/idempotency"
)

// duplicateWait is how long a repeated mutation waits for the first attempt.
const duplicateWait = 2 * time.Second

func (s *Store) newOnce() *idempotency.Store {
	return idempotency.New(idempotency.Config{
		DB: s.cfg.DB, Copies: copies{s}, Wait: max(duplicateWait, s.cfg.LeastTimeout),
		Table: idempotency.Table{
			Name: "bff_consumer.idempotency_keys", Key: "composite_key", Owners: []string{"guest_session_id"}, Route: "route",
			Digest: "request_digest", Status: "response_status", Body: "response_body",
		},
		Codes: idempotency.Codes{Reused: bff.CodeIdempotencyKeyReused, InFlight: bff.CodeIdempotencyInFlight},
	})
}

// attempt is a claim on one mutation of a guest.
type attempt struct {
	*idempotency.Claim
	store *Store
	guest bff.ID
	now   time.Time
}

// begin returns a claim on a mutation, or the earlier answer.
func (s *Store) begin(ctx context.Context, o consumer.Once, now time.Time) (*attempt, *consumer.Answer, error) {
	claim, earlier, err := s.once.Begin(ctx, idempotency.Request{
		Owner: []string{o.Guest.String()}, Route: o.Route, Key: o.Key, Digest: o.Digest,
	}, now)
	if err != nil {
		return nil, nil, durable(err)
	}
	if earlier != nil {
		return nil, &consumer.Answer{Status: earlier.Status, Body: earlier.Body, Replayed: true}, nil
	}
	return &attempt{Claim: claim, store: s, guest: o.Guest, now: now}, nil, nil
}

// settle turns the outcome of the mutation's transaction into the guest's answer
// and wakes the relay after a commit.
func (a *attempt) settle(ctx context.Context, answer idempotency.Answer, err error) (consumer.Answer, error) {
	answer, replayed, err := a.Settle(ctx, answer, err)
	if err != nil {
		return consumer.Answer{}, durable(err)
	}
	if !replayed {
		a.store.cfg.Waker.Wake()
	}
	return consumer.Answer{Status: answer.Status, Body: answer.Body, Replayed: replayed}, nil
}

// copies are the quick copies of idempotent answers in Redis. Without Redis
// every answer is found in Postgres.
type copies struct{ *Store }

func (c copies) key(composite string) string { return c.cfg.Keys.Key("idem", composite) }

// Find returns a copy if Redis has one and says so in time.
func (c copies) Find(ctx context.Context, composite string) []byte {
	ctx, cancel := c.within(ctx, sessionTimeout)
	defer cancel()
	r := c.cfg.Sessions
	b, err := r.Do(ctx, r.B().Get().Key(c.key(composite)).Build()).AsBytes()
	if err != nil {
		return nil
	}
	return b
}

// Keep stores a copy for as long as the answer is kept.
func (c copies) Keep(ctx context.Context, composite string, copied []byte, life time.Duration) {
	if life < time.Second {
		return
	}
	ctx, cancel := c.within(ctx, sessionTimeout)
	defer cancel()
	r := c.cfg.Sessions
	_ = r.Do(ctx, r.B().Set().Key(c.key(composite)).Value(rueidis.BinaryString(copied)).Ex(life).Build()).Error() // Postgres has it
}
