package consumerhttp

import (
	"context"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"time"

	"melmastoon.ghasi.io/bff"
	"melmastoon.ghasi.io/bff/internal/cache"
	"melmastoon.ghasi.io/bff/internal/consumer"
	"melmastoon.ghasi.io/bff/internal/consumer/consumerhttp/views"
	"melmastoon.ghasi.io/bff/internal/consumer/discovery"
	"melmastoon.ghasi.io/bff/internal/consumer/hotel"
	"melmastoon.ghasi.io/bff/internal/redis"
	"melmastoon.ghasi.io/bff/internal/web"
)

// Answers are the finished answers that guests share: bytes, compressed once,
// with nothing of a session in them.
type Answers struct {
	list, pins, detail, availability, facets, suggest *cache.Cache

	store *cache.Store
	keys  redis.Keys
}

// Lifetimes of DATA_MODEL §5. Whatever they say, an answer with prices is fresh
// only as long as its prices are.
const (
	listFresh         = 60 * time.Second
	detailFresh       = 5 * time.Minute
	availabilityFresh = 60 * time.Second
	facetsFresh       = time.Hour
	suggestFresh      = 5 * time.Minute

	// partialFresh is how long an answer with something missing is kept: long
	// enough to spare a struggling upstream, short enough to heal soon.
	partialFresh = 3 * time.Second
	// answerGrace is how long readers get an old answer at once while it is
	// being renewed; after that they wait for the new one.
	answerGrace = 5 * time.Second
	// answerStale is how long the last good answer stands in for a dead upstream.
	answerStale = 10 * time.Minute
	// absentFor is how long "there is no such hotel" is believed, and hiddenFor
	// when it is there and its tenant is suspended, which may end at any moment.
	absentFor = 10 * time.Second
	hiddenFor = time.Second
)

// edgeControl lets a CDN hold what is the same for everybody.
const edgeControl = "public, max-age=15, s-maxage=300, stale-while-revalidate=60"

// unstableControl is for those answers while something in them is missing or old:
// a CDN may spare us the crowd, and must not show it for longer than we do.
var unstableControl = []string{"public, max-age=3, s-maxage=3"}

// NewAnswers opens the caches.
func NewAnswers(store *cache.Store, keys redis.Keys) (*Answers, error) {
	var errs []error
	open := func(name string, fresh time.Duration, bytes int64, control string) *cache.Cache {
		c, err := cache.New(store, cache.Config{
			Name: name, Shared: true, MaxBytes: bytes, CacheControl: control, Vary: "Accept-Language, X-Currency",
			TTL: func() cache.TTL { return cache.TTL{Fresh: fresh, Grace: answerGrace, Stale: answerStale} },
		})
		errs = append(errs, err)
		return c
	}
	const private = "private, no-store"
	a := &Answers{
		store: store, keys: keys,
		list:         open("search-list", listFresh, 128<<20, private),
		pins:         open("search-map", listFresh, 64<<20, private),
		detail:       open("detail", detailFresh, 128<<20, edgeControl),
		availability: open("availability", availabilityFresh, 16<<20, private),
		facets:       open("facets", facetsFresh, 8<<20, edgeControl),
		suggest:      open("suggest", suggestFresh, 8<<20, private),
	}
	return a, errors.Join(errs...)
}

// Invalidate takes answers with one of the tags out of service, everywhere.
func (a *Answers) Invalidate(ctx context.Context, tags ...string) error {
	return a.store.Invalidate(ctx, tags...)
}

// view is an answer that can say that it is old.
type view interface {
	MarkStale(age time.Duration, now time.Time)
}

// composed is a fresh answer with what decides how it is kept.
type composed struct {
	view    view
	tags    []string
	partial bool // something is missing or old
	stale   bool // made of an old answer of an upstream that fails
	shed    discovery.Rung
	expires time.Time // of its prices; zero = no prices
	total   int       // hotels that match, for telemetry
	order   consumer.Hash
	tenant  bff.ID // whose hotel it shows
}

// outcome is how a request was answered.
type outcome struct {
	fromCache bool
	total     int
	order     consumer.Hash // of the window that the page was cut from
	tenant    bff.ID
	partial   bool           // something is missing or old
	shed      discovery.Rung // at which something was left out; RungNone when nothing was
}

