package action

import (
	"context"
	"errors"
	"sync"
	"time"

	"melmastoon.ghasi.io/bff"
	"melmastoon.ghasi.io/bff/internal/backoffice"
)

// Entry is what an operator did at a desk that had no line.
type Entry struct {
	Key     string
	Command Command
	// Alone: it is nothing that a replay may do.
	Alone bool
}

// Verdict is what became of an entry.
type Verdict string

// The verdicts there are. All but Undecided and NeedsSecondFactor are final: the same entry
// is answered with the same verdict again, as long as its operator has the same rights.
const (
	Carried           Verdict = "done"
	AlreadyDone       Verdict = "already_done"
	DoneByOther       Verdict = "done_by_other"
	NotPossible       Verdict = "not_possible"
	NeedsSecondFactor Verdict = "needs_second_factor"
	Expired           Verdict = "expired"
	Undecided         Verdict = "unknown"
)

// Why is a closed word of a line that says more than its verdict.
type Why string

// Why an entry is not possible.
const (
	WhyState      Why = "state_conflict"
	WhyMissing    Why = "not_found"
	WhyRole       Why = "role_denied"
	WhyScope      Why = "scope_denied"
	WhyRefused    Why = "refused"
	WhyOnlineOnly Why = "online_only"
	WhyKeyReused  Why = "key_reused"
)

// Pending is why an entry has no verdict yet.
type Pending string

// Why an entry has no verdict yet.
const (
	PendingOutcome     Pending = "outcome_unknown" // its service was asked
	PendingInFlight    Pending = "in_flight"
	PendingHeldUp      Pending = "held_up" // an earlier one about the same resource has none
	PendingUnavailable Pending = "unavailable"
	PendingTime        Pending = "out_of_time"
	PendingAccess      Pending = "access_ended"
)

// Line is what a desk is told of an entry.
type Line struct {
	Key     string              `json:"key"`
	Verdict Verdict             `json:"verdict"`
	Answer  *backoffice.Receipt `json:"answer,omitempty"`
	// By and At are of what was done before.
	By         string                      `json:"by,omitempty"`
	ByName     string                      `json:"byName,omitempty"`
	At         *bff.Timestamp              `json:"at,omitempty"`
	Reason     string                      `json:"reason,omitempty"` // a Why or a Pending
	Detail     string                      `json:"detail,omitempty"`
	Scope      backoffice.AttestationScope `json:"scope,omitempty"`
	ResourceID string                      `json:"resourceId,omitempty"`
	Known      *bff.Known                  `json:"known,omitempty"`
	RetryAfter int                         `json:"retryAfter,omitempty"` // seconds
}

const (
	// MaxEntries of one replay.
	MaxEntries = 100
	// replayTogether is how many entries are under way at once. More than one are only where
	// a service is slow.
	replayTogether = 8
	// replayPatience is how long an entry is waited for before the next one begins, which may
	// depend on it: a guest checks in to a room that others have left, and is charged before
	// checking out. One that hangs must not hold up a house, though.
	replayPatience = 500 * time.Millisecond
	// replayBegins is how long after the first one entries are begun; the rest comes with
	// another replay. entryTime is that of one.
	replayBegins = 14 * time.Second
	entryTime    = 8 * time.Second
	// replayRetry is when a desk sends again what has no verdict, unless more is known.
	replayRetry = 2 * time.Second
	// longestBlackout is how long ago a button can have been pressed: what a clock says
	// that was wrong by years is not kept.
	longestBlackout = 7 * 24 * time.Hour
	pressedAhead    = time.Minute
)

// PressedAt is when a button was pressed by our clock: the clock of the device says how long
// ago it was, and need not be right. Zero if it cannot be told: the clock was set in between.
func PressedAt(pressed, sent, now time.Time) time.Time {
	ago := sent.Sub(pressed)
	if sent.IsZero() || ago < -pressedAhead || ago > longestBlackout {
		return time.Time{}
	}
	return now.Add(-max(ago, 0))
}

// Replays lets what was taken down without a line happen when it is back.
type Replays struct{ cfg ReplaysConfig }

// ReplaysConfig is what Replays work with.
type ReplaysConfig struct {
	Proxy *Proxy
	// Again is the visit with the rights of now.
	Again  func(ctx context.Context, v *backoffice.Visit, now time.Time) (*backoffice.Visit, error)
	Traces Traces
	Now    func() time.Time
}

// NewReplays returns Replays.
func NewReplays(cfg ReplaysConfig) *Replays { return &Replays{cfg} }

// Run carries entries out in their order and tells a line of each, in the order of the
// verdicts. One that takes long is overtaken by what is about other resources, and by
// nothing about its own. With false from tell, or the end of the context, no further entry
// is begun; those under way come to their end, as nothing is gained by not knowing it.
func (r *Replays) Run(ctx context.Context, v *backoffice.Visit, entries []Entry, tell func(Line) bool) {
	ctx, stop := context.WithTimeout(ctx, replayBegins)
	defer stop()
	lines := make(chan Line, len(entries))
	go func() {
		defer close(lines)
		r.begin(ctx, v, entries, lines)
	}()
	heard := true
	for line := range lines {
		if heard = heard && tell(line); !heard {
			stop()
		}
	}
}

// turn is an entry's among those about its resource.
type turn struct {
	over    chan struct{}
	decided bool // it has a verdict; set before over is closed
}

