package sim

import (
	"encoding/binary"
	"net/http"
	"slices"
	"strconv"
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
	prefixTask        bff.Prefix = "hkt"
	prefixWorkOrder   bff.Prefix = "wko"
	prefixCredential  bff.Prefix = "lck"
	prefixSuggestion  bff.Prefix = "sug"
	prefixAlert       bff.Prefix = "alr"
	prefixEntry       bff.Prefix = "ent"
	prefixLockFailure bff.Prefix = "lkf"
	prefixNote        bff.Prefix = "nte"
)

// dialect is how a service behind the staff console is addressed. They were
// built by different teams, and it shows.
type dialect struct {
	tenant string // header that names the tenant
	key    string // header of idempotency keys
	uuid   bool   // ids are UUIDs of the same bits, in paths, headers, bodies and events
}

func dialectOf(upstream string) dialect {
	switch upstream {
	case "billing":
		return dialect{tenant: "X-Billing-Tenant", key: "X-Idempotency-Key", uuid: true}
	case "maintenance":
		return dialect{tenant: "X-Tenant", key: "Idempotency-Key", uuid: true}
	case "lock":
		return dialect{tenant: "X-Lock-Tenant", key: "X-Request-Key", uuid: true}
	case "analytics":
		return dialect{tenant: "X-Org-Id", uuid: true}
	case "sync":
		return dialect{tenant: "X-Tenant-Id", key: "X-Idempotency-Key", uuid: true}
	}
	return dialect{tenant: "X-Tenant-Id", key: "Idempotency-Key"}
}

// parse reads an id as the service writes it.
func (d dialect) parse(p bff.Prefix, s string) (bff.ID, error) {
	if d.uuid {
		return bff.IDFromUUID(p, s)
	}
	return bff.ParseID(p, s)
}

// id writes a prefixed id as the service does.
func (d dialect) id(s string) string {
	prefix, _, ok := strings.Cut(s, "_")
	if !ok || !d.uuid {
		return s
	}
	return bff.MustParseID(bff.Prefix(prefix), s).UUID()
}

// takes reports whether an idempotency key has the service's form: a UUID or a ULID.
func (d dialect) takes(key string) bool {
	if d.uuid {
		_, err := bff.IDFromUUID(bff.PrefixRequest, key)
		return err == nil
	}
	_, err := ulid.ParseStrict(key)
	return err == nil
}

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

// readRef reads an id back, or reports that it is none of the data set's.
func (s *Sim) readRef(id bff.ID) (ref, bool) {
	u := id.Bytes()
	at := int(binary.BigEndian.Uint16(u[6:]))
	if at >= len(s.data.byIndex) {
		return ref{}, false
	}
	r := ref{house: s.data.byIndex[at], day: bff.DateOf(id.Time()), n: int(u[8])}
	return r, s.refID(id.Prefix(), r) == id.String()
}

// pathID reads an id of the path.
func (c *call) pathID(p bff.Prefix, name string) (bff.ID, error) {
	id, err := c.speaks.parse(p, c.PathValue(name))
	if err != nil {
		return bff.ID{}, refused(bff.FieldErrors{{Field: name, Code: bff.FieldFormat}})
	}
	return id, nil
}

// findRef finds what an id of the path stands for, if it is the caller's.
func (s *Sim) findRef(c *call, p bff.Prefix, name string) (ref, error) {
	id, err := c.pathID(p, name)
	if err != nil {
		return ref{}, err
	}
	r, ok := s.readRef(id)
	if !ok {
		return ref{}, notFound(name)
	}
	return r, c.ofTenant(r.house.tenant)
}

// ofTenant hides what is another tenant's. Every call says which tenant it asks
// for; /_sim is above tenants.
func (c *call) ofTenant(t *tenant) error {
	if c.above {
		return nil
	}
	asked := c.Header.Get(c.speaks.tenant)
	if asked == "" {
		return refused(bff.FieldErrors{{Field: c.speaks.tenant, Code: bff.FieldRequired}})
	}
	if id, err := c.speaks.parse(bff.PrefixTenant, asked); err != nil || id.String() != t.id {
		return notFound("resource")
	}
	return nil
}

// house finds the property of the path, if it is the caller's.
func (s *Sim) house(c *call) (*property, error) {
	id, err := c.pathID(bff.PrefixProperty, "propertyId")
	if err != nil {
		return nil, err
	}
	p := s.data.propertyByID[id.String()]
	if p == nil {
		return nil, notFound("property")
	}
	if err := c.ofTenant(p.tenant); err != nil {
		return nil, err
	}
	s.asked(c.now, p)
	return p, nil
}

