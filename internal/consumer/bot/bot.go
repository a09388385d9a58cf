package bot

import (
	"context"
	"encoding/binary"
	"time"

	"melmastoon.ghasi.io/bff"
	"melmastoon.ghasi.io/bff/internal/consumer"
)

// SuspectFor names the client that a verdict without a session is about: the
// event's schema requires a session's id, and one client should have one.
func SuspectFor(key uint64, fingerprint consumer.Hash) bff.ID {
	var b [16]byte
	binary.LittleEndian.PutUint64(b[:8], key)
	copy(b[8:], fingerprint[:8])
	return bff.IDFromBytes(bff.PrefixGuestSession, b)
}

// Pace is how many requests one client sent since the last exchange between
// instances, and when that was.
type Pace struct {
	Client   uint64
	Requests int
	Since    time.Time
}

// Reputation is what instances know of a client beyond its pace.
type Reputation struct {
	SolvedUntil time.Time
}

// BotMemory is what the instances of the service share about clients. All of it
// may be lost: a client is then judged anew.
type BotMemory interface {
	// Burn marks a challenge as spent; fresh is true for the first caller only.
	Burn(ctx context.Context, id string, ttl time.Duration) (fresh bool, err error)
	// Solved remembers that a client solved a challenge.
	Solved(ctx context.Context, client uint64, until time.Time) error
	// FindReputation returns what is remembered of a client.
	FindReputation(ctx context.Context, client uint64) (Reputation, error)
	// Block refuses a client everything until then.
	Block(ctx context.Context, client uint64, until time.Time) error
	// Blocked returns the clients that are blocked, and until when.
	Blocked(ctx context.Context, now time.Time) (map[uint64]time.Time, error)
	// ExchangePaces reports what was counted here and returns, for each client,
	// what the other instances counted since the last exchange.
	ExchangePaces(ctx context.Context, paces []Pace, now time.Time) ([]int, error)
	// Collide notes a session of a crowd, which is a fingerprint on a network, and
	// returns how many sessions the crowd has had within a minute.
	Collide(ctx context.Context, crowd, session uint64, now time.Time) (int, error)
	// Penalty returns what a fingerprint's penalties still weigh.
	Penalty(ctx context.Context, fingerprint consumer.Hash, now time.Time) (float64, error)
	// LogVerdict keeps a verdict with its event, if any, in one transaction.
	LogVerdict(ctx context.Context, b BotSuspected, e *bff.Event) error
}

// BotSuspected is the payload of bot_suspected.v1.
type BotSuspected struct {
	GuestSessionID  bff.ID        `json:"guestSessionId"`
	Score           float64       `json:"score"`
	Verdict         string        `json:"verdict"`
	Signals         []Signal      `json:"signals"`
	IPHash          consumer.Hash `json:"ipHash"`
	UserAgentHash   consumer.Hash `json:"userAgentHash"`
	FingerprintHash consumer.Hash `json:"fingerprintHash"`
	EvaluatedAt     bff.Timestamp `json:"evaluatedAt"`
	ActionTaken     string        `json:"actionTaken"`
}

// Suspicions keeps what was noticed of clients that may be bots. It is
// security state: it is kept whatever a guest consented to.
type Suspicions interface {
	// Suspect logs a verdict with its event (if any) in one transaction, and
	// weighs on the fingerprint for a while.
	Suspect(ctx context.Context, b BotSuspected, e *bff.Event) error
}

// Subject implements consumer.Fact.
func (BotSuspected) Subject() consumer.Subject { return consumer.SubjectBotSuspected }