func (r *Replays) begin(ctx context.Context, v *backoffice.Visit, entries []Entry, lines chan<- Line) {
	var (
		under sync.WaitGroup
		last  = map[bff.ID]*turn{}
		room  = make(chan struct{}, replayTogether)
	)
	defer under.Wait()
	for i := range entries {
		e := &entries[i]
		before, own := last[e.Command.ID], &turn{over: make(chan struct{})}
		if !e.Command.ID.IsZero() {
			last[e.Command.ID] = own
		}
		under.Go(func() {
			defer close(own.over)
			line := r.inTurn(ctx, v, e, before, room)
			own.decided = line.Verdict != Undecided
			lines <- line
		})
		if before != nil && !isOver(before) {
			continue // it waits for its turn, which the others need not
		}
		patience, enough := context.WithTimeout(context.WithoutCancel(ctx), replayPatience)
		select {
		case <-own.over:
		case <-patience.Done():
		}
		enough()
	}
}

func isOver(t *turn) bool {
	select {
	case <-t.over:
		return true
	default:
		return false
	}
}

// inTurn carries an entry out after the one before it about the same resource. While that one
// has no verdict this one gets none either: a party that may be in the house or not is not
// checked out.
func (r *Replays) inTurn(ctx context.Context, v *backoffice.Visit, e *Entry, before *turn, room chan struct{}) Line {
	if before != nil {
		<-before.over
		if !before.decided {
			return e.pending(PendingHeldUp, replayRetry)
		}
	}
	if e.Alone {
		return Line{Key: e.Key, Verdict: NotPossible, Reason: string(WhyOnlineOnly), Detail: "this needs a line: nothing was done"}
	}
	select {
	case room <- struct{}{}:
		defer func() { <-room }()
	case <-ctx.Done():
	}
	return r.carry(ctx, v, e)
}

// carry has an entry carried out as the live request would be. While another attempt at it is
// under way, such as that of a replay that was cut off, its end is waited for.
func (r *Replays) carry(begin context.Context, v *backoffice.Visit, e *Entry) Line {
	line := e.pending(PendingTime, replayRetry)
	for {
		if begin.Err() != nil {
			return line
		}
		line = r.once(begin, v, e)
		if line.Reason != string(PendingInFlight) {
			return line
		}
		pause, over := context.WithTimeout(begin, time.Duration(line.RetryAfter)*time.Second)
		<-pause.Done()
		over()
	}
}

func (r *Replays) once(begin context.Context, v *backoffice.Visit, e *Entry) Line {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(begin), entryTime)
	defer cancel()
	now := r.cfg.Now()
	again, err := r.cfg.Again(ctx, v, now)
	var answer backoffice.Answer
	if err == nil {
		answer, err = r.cfg.Proxy.Do(ctx, again, e.Command, now)
	}
	line := e.line(&answer.Receipt, err, v.Session.Operator)
	if line.Reason != string(WhyRole) && line.Reason != string(WhyScope) {
		return line
	}
	// The right may have been lost after an attempt of which the desk has not heard.
	known, err := r.cfg.Traces.FindKey(ctx, v.Session.Tenant, v.Session.Operator, e.Key)
	switch {
	case err != nil:
		return e.line(nil, err, v.Session.Operator)
	case known != nil && known.Outcome == string(backoffice.Succeeded):
		return Line{Key: e.Key, Verdict: AlreadyDone, By: known.OperatorID, At: known.At}
	case known != nil && known.Outcome == string(backoffice.Unknown):
		line.Known = known
	}
	return line
}

func (e *Entry) pending(why Pending, retry time.Duration) Line {
	return Line{Key: e.Key, Verdict: Undecided, Reason: string(why), RetryAfter: max(1, int((retry+time.Second-1)/time.Second))}
}

// line is the verdict of how an attempt ended.
func (e *Entry) line(answer *backoffice.Receipt, err error, operator string) Line {
	line := Line{Key: e.Key, Verdict: NotPossible}
	if err == nil {
		line.Verdict, line.Answer = Carried, answer
		return line
	}
	coded, ok := errors.AsType[*bff.Error](err)
	if !ok {
		coded = &bff.Error{Code: bff.CodeOf(err)}
	}
	retry := max(coded.RetryAfter, replayRetry)
	why := map[bff.Code]Why{
		bff.CodeStateConflict: WhyState, bff.CodeResourceNotFound: WhyMissing, bff.CodeRoleDenied: WhyRole, bff.CodePropertyScopeDenied: WhyScope,
		bff.CodeValidationFailed: WhyRefused, bff.CodeStaffIdempotencyReused: WhyKeyReused,
	}[coded.Code]
	switch {
	case errors.Is(err, backoffice.ErrOutcomeUnknown):
		return e.pending(PendingOutcome, retry)
	case coded.Code == bff.CodeStateConflict && coded.Known != nil && coded.Known.At != nil:
		line.Verdict, line.By, line.At = DoneByOther, coded.Known.OperatorID, coded.Known.At
		if line.By == operator {
			line.Verdict = AlreadyDone
		}
	case why != "":
		line.Reason, line.Detail = string(why), coded.Detail
		if line.Detail == "" {
			line.Detail = coded.Code.Info().Title
		}
	case coded.Code == bff.CodeMFARequired || coded.Code == bff.CodeMFAAttestationInvalid:
		line.Verdict, line.Scope, line.ResourceID = NeedsSecondFactor, e.Command.Action.Scope, e.Command.ID.String()
	case coded.Code == bff.CodeStaffIdempotencyExpired:
		line.Verdict, line.Known = Expired, coded.Known
	case coded.Code == bff.CodeStaffIdempotencyInFlight:
		return e.pending(PendingInFlight, max(coded.RetryAfter, time.Second))
	case coded.Code.Info().Status == 401 || coded.Code.Info().Status == 403:
		return e.pending(PendingAccess, retry)
	default:
		return e.pending(PendingUnavailable, retry)
	}
	return line
}