// nearDay refuses a day that no hotel's books reach.
func nearDay(bad *bff.FieldErrors, name string, d, today bff.Date) {
	const years = 3 * 366
	bad.Check(d >= today-years && d <= today+years, name, bff.FieldRange)
}

// houseDay reads what most of these routes ask for: a house, and a date or its today.
func (s *Sim) houseDay(c *call) (*property, bff.Date, error) {
	p, err := s.house(c)
	if err != nil {
		return nil, 0, err
	}
	today := dateOf(s.houseTime(p, c.now))
	if c.URL.Query().Get("date") == "" {
		return p, today, nil
	}
	var bad bff.FieldErrors
	day := c.date(&bad, "date")
	nearDay(&bad, "date", day, today)
	return p, day, refused(bad)
}

// houseTime is what the clocks in a house show.
func (s *Sim) houseTime(p *property, now time.Time) time.Time {
	at := now.Add(s.cfg.HousesAhead).In(p.country.zone)
	if s.cfg.HouseTime == 0 {
		return at
	}
	return p.begin(dateOf(at)).Add(s.cfg.HouseTime)
}

// dateOf is the day that a house's clock shows.
func dateOf(at time.Time) bff.Date {
	y, m, d := at.Date()
	return bff.DateOf(time.Date(y, m, d, 0, 0, 0, 0, time.UTC))
}

// begin is midnight in the house.
func (p *property) begin(day bff.Date) time.Time {
	y, m, d := day.Time().Date()
	return time.Date(y, m, d, 0, 0, 0, 0, p.country.zone)
}

// staffState is what staff did.
type staffState struct {
	mu      sync.Mutex
	status  map[string]progress // by id of a reservation, task, work order, key, suggestion, alert; by house and number of a room
	notes   map[string]string   // by reservation
	outs    map[string]bff.Date // by reservation: the day of departure that was agreed later
	folios  map[string]int64    // by folio: minor units charged on top
	drawers map[string]int64    // by house: minor units put into today's cash drawer on top
	tasks   map[string][]Task   // by house: what was added to the plan
	orders  map[string][]WorkOrder
	alerts  map[string][]Alert
	advice  map[string][]Suggestion
	locks   map[string][]LockFailure
	// Of lock-integration, by tenant and key, and by reservation.
	requests map[string]*LockRequest
	outcomes map[string]LockOutcome
	cursors  map[string]cursor
	asked    map[*property]time.Time // when a house was last asked about
	weeks    map[week][]Reservation  // as they are planned
	answers  map[string]*answer      // by idempotency key
	keys     []string                // of answers, oldest first
	carried  map[string]int          // by path: how often it was carried out, whatever the key
	book     []Execution             // the same in order
}

// progress is where a thing stands and how often it moved.
type progress struct {
	status  string
	version int
	at      time.Time // of the last move
}

func (st *staffState) init() {
	st.status = map[string]progress{}
	st.notes = map[string]string{}
	st.outs = map[string]bff.Date{}
	st.weeks = map[week][]Reservation{}
	st.folios = map[string]int64{}
	st.drawers = map[string]int64{}
	st.tasks = map[string][]Task{}
	st.orders = map[string][]WorkOrder{}
	st.alerts = map[string][]Alert{}
	st.advice = map[string][]Suggestion{}
	st.locks = map[string][]LockFailure{}
	st.requests, st.outcomes = map[string]*LockRequest{}, map[string]LockOutcome{}
	st.cursors = map[string]cursor{}
	st.asked = map[*property]time.Time{}
	st.answers, st.carried = map[string]*answer{}, map[string]int{}
}

// moved returns where staff moved a thing, if they did.
func (st *staffState) moved(id string) (progress, bool) {
	st.mu.Lock()
	defer st.mu.Unlock()
	p, ok := st.status[id]
	return p, ok
}

// stands returns where a thing stands: where staff moved it, or where it began.
func (st *staffState) stands(id, began string) progress {
	if p, ok := st.moved(id); ok {
		return p
	}
	return progress{status: began, version: 1}
}

