package consumer

import (
	"context"
	"errors"
	"time"
)

// Inbound is an event of another producer, as the inbox knows it.
type Inbound struct {
	ID         string // as received: producers use several styles
	Subject    string
	Digest     [32]byte // of what it says
	OccurredAt time.Time
}

// Reception says how an event stands to those received before.
type Reception int

// An event is new, or was dealt with before, or bears the id of another one.
const (
	ReceivedFirst Reception = iota
	ReceivedAgain
	ReceivedOther
)

// ErrAway is wrapped by a failure that is a server's and not the event's: it
// says nothing about whether the event can ever be dealt with.
var ErrAway = errors.New("a server is unreachable")

// Inbox remembers received events for a week, so that each has its effect once.
type Inbox interface {
	// Receive notes an event. Until it is Processed it counts as first.
	Receive(ctx context.Context, in Inbound) (Reception, error)
	// Processed notes that the event has had its effect.
	Processed(ctx context.Context, in Inbound) error
}
