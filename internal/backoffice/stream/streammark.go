package stream

import (
	"context"

	"melmastoon.ghasi.io/bff"
)

// markTicks is after how many ticks marks are compared. Should its notice have been
// lost, a forced logout ends every stream within that time and a reading: five seconds
// are allowed.
const markTicks = 3

// Marks tell what concerns many streams at once, in one reading for all of them.
type Marks struct {
	// Server names the life of the servers that keep the logs. It is another one after a
	// replica has taken over: entries may be lost that were acknowledged and that no
	// instance has heard of.
	Server string
	// Tenants are, in the order asked for, other texts after each forced logout and
	// suspension.
	Tenants []string
}

// Counts are what the streams of an instance have met.
type Counts struct {
	Full uint64 // streams that found no place
	Late uint64 // streams that ended for a logout of which the notice did not come
}

// Counts returns the counts since the start.
func (ss *Streams) Counts() Counts {
	ss.mu.Lock()
	defer ss.mu.Unlock()
	return ss.counts
}

func (ss *Streams) count(f func(*Counts)) {
	ss.mu.Lock()
	defer ss.mu.Unlock()
	f(&ss.counts)
}

// learn finds out which server's life the first stream is opened in.
func (ss *Streams) learn(ctx context.Context) error {
	ss.mu.Lock()
	known := ss.server != ""
	ss.mu.Unlock()
	if known {
		return nil
	}
	m, err := ss.log.Marks(ctx, nil)
	if err != nil {
		return err
	}
	ss.mu.Lock()
	defer ss.mu.Unlock()
	if ss.server == "" {
		ss.server = m.Server
	}
	return nil
}

// compare has the logs of tenants read in which something has happened, and ends all
// streams if another server has taken over: what it has lost is not known. Where marks
// cannot be read, the next comparison makes up for it.
func (ss *Streams) compare(ctx context.Context) {
	tenants := ss.marked()
	if len(tenants) == 0 {
		return
	}
	m, err := ss.log.Marks(ctx, tenants)
	if err != nil {
		return
	}
	for _, s := range ss.take(tenants, m) {
		s.mu.Lock()
		s.lost()
		s.mu.Unlock()
	}
}

// marked are the tenants with streams, if it is time to compare.
func (ss *Streams) marked() []bff.ID {
	ss.mu.Lock()
	defer ss.mu.Unlock()
	if !ss.due {
		return nil
	}
	ss.due = false
	marks := make(map[bff.ID]string, len(ss.marks))
	var tenants []bff.ID
	for a := range ss.open {
		if _, seen := marks[a.Tenant]; !seen {
			marks[a.Tenant] = ss.marks[a.Tenant]
			tenants = append(tenants, a.Tenant)
		}
	}
	ss.marks = marks
	return tenants
}

// take keeps marks and returns the streams that must end. A tenant without a mark so far
// has its logs read as well: it may have been changed before it was known.
func (ss *Streams) take(tenants []bff.ID, m Marks) (ended []*Stream) {
	ss.mu.Lock()
	defer ss.mu.Unlock()
	over := ss.server != m.Server
	ss.server = m.Server
	changed := map[bff.ID]bool{}
	for i, t := range tenants {
		changed[t] = ss.marks[t] != m.Tenants[i]
		ss.marks[t] = m.Tenants[i]
	}
	for a, s := range ss.open {
		switch {
		case over:
			ended = append(ended, s)
		case changed[a.Tenant]:
			ss.stale[s] = struct{}{}
		}
	}
	return ended
}

// Drain refuses further streams and ends up to n. It returns how many are left.
func (ss *Streams) Drain(n int) int {
	ss.mu.Lock()
	ss.draining = true
	left := max(len(ss.open)-n, 0)
	ss.mu.Unlock()
	ss.Shed(n)
	return left
}

// Shed ends up to n streams; their devices may come again.
func (ss *Streams) Shed(n int) {
	for _, s := range ss.some(n) {
		s.end(drainFrame())
	}
}

func (ss *Streams) some(n int) []*Stream {
	ss.mu.Lock()
	defer ss.mu.Unlock()
	var some []*Stream
	for _, s := range ss.open {
		if len(some) == n {
			break
		}
		some = append(some, s)
	}
	return some
}
