package consumerstore

import (
	"context"
	"time"

	"github.com/redis/rueidis"
)

// copies are the quick copies of idempotent answers in Redis. Without Redis
// every answer is found in Postgres.
type copies struct{ *Store }

func (c copies) key(composite string) string { return c.cfg.Keys.Key("idem", composite) }

// Find returns a copy if Redis has one and says so in time.
func (c copies) Find(ctx context.Context, composite string) []byte {
	ctx, cancel := context.WithTimeout(ctx, sessionTimeout)
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
	ctx, cancel := context.WithTimeout(ctx, sessionTimeout)
	defer cancel()
	r := c.cfg.Sessions
	_ = r.Do(ctx, r.B().Set().Key(c.key(composite)).Value(rueidis.BinaryString(copied)).Ex(life).Build()).Error() // Postgres has it
}
