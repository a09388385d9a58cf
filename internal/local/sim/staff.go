package sim

import (
	"encoding/binary"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/oklog/ulid/v2"

	"melmastoon.ghasi.io/bff"
)

// The services behind the staff console keep no tables: a reservation, a task
// or an alert is a function of house, day and number, and its id holds the
// three. Only what staff did is remembered.

// Prefixes of the neighbours' own things.
const (
	prefixTask       bff.Prefix = "hkt"
	prefixWorkOrder  bff.Prefix = "wko"
	prefixCredential bff.Prefix = "lck"
	prefixSuggestion bff.Prefix = "sug"
	prefixAlert      bff.Prefix = "alr"
	prefixEntry      bff.Prefix = "ent"
)

// ref is what an id of the staff services stands for.
type ref struct {
	house *property
	day   bff.Date
	n     int
}

// refID writes a ref: the day in the ULID's time, house and number in its
// first random bytes, and a checksum of the seed in the rest, so that a
// guessed id is not found.
func (s *Sim) refID(p bff.Prefix, r ref) string {
	var u ulid.ULID
	if err := u.SetTime(ulid.Timestamp(r.day.Time())); err != nil {
		panic(err) // a day of this century always fits a ULID
	}
	binary.BigEndian.PutUint16(u[6:], uint16(r.house.index)) //nolint:gosec // fewer houses than 65536
	u[8] = byte(r.n)                                         //nolint:gosec // fewer than 256 of a kind a day
	var sum [8]byte
	binary.BigEndian.PutUint64(sum[:], mix(s.data.seed, hashString(string(p)), r.house.seed, uint64(r.day), uint64(r.n))) //nolint:gosec // not negative
	copy(u[9:], sum[:])
	return bff.IDFromBytes(p, u).String()
}

// findRef reads an id of the path back, or reports that there is no such thing.
func (s *Sim) findRef(c *call, p bff.Prefix, name string) (ref, string, error) {
	id, err := bff.ParseID(p, c.PathValue(name))
	if err != nil {
		return ref{}, "", refused(bff.FieldErrors{{Field: name, Code: bff.FieldFormat}})
	}
	u := id.Bytes()
	at := int(binary.BigEndian.Uint16(u[6:]))
	if at >= len(s.data.byIndex) {
		return ref{}, "", notFound(name)
	}
	r := ref{house: s.data.byIndex[at], day: bff.DateOf(id.Time()), n: int(u[8])}
	if s.refID(p, r) != id.String() {
		return ref{}, "", notFound(name)
	}
	return r, id.String(), s.sameTenant(c, r.house.tenant)
}

// sameTenant hides what is another tenant's from a caller that says which
// tenant it asks for.
func (s *Sim) sameTenant(c *call, t *tenant) error {
	if asked := c.Header.Get("X-Tenant-Id"); asked != "" && asked != t.id {
		return notFound("resource")
	}
	return nil
}

// house finds the property of the path, if it is the caller's.
func (s *Sim) house(c *call) (*property, error) {
	p, err := s.property(c)
	if err != nil {
		return nil, err
	}
	return p, s.sameTenant(c, p.tenant)
}

// day reads the date of the query, or today.
func (c *call) day(bad *bff.FieldErrors) bff.Date {
	if c.URL.Query().Get("date") == "" {
		return bff.DateOf(c.now)
	}
	d := c.date(bad, "date")
	c.nearToday(bad, "date", d)
	return d
}

// nearToday refuses a day that no hotel's books reach.
func (c *call) nearToday(bad *bff.FieldErrors, name string, d bff.Date) {
	const years = 3 * 366
	today := bff.DateOf(c.now)
	bad.Check(d >= today-years && d <= today+years, name, bff.FieldRange)
}

// houseDay reads what most of these routes ask for.
func (s *Sim) houseDay(c *call) (*property, bff.Date, error) {
	p, err := s.house(c)
	if err != nil {
		return nil, 0, err
	}
	var bad bff.FieldErrors
	day := c.day(&bad)
	return p, day, refused(bad)
}

// staffState is what staff did.
type staffState struct {
	mu      sync.Mutex
	status  map[string]progress // by id of a reservation, task, work order, key, suggestion, alert
	folios  map[string]int64    // by folio: minor units charged on top
	orders  map[string][]WorkOrder
	cursors map[string]cursor
	answers map[string]*answer // by idempotency key
	keys    []string           // of answers, oldest first
}