// meta of an entry: the order, the tenant, the total and, for an answer that is
// not whole, the rung at which something was shed.
func (c composed) meta() []byte {
	tenant := c.tenant.Bytes()
	m := binary.AppendVarint(append(c.order[:], tenant[:]...), int64(c.total))
	if c.partial {
		m = append(m, byte(c.shed)) //nolint:gosec // a few rungs
	}
	return m
}

func outcomeOf(e *cache.Entry, st cache.Status) outcome {
	out := outcome{fromCache: st.Result == cache.Hit || st.Result == cache.Stale}
	const order, tenant = len(out.order), 16
	if m := e.Meta(); len(m) > order+tenant {
		copy(out.order[:], m)
		out.tenant = bff.IDFromBytes(bff.PrefixTenant, [tenant]byte(m[order:order+tenant]))
		total, n := binary.Varint(m[order+tenant:]) // ours; 0 is the worst
		out.total = int(total)
		if rest := m[order+tenant+max(n, 0):]; len(rest) > 0 {
			out.partial, out.shed = true, discovery.Rung(rest[0])
		}
	}
	return out
}

// shared is an answer that guests share: the cache that keeps it, its key in there,
// and how it is composed when the cache has none.
type shared struct {
	cache   *cache.Cache
	key     string
	public  bool        // a CDN may keep it, too
	blank   func() view // an empty view of its kind
	compose func(context.Context) (composed, error)
}

// found is a shared answer with the entry that holds it.
type found struct {
	outcome
	entry  *cache.Entry
	status cache.Status
	shared
}

// answerer answers with what guests share.
type answerer struct {
	suspended *consumer.SuspendedTenants
	now       func() time.Time
}

// serve answers from a cache, and composes the answer when the cache has none.
func (a *answerer) serve(w http.ResponseWriter, r *http.Request, s shared) (outcome, error) {
	f, err := a.find(r, s)
	if err != nil {
		return outcome{}, err
	}
	return f.outcome, a.write(w, r, f)
}

// find returns the answer without writing it.
func (a *answerer) find(r *http.Request, s shared) (found, error) {
	entry, status, err := a.entry(r, s)
	if err != nil {
		return found{}, uncached(err)
	}
	return found{outcomeOf(entry, status), entry, status, s}, nil
}

// entry returns the entry to answer with. Visits that may cost no upstream
// anything get what is there or on its way, or their refusal.
func (a *answerer) entry(r *http.Request, s shared) (*cache.Entry, cache.Status, error) {
	v := visitOf(r)
	if v.CacheOnly {
		entry, status, err := s.cache.Kept(r.Context(), s.key)
		if errors.Is(err, cache.ErrNotKept) || err == nil && a.showsSuspended(entry) {
			return nil, status, v.Refusal
		}
		return entry, status, err
	}
	fill := func(ctx context.Context) (cache.Fill, error) {
		v.Spend()
		return a.fill(ctx, s.compose)
	}
	entry, status, err := s.cache.Get(r.Context(), s.key, fill)
	if err == nil && a.showsSuspended(entry) {
		// The suspension is known here before its invalidation arrives: compose anew.
		entry, status, err = s.cache.Fetch(r.Context(), fill)
	}
	return entry, status, err
}

// write answers with what was found. The last good body stands in for a dead
// upstream, and says so in it: a price older than its life is never shown as
// current.
func (a *answerer) write(w http.ResponseWriter, r *http.Request, f found) error {
	h := w.Header()
	announce(h, f.shed)
	old := f.status.Result == cache.Stale && !f.status.OfStale
	if f.public && (f.partial || old) {
		h["Cache-Control"] = unstableControl
	}
	if !old {
		f.entry.Serve(w, r, f.status)
		return nil
	}
	v := f.blank()
	if err := json.Unmarshal(f.entry.Body(), v); err != nil {
		return fmt.Errorf("decode stale answer: %w", err)
	}
	v.MarkStale(f.entry.Age(), a.now())
	setVary(h)
	h.Set("X-Cache", f.status.Result.String())
	h.Set("Cache-Status", f.entry.CacheStatus(f.status))
	h.Set("Age", strconv.Itoa(int(f.entry.Age()/time.Second)))
	return web.WriteJSON(w, http.StatusOK, v)
}

