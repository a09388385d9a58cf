// Package fairqueue holds those who wait for one of a few places. A burst may wait as long
// as there is time for it; a queue that keeps growing is overload, and is kept short.
//
// Each key has a line of its own, in the order of arrival, and the lines take turns: a
// caller that sends a thousand requests delays its own, not those of others.
package fairqueue

import (
	"context"
	"errors"
	"time"
)

const (
	// serving is the part of the time left, at least, that is kept for serving.
	serving = 4
	// greed: a line may be this many times as long as what is left of the room. One key
	// alone gets two thirds of the room, and k keys leave 1/(2k+1) of it to newcomers.
	greed = 2
	// Overload is over after calmFor without a refusal, or one with fewer than one
	// in calm.
	calmFor = time.Second
	calm    = 50
	// short is the part of the places that may be waited for in overload. The longer such
	// a queue, the later every answer, and not one more is given.
	short = 8
	// looks is how many lines are looked at for the longest.
	looks = 64
)

// Queue is the waiting room of one resource. It has no lock: its owner's guards it.
type Queue[K comparable] struct {
	most  int // waiters in all
	n     int
	lines map[K]*line[K]
	turn  *line[K] // of a ring

	// A queue begins as a burst. Its length in the first half of what a waiter could
	// spend here is its size. If it grows beyond that, or is full, more arrives than is served.
	began    time.Time
	size     int
	overload bool
	refused  time.Time // the last one
	tally    tally
}

// tally counts the callers since at.
type tally struct {
	at           time.Time
	all, refused int
}

// New returns a queue for at most so many waiters.
func New[K comparable](most int) *Queue[K] {
	return &Queue[K]{most: most, lines: map[K]*line[K]{}}
}

// Len is the number of waiters.
func (q *Queue[K]) Len() int { return q.n }

// QueuedFor is for how long there has been a queue, or overload.
func (q *Queue[K]) QueuedFor(now time.Time) time.Duration {
	if q.n > 0 || q.overload && now.Sub(q.refused) < calmFor {
		return now.Sub(q.began)
	}
	return 0
}

// Passed counts a caller that found a place.
func (q *Queue[K]) Passed() { q.tally.all++ }

// Patience is how long a caller with so much time left can wait and still be served,
// given how long serving usually takes.
func Patience(left, usual time.Duration) time.Duration { return left - max(left/serving, 2*usual) }

// Join adds a caller that can wait for so long; places is how many are served at once. It
// returns nil for one that is better refused now than later.
func (q *Queue[K]) Join(key K, now time.Time, patience time.Duration, places int) *Waiter[K] {
	q.tally.all++
	if q.n == 0 && !q.overload {
		q.began, q.size = now, 0
	}
	l, known := q.lines[key]
	if !known {
		l = &line[K]{key: key}
	}
	few := places / short
	q.judge(now, patience, few, l)
	room := q.most
	if q.overload {
		room = min(room, few)
	}
	if patience <= 0 || l.full(room-q.n) && (known || !q.shorten()) {
		q.Refused(now)
		return nil
	}
	if !known {
		q.lines[key] = l
		q.link(l)
	}
	q.n++
	return l.add()
}

// shorten makes room for a newcomer in overload: the last of the longest line has to
// go. Without it those who send most would find room first.
func (q *Queue[K]) shorten() bool {
	if !q.overload || q.n == 0 {
		return false
	}
	longest := q.longest()
	if longest.n < 2 {
		return false
	}
	q.refuse(longest.last)
	return true
}

// longest is the longest of the lines whose turns come next.
func (q *Queue[K]) longest() *line[K] {
	longest := q.turn
	for l, n := longest.next, 0; l != q.turn && n < looks; l, n = l.next, n+1 {
		if l.n > longest.n {
			longest = l
		}
	}
	return longest
}

func (q *Queue[K]) refuse(w *Waiter[K]) {
	q.remove(w)
	w.state = refused
	close(w.done)
}

