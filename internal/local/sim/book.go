package sim

import (
	"slices"

	"melmastoon.ghasi.io/bff"
)

// Execution is something that a service has carried out for an operator: a line of the
// house's book.
type Execution struct {
	At      bff.Timestamp `json:"at"`
	Service string        `json:"service"`
	Path    string        `json:"path"` // with ids as the service writes them
	Key     string        `json:"key"`  // a ULID; empty without one
}

// maxBook bounds the book: it has what was carried out last.
const maxBook = 10_000

// enter adds a line to the book. The caller holds the lock.
func (st *staffState) enter(c *call, service string) {
	key := c.Header.Get(c.speaks.key)
	if id, err := c.speaks.parse(bff.PrefixRequest, key); err == nil && c.speaks.uuid {
		key = id.ULID()
	}
	st.book = append(st.book, Execution{bff.At(c.now), service, c.URL.Path, key})
	if len(st.book) > 2*maxBook {
		st.book = slices.Clone(st.book[maxBook:])
	}
}

// Book lists what services have carried out for operators, in order.
func (s *Sim) Book() []Execution {
	s.staff.mu.Lock()
	defer s.staff.mu.Unlock()
	return slices.Clone(s.staff.book[max(0, len(s.staff.book)-maxBook):])
}