func (a *answerer) fill(ctx context.Context, compose func(context.Context) (composed, error)) (cache.Fill, error) {
	out, err := compose(ctx)
	switch {
	case errors.Is(err, discovery.ErrHidden):
		return cache.Fill{}, cache.Negative(err, hiddenFor)
	case bff.CodeOf(err) == bff.CodeResourceNotFound:
		return cache.Fill{}, cache.Negative(err, absentFor)
	}
	if err != nil {
		return cache.Fill{}, err
	}
	body, err := views.Encode(out.view)
	if err != nil {
		return cache.Fill{}, fmt.Errorf("encode answer: %w", err)
	}
	f := cache.Fill{Body: body, Tags: out.tags, Meta: out.meta(), Stale: out.stale}
	left := detailFresh // of its prices' life
	if !out.expires.IsZero() {
		left = max(out.expires.Sub(a.now()), time.Second)
	}
	switch {
	case out.partial:
		f.TTL = cache.TTL{Fresh: min(partialFresh, left), Stale: answerStale}
	case left < detailFresh:
		f.TTL = cache.TTL{Fresh: left, Grace: answerGrace, Stale: answerStale}
	}
	return f, nil
}

// showsSuspended reports whether an answer shows a tenant that may no longer
// be shown.
func (a *answerer) showsSuspended(e *cache.Entry) bool {
	if a.suspended.Empty() {
		return false
	}
	for _, tag := range e.Tags() {
		if len(tag) > 7 && tag[:7] == "tenant:" {
			if id, err := bff.ParseID(bff.PrefixTenant, tag[7:]); err == nil && a.suspended.Has(id) {
				return true
			}
		}
	}
	return false
}

// announce says at which rung of the ladder something was shed.
func announce(h http.Header, rung discovery.Rung) {
	if rung > discovery.RungNone && h["X-Brownout"] == nil {
		h["X-Brownout"] = []string{rung.String()}
	}
}

// FindRate returns the price on the hotel's page for the same stay, if any
// instance keeps one.
func (a *Answers) FindRate(ctx context.Context, req hotel.PriceRequest) (rate hotel.RateSnapshot, ok bool) {
	if len(req.Properties) != 1 {
		return rate, false
	}
	entry, _, err := a.detail.Kept(ctx, a.detailKey(discovery.DetailRequest{
		PropertyID: req.Properties[0].PropertyID, Locale: req.Locale, Currency: req.Currency,
		Stay: discovery.Stay{Dates: req.Dates, Occupancy: req.Occupancy},
	}))
	if err != nil {
		return rate, false
	}
	var page struct {
		CheapestRateSnapshot *hotel.RateSnapshot `json:"cheapestRateSnapshot"`
	}
	if err := json.Unmarshal(entry.Body(), &page); err != nil || page.CheapestRateSnapshot == nil {
		return rate, false
	}
	return *page.CheapestRateSnapshot, true
}

// detailKey names a hotel's page in the cache.
func (a *Answers) detailKey(p discovery.DetailRequest) string {
	return a.keys.Key("cache", "detail", p.PropertyID.String(), string(p.Locale), string(p.Currency), stayKey(p.Stay))
}

// retryBusy is when a shed request may be tried again.
const retryBusy = time.Second

// uncached gives the cache's own refusals a code.
func uncached(err error) error {
	if errors.Is(err, cache.ErrBusy) || errors.Is(err, cache.ErrClosed) {
		return &bff.Error{Code: bff.CodeServiceUnavailable, RetryAfter: retryBusy, Err: err}
	}
	if _, coded := errors.AsType[*bff.Error](err); !coded && errors.Is(err, context.DeadlineExceeded) {
		return &bff.Error{Code: bff.CodeUpstreamBudgetExceeded, RetryAfter: retryBusy, Err: err}
	}
	return err
}

func hexOf(h consumer.Hash) string { return hex.EncodeToString(h[:]) }

// varies is the Vary of answers that are not served by their cache.
var varies = []string{"Accept-Language, X-Currency, Accept-Encoding"}

// setVary adds varies to what the server has said already.
func setVary(h http.Header) {
	if said := h["Vary"]; said != nil {
		h["Vary"] = append(slices.Clip(said), varies...)
		return
	}
	h["Vary"] = varies
}
