package board

import (
	"context"
	"errors"
	"sync"
	"time"

	"melmastoon.ghasi.io/bff"
	"melmastoon.ghasi.io/bff/internal/backoffice"
)

// TurnMarks lets one instance of all tell of a turn.
type TurnMarks interface {
	// FirstToTell reports whether no other instance has told of the end of a
	// property's day yet.
	FirstToTell(ctx context.Context, at Place) (bool, error)
}

// Turns tells open streams that a property's day is over: what they show is yesterday's
// from then on. It knows the properties that were looked at through this
// instance; a client without a stream sees when the day ends in every answer.
type Turns struct {
	notices backoffice.Notifier
	marks   TurnMarks

	mu      sync.Mutex
	watched map[turnKey]Place
}

type turnKey struct{ tenant, property bff.ID }

// maxTurns bounds the properties that are watched.
const maxTurns = 16 << 10

// NewTurns returns Turns.
func NewTurns(n backoffice.Notifier, m TurnMarks) *Turns {
	return &Turns{notices: n, marks: m, watched: map[turnKey]Place{}}
}

// Watch remembers a property on its day of now.
func (t *Turns) Watch(at Place) {
	key := turnKey{at.Tenant, at.Property}
	t.mu.Lock()
	defer t.mu.Unlock()
	if _, known := t.watched[key]; !known && len(t.watched) < maxTurns {
		t.watched[key] = at
	}
}

// RunOnce tells of the days that are over by now.
func (t *Turns) RunOnce(ctx context.Context, now time.Time) error {
	var errs []error
	for _, at := range t.over(now) {
		first, err := t.marks.FirstToTell(ctx, at)
		if err == nil && first {
			err = t.notices.Notify(ctx, backoffice.Notice{
				Channel: backoffice.ChannelDashboard, Type: backoffice.DashboardChanged, Tenant: at.Tenant, Property: at.Property, At: at.EndsAt.Time,
				Data: backoffice.VoidParts(append([]backoffice.Part{backoffice.PartDashboard}, backoffice.WorkbenchViews()...)),
			})
		}
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

// over takes the places whose day has ended.
func (t *Turns) over(now time.Time) []Place {
	t.mu.Lock()
	defer t.mu.Unlock()
	var out []Place
	for key, at := range t.watched {
		if !now.Before(at.EndsAt.Time) {
			out = append(out, at)
			delete(t.watched, key)
		}
	}
	return out
}
