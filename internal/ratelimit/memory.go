package ratelimit

import (
	"context"
	"sync"
)

// Memory is a source for one process: development, tests, a single instance.
type Memory struct {
	mu   sync.Mutex
	tats map[string]int64
	// sweepAt is the size at which lapsed buckets are thrown out.
	sweepAt int
}

const memorySweep = 1024

// NewMemory returns an empty source.
func NewMemory() *Memory {
	return &Memory{tats: map[string]int64{}, sweepAt: memorySweep}
}

// Settle implements [Source].
func (m *Memory) Settle(ctx context.Context, asks []Ask, answers []Answer) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	for i := range asks {
		a := &asks[i]
		answers[i] = settle(m.tats[a.Bucket], a)
		if answers[i].TAT > a.Now {
			m.tats[a.Bucket] = answers[i].TAT
		}
	}
	if len(asks) > 0 && len(m.tats) >= m.sweepAt {
		m.sweep(asks[0].Now)
	}
	return nil
}

// sweep forgets full buckets: an absent one is full as well.
func (m *Memory) sweep(now int64) {
	for bucket, tat := range m.tats {
		if tat <= now {
			delete(m.tats, bucket)
		}
	}
	m.sweepAt = max(2*len(m.tats), memorySweep)
}