// move takes a thing that stands somewhere from one of the allowed states to
// another.
func (st *staffState) move(id string, stands progress, to string, at time.Time, from ...string) (progress, error) {
	st.mu.Lock()
	defer st.mu.Unlock()
	if p, ok := st.status[id]; ok && p.version > stands.version { // it was moved meanwhile
		stands = p
	}
	if !slices.Contains(from, stands.status) {
		return stands, &failure{status: http.StatusConflict, code: "INVALID_STATE", message: "is " + stands.status + ", not " + strings.Join(from, " or ")}
	}
	if to == stands.status { // changed, not moved
		at = stands.at
	}
	p := progress{status: to, version: stands.version + 1, at: at}
	bound(st.status)
	st.status[id] = p
	return p, nil
}

// maxRemembered bounds each of the maps above. A load test that passes it
// starts over with what the data set says.
const maxRemembered = 100_000

func bound[K comparable, V any](m map[K]V) {
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

const maxAnswers = 20_000

// mutation mounts a route that changes something. An Idempotency-Key seen
// before is answered as before: the platform's services promise that.
func (s *Sim) mutation(upstream, route string, h func(c *call) (any, error)) {
	s.handle(upstream, route, func(c *call) (any, error) {
		h := s.staff.counted(h, upstream)
		key := c.Header.Get(c.speaks.key)
		if key == "" {
			return h(c)
		}
		if !c.speaks.takes(key) {
			return nil, refused(bff.FieldErrors{{Field: c.speaks.key, Code: bff.FieldFormat}})
		}
		key = upstream + " " + c.URL.Path + " " + key
		return s.staff.once(c, key, h)
	})
}

// counted enters in the book what h has carried out.
func (st *staffState) counted(h func(c *call) (any, error), upstream string) func(c *call) (any, error) {
	return func(c *call) (any, error) {
		out, err := h(c)
		if err == nil {
			st.mu.Lock()
			defer st.mu.Unlock()
			bound(st.carried)
			st.carried[c.URL.Path]++
			st.enter(c, upstream)
		}
		return out, err
	}
}

// executions is how often what a path stands for was carried out.
func (st *staffState) executions(path string) int {
	st.mu.Lock()
	defer st.mu.Unlock()
	return st.carried[path]
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

// page is the form of every list of these services. Counts are of all there
// is, whatever was filtered or is on another page.
type page[T any] struct {
	PropertyID string         `json:"propertyId,omitempty"`
	TenantID   string         `json:"tenantId,omitempty"`
	Date       *bff.Date      `json:"date,omitempty"`
	AsOf       bff.Timestamp  `json:"asOf"`
	Items      []T            `json:"items"`
	Total      int            `json:"total"`
	NextCursor string         `json:"nextCursor,omitempty"`
	Counts     map[string]int `json:"counts,omitempty"`
}

const (
	pageItems    = 100
	maxPageItems = 200
)

// pageOf cuts the page that the caller asks for, by the house's own clock.
func pageOf[T any](s *Sim, c *call, p *property, day bff.Date, items []T) (page[T], error) {
	out := page[T]{Date: &day, AsOf: bff.At(c.now), Items: []T{}, Total: len(items)}
	if p != nil {
		out.PropertyID, out.AsOf = c.speaks.id(p.id), bff.At(s.houseTime(p, c.now))
	}
	var bad bff.FieldErrors
	limit := c.number(&bad, "limit", pageItems, 1, maxPageItems)
	from := 0
	if cursor := c.URL.Query().Get("cursor"); cursor != "" {
		n, err := strconv.ParseUint(strings.TrimPrefix(cursor, "c"), 36, 31)
		bad.Check(err == nil && cursor[0] == 'c', "cursor", bff.FieldFormat)
		from = int(n) //nolint:gosec // 31 bits
	}
	if err := refused(bad); err != nil {
		return out, err
	}
	from = min(from, len(items))
	to := min(from+limit, len(items))
	out.Items = append(out.Items, items[from:to]...)
	if to < len(items) {
		out.NextCursor = "c" + strconv.FormatInt(int64(to), 36)
	}
	return out, nil
}

// wanted reports whether a thing with this status is asked for. Without a
// status in the query the default counts; "all" is every one.
func (c *call) wanted(status string, usual ...string) bool {
	ask := c.URL.Query().Get("status")
	switch ask {
	case "all":
		return true
	case "":
		return len(usual) == 0 || slices.Contains(usual, status)
	}
	return slices.Contains(strings.Split(ask, ","), status)
}

func (s *Sim) staffRoutes() {
	s.stayRoutes()
	s.roomRoutes()
	s.folioRoutes()
	s.lockRoutes()
	s.taskRoutes()
	s.orderRoutes()
	s.inboxRoutes()
	s.figureRoutes()
	s.syncRoutes()
}