// judge tells a burst from overload, and ends overload that is over. In overload few may
// wait; l is the line of one who arrives.
func (q *Queue[K]) judge(now time.Time, patience time.Duration, few int, l *line[K]) {
	if q.overload {
		switch past := now.Sub(q.tally.at); {
		case now.Sub(q.refused) >= calmFor, past >= calmFor && q.tally.refused*calm < q.tally.all:
			q.overload, q.began, q.size = false, now, q.n
		case past >= calmFor:
			q.tally = tally{at: now}
		}
		return
	}
	if now.Sub(q.began) <= patience/2 {
		q.size = max(q.size, q.n)
		return
	}
	if q.n > few && (q.n > q.size+q.size/4 || l.full(q.most-q.n)) {
		q.overloaded(now)
		for q.n > few { // the oldest: the others will be served while they still want it
			q.refuse(q.longest().first)
		}
	}
}

func (q *Queue[K]) overloaded(now time.Time) {
	q.overload, q.refused, q.tally = true, now, tally{at: now}
}

// Refused counts a caller that was not served in time.
func (q *Queue[K]) Refused(now time.Time) {
	q.refused = now
	q.tally.refused++
}

// Call gives a place to the waiter whose turn it is, if there is one.
func (q *Queue[K]) Call(now time.Time) bool {
	if q.n == 0 {
		return false
	}
	w := q.turn.first
	q.turn = q.turn.next
	q.remove(w)
	w.state, w.At = called, now
	close(w.done)
	return true
}

// Leave takes out a waiter that has stopped waiting. It returns true if it was called
// meanwhile and has a place after all. late says that it has left for lack of time.
func (q *Queue[K]) Leave(w *Waiter[K], now time.Time, late bool) (placed bool) {
	switch w.state {
	case called:
		return true
	case refused:
		q.Refused(now)
		return false
	}
	q.remove(w)
	if late {
		q.Refused(now)
		if !q.overload { // those who are here have their own time; newcomers find the queue short
			q.overloaded(now)
		}
	}
	return false
}

func (q *Queue[K]) remove(w *Waiter[K]) {
	q.n--
	l := w.line
	l.remove(w)
	if l.n > 0 {
		return
	}
	delete(q.lines, l.key)
	if q.turn == l {
		q.turn = l.next
	}
	if l.next == l {
		q.turn = nil
	}
	l.prev.next, l.next.prev = l.next, l.prev
}

// link puts a line at the end of the ring: its turn comes after all others'.
func (q *Queue[K]) link(l *line[K]) {
	if q.turn == nil {
		l.next, l.prev, q.turn = l, l, l
		return
	}
	l.next, l.prev = q.turn, q.turn.prev
	l.prev.next, l.next.prev = l, l
}

// line is the waiters of one key.
type line[K comparable] struct {
	key         K
	n           int
	first, last *Waiter[K]
	next, prev  *line[K]
}

// full reports whether the line is long for the room that is left.
func (l *line[K]) full(left int) bool { return l.n >= greed*left }

func (l *line[K]) add() *Waiter[K] {
	w := &Waiter[K]{line: l, done: make(chan struct{}), prev: l.last}
	if l.last != nil {
		l.last.next = w
	} else {
		l.first = w
	}
	l.last = w
	l.n++
	return w
}

func (l *line[K]) remove(w *Waiter[K]) {
	l.n--
	if w.prev != nil {
		w.prev.next = w.next
	} else {
		l.first = w.next
	}
	if w.next != nil {
		w.next.prev = w.prev
	} else {
		l.last = w.prev
	}
}

// Waiter is one who waits.
type Waiter[K comparable] struct {
	// At is when it was given its place.
	At time.Time

	line       *line[K]
	next, prev *Waiter[K]
	state      state
	done       chan struct{} // closed with another state
}

type state int

const (
	waiting state = iota
	called
	refused
)

// Wait waits, without the owner's lock, until something is decided, the caller goes away
// or its time ends, and reports the last. [Queue.Leave] says what came of it.
func (w *Waiter[K]) Wait(ctx context.Context, patience time.Duration) (late bool) {
	timer := time.NewTimer(patience)
	defer timer.Stop()
	select {
	case <-w.done:
	case <-ctx.Done():
		return errors.Is(ctx.Err(), context.DeadlineExceeded)
	case <-timer.C:
		return true
	}
	return false
}