// progress is where a thing stands and how often it moved.
type progress struct {
	status  string
	version int
}

func (st *staffState) init() {
	st.status = map[string]progress{}
	st.folios = map[string]int64{}
	st.orders = map[string][]WorkOrder{}
	st.cursors = map[string]cursor{}
	st.answers = map[string]*answer{}
}

// stands returns where a thing stands: where staff moved it, or where it began.
func (st *staffState) stands(id, began string) progress {
	st.mu.Lock()
	defer st.mu.Unlock()
	if p, ok := st.status[id]; ok {
		return p
	}
	return progress{status: began, version: 1}
}

// move takes a thing from one of the allowed states to another.
func (st *staffState) move(id, began, to string, from ...string) (progress, error) {
	st.mu.Lock()
	defer st.mu.Unlock()
	p, ok := st.status[id]
	if !ok {
		p = progress{status: began, version: 1}
	}
	if !slices.Contains(from, p.status) {
		return p, &failure{status: http.StatusConflict, code: "INVALID_STATE", message: "is " + p.status + ", not " + strings.Join(from, " or ")}
	}
	p = progress{status: to, version: p.version + 1}
	bound(st.status)
	st.status[id] = p
	return p, nil
}

// maxRemembered bounds each of the maps above. A load test that passes it
// starts over with what the data set says.
const maxRemembered = 100_000

func bound[V any](m map[string]V) {
	if len(m) >= maxRemembered {
		clear(m)
	}
}

// answer is what the first call with an idempotency key was told; done closes
// when it is known.
type answer struct {
	done chan struct{}
	out  any
}

const (
	maxKey     = 128
	maxAnswers = 20_000
)

// mutation mounts a route that changes something. An Idempotency-Key seen
// before is answered as before: the platform's services promise that.
func (s *Sim) mutation(upstream, route string, h func(c *call) (any, error)) {
	s.handle(upstream, route, func(c *call) (any, error) {
		key := c.Header.Get("Idempotency-Key")
		if len(key) > maxKey {
			return nil, refused(bff.FieldErrors{{Field: "Idempotency-Key", Code: bff.FieldLength}})
		}
		if key == "" {
			return h(c)
		}
		key = upstream + " " + c.URL.Path + " " + key
		return s.staff.once(c, key, h)
	})
}

// once runs h for the first call with a key. Those that come meanwhile wait
// for its answer; a failure is not kept, so one of them tries again.
func (st *staffState) once(c *call, key string, h func(c *call) (any, error)) (any, error) {
	for {
		st.mu.Lock()
		a, seen := st.answers[key]
		if !seen {
			a = &answer{done: make(chan struct{})}
			st.answers[key] = a
		}
		st.mu.Unlock()
		if !seen {
			out, err := h(c)
			st.mu.Lock()
			defer st.mu.Unlock()
			defer close(a.done)
			if err != nil {
				delete(st.answers, key)
				return nil, err
			}
			a.out = out
			if st.keys = append(st.keys, key); len(st.keys) > maxAnswers {
				delete(st.answers, st.keys[0])
				st.keys = st.keys[1:]
			}
			return out, nil
		}
		select {
		case <-a.done:
			if a.out != nil {
				return a.out, nil
			}
		case <-c.Context().Done():
			return nil, c.Context().Err()
		}
	}
}

// page is the form of every list of these services.
type page[T any] struct {
	PropertyID string        `json:"propertyId,omitempty"`
	TenantID   string        `json:"tenantId,omitempty"`
	Date       *bff.Date     `json:"date,omitempty"`
	AsOf       bff.Timestamp `json:"asOf"`
	Items      []T           `json:"items"`
	Total      int           `json:"total"`
}

func pageOf[T any](p *property, day bff.Date, now time.Time, items []T) page[T] {
	if items == nil {
		items = []T{}
	}
	return page[T]{PropertyID: p.id, Date: &day, AsOf: bff.At(now), Items: items, Total: len(items)}
}

func (s *Sim) staffRoutes() {
	s.stayRoutes()
	s.taskRoutes()
	s.inboxRoutes()
}
