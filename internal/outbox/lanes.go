package outbox

import "time"

// lane is what order is kept within: a topic and a key, or one row without key.
type lane struct{ topic, key, id string }

func (w *row) lane() lane {
	if w.key == "" {
		return lane{id: w.id}
	}
	return lane{topic: w.topic, key: w.key}
}

// lanes remembers which keys wait for a failed row, and the first row that was
// passed over because of it. When a key is due the cursor goes back there: the
// rows of the other waiting keys are met again and held again.
type lanes struct {
	until map[lane]time.Time
	next  time.Time // the earliest of them
	held  *position
}

func newLanes() lanes { return lanes{until: map[lane]time.Time{}} }

func (l *lanes) blocked(k lane) bool {
	_, ok := l.until[k]
	return ok
}

// block makes a key wait. A key that waits already keeps its time: only its
// first row decides.
func (l *lanes) block(k lane, until time.Time) {
	if l.blocked(k) {
		return
	}
	l.until[k] = until
	if l.next.IsZero() || until.Before(l.next) {
		l.next = until
	}
}

func (l *lanes) hold(p position) {
	if l.held == nil || p.compare(*l.held) < 0 {
		l.held = &p
	}
}

// crowded reports so many failing keys that it can hardly be the rows' fault:
// reading on would only fill the memory.
func (l *lanes) crowded() bool { return len(l.until) >= maxBlocked }

const maxBlocked = 10_000

func (l *lanes) nextDue() (time.Time, bool) { return l.next, !l.next.IsZero() }

func (l *lanes) due(now time.Time) bool { return !l.next.IsZero() && !l.next.After(now) }

// rewind frees the keys that are due and returns where reading must start again.
func (l *lanes) rewind(now time.Time, cursor position, first string) position {
	l.next = time.Time{}
	for k, until := range l.until {
		if !until.After(now) {
			delete(l.until, k)
		} else if l.next.IsZero() || until.Before(l.next) {
			l.next = until
		}
	}
	if l.held != nil && l.held.compare(cursor) <= 0 {
		cursor = position{tx: l.held.tx, id: first}
	}
	l.held = nil
	return cursor
}
