package consumer

import (
	"context"
	"encoding/binary"
	"math"
	"time"

	"melmastoon.ghasi.io/bff"
)

// Journal takes events that have no transaction of their own.
type Journal interface {
	// Record returns when the events are safe.
	Record(ctx context.Context, events ...bff.Event) error
}

// Fact is the payload of an event: it knows which event it is.
type Fact interface{ Subject() Subject }

// Telemetry decides what leaves the service. It is the one place where consent
// and sampling count: a caller with something to tell asks here and tells what
// comes back.
type Telemetry struct {
	instance string
	rate     func(Subject) float64
	ids      *bff.Sequence
}

// NewTelemetry returns the decider of one process. Rate is asked for every
// event, so that it may change while the process runs; nil means DefaultRate.
func NewTelemetry(instance string, rate func(Subject) float64) *Telemetry {
	if rate == nil {
		rate = DefaultRate
	}
	return &Telemetry{instance: instance, rate: rate, ids: bff.NewSequence(bff.PrefixEvent)}
}

// DefaultRate is the share of events that leave unless a setting says otherwise
// (EVENT_SCHEMAS §3).
func DefaultRate(s Subject) float64 {
	if s == SubjectSearchExecuted || s == SubjectDetailViewed {
		return 0.1
	}
	return 1
}

// Samples reports whether events of a kind about a session may leave at all, for
// those who would have to read the session to ask.
func (t *Telemetry) Samples(session bff.ID, s Subject) bool {
	return s.Retention() == bff.RetentionAudit || sampled(session, t.rate(s))
}

// Announcer makes the events of one request of a guest, for facts that are known
// only where they are written.
type Announcer struct {
	Telemetry *Telemetry
	Session   GuestSession
	Occasion  Occasion
	Now       time.Time
}

// Event wraps a fact; nil when nothing may leave for it.
func (a Announcer) Event(f Fact) (*bff.Event, error) {
	e, leaves, err := a.Telemetry.Event(a.Session, f, a.Occasion, a.Now)
	if err != nil || !leaves {
		return nil, err
	}
	return &e, nil
}

// Event wraps a fact about a session for publishing. It reports false when
// nothing may leave: without the guest's consent no event does, audit class
// included, and of sampled events only a share does.
func (t *Telemetry) Event(s GuestSession, f Fact, o Occasion, now time.Time) (bff.Event, bool, error) {
	if !s.Consent.Telemetry || s.Unread {
		return bff.Event{}, false, nil
	}
	id := t.ids.Next(now)
	rate := 1.0
	if f.Subject().Retention() != bff.RetentionAudit { // an audit trail with holes is none
		rate = min(1, max(0, t.rate(f.Subject())))
	}
	by := s.ID
	if by.IsZero() {
		by = id
	}
	if !sampled(by, rate) {
		return bff.Event{}, false, nil
	}
	o.Instance, o.Session, o.Sampling = t.instance, s.ID, rate
	e, err := NewEvent(id, f.Subject(), f, o, now)
	return e, err == nil, err
}

// Unconsented wraps the one fact that leaves whatever the guest allows, which says
// nothing but the session's id: that the session was cleared.
func (t *Telemetry) Unconsented(session bff.ID, f Fact, now time.Time) (bff.Event, error) {
	return NewEvent(t.ids.Next(now), f.Subject(), f, Occasion{Instance: t.instance, Session: session, Sampling: 1}, now)
}

// sampled draws by the session, not by chance: a retry does not change it, one
// guest's sampled events are all there or all absent, so that they can be
// joined, and a raised rate keeps every session that was sampled before.
func sampled(by bff.ID, rate float64) bool {
	if rate >= 1 || math.IsNaN(rate) {
		return true
	}
	bits := by.Bytes()
	h := Spread(binary.BigEndian.Uint64(bits[:8]) ^ Spread(binary.BigEndian.Uint64(bits[8:])))
	return float64(h>>11)/(1<<53) < rate
}

// Spread is the finalizer of MurmurHash3: whatever ids have in common, it shows in
// no bit. It is the same in every process and every version.
func Spread(h uint64) uint64 {
	h ^= h >> 33
	h *= 0xff51afd7ed558ccd
	h ^= h >> 33
	h *= 0xc4ceb9fe1a85ec53
	return h ^ h>>33
}
