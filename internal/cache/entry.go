package cache

import (
	"crypto/sha256"
	"encoding/hex"
	"math/rand/v2"
	"strconv"
	"sync/atomic"
	"time"
)

// TTL says how long an entry lives, from the moment its fill began.
type TTL struct {
	// Fresh is how long it is served as a hit.
	Fresh time.Duration
	// Grace is how long after that readers get it, marked stale, at once, while
	// one refresh is under way. 0 has them wait for the refresh.
	Grace time.Duration
	// Stale is how long after Fresh it may stand in for a fill that failed.
	// Nothing older is ever served.
	Stale time.Duration
}

func (t TTL) life() time.Duration { return t.Fresh + max(t.Grace, t.Stale, 0) }

// A refresh begins when between these parts of Fresh are left. The spread keeps
// keys that were filled together apart; the rest is time for the fill to end
// before readers would see a stale body. The price is 1.03 fills per Fresh.
const (
	refreshSooner = 0.045
	refreshLater  = 0.02
)

// Entry is one finished body. All readers share it: what its methods return must not
// be changed.
type Entry struct {
	cache   *Cache
	variant [encodings]variant
	sum     [sumBytes]byte
	kind    []string // content type, as a header value
	tags    []string
	meta    []byte
	old     bool // made of something old

	born    int64 // on the store's clock; before its start for entries of another process
	refresh time.Duration
	ttl     TTL
	stamp   stamp

	checked atomic.Uint64             // the version at which the tags were last found valid
	retry   atomic.Int64              // no refresh starts before
	failed  atomic.Pointer[error]     // why the last refresh brought nothing
	aging   atomic.Pointer[agedLines] // headers that change by the second
	value   atomic.Pointer[any]       // the body decoded, if it was asked for
	missing atomic.Pointer[[]string]  // what the body says is missing, for traces
}

// sumBytes of the body's SHA-256 make its ETag.
const sumBytes = 12

// variant is the body in one encoding, with the headers that go with it.
type variant struct {
	body   []byte
	etag   string
	etags  []string // header values
	length []string
	// heads are the lines of a hit's head that never change, for safe methods and
	// for others; nil until needed.
	heads [2]atomic.Pointer[string]
}

// Body is the body without encoding.
func (e *Entry) Body() []byte { return e.variant[identity].body }

// Meta is what the fill left for the caller.
func (e *Entry) Meta() []byte { return e.meta }

// Value is the body decoded: what the fill gave, else what decode makes of the
// body, once. It lives as long as the entry and is shared by all readers.
func (e *Entry) Value(decode func(body []byte) (any, error)) (any, error) {
	if v := e.value.Load(); v != nil {
		return *v, nil
	}
	v, err := decode(e.Body())
	if err != nil {
		return nil, err
	}
	e.value.CompareAndSwap(nil, &v)
	return *e.value.Load(), nil
}

// With is the entry with another body, for what must not be kept with it.
func (e *Entry) With(body []byte) *Entry {
	return e.cache.newEntry("", &Fill{Body: body, ContentType: e.kind[0], Meta: e.meta, TTL: e.ttl, Stale: e.old}, e.stamp, e.born)
}

// Tags are the tags that the fill gave.
func (e *Entry) Tags() []string {
	n := len(e.tags) - 1 // the last is the key's own
	return e.tags[:n:n]
}

// Age is the time since the fill began.
func (e *Entry) Age() time.Duration { return time.Duration(e.cache.store.now() - e.born) }

// keyTag is the tag that every entry bears for its own key.
func keyTag(key string) string { return "=" + key }

// newEntry makes an entry of a finished fill.
func (c *Cache) newEntry(key string, f *Fill, s stamp, born int64) *Entry {
	e := &Entry{cache: c, kind: c.head.contentType, meta: f.Meta, born: born, stamp: s, ttl: f.TTL, old: f.Stale}
	if f.Value != nil {
		e.value.Store(&f.Value)
	}
	if f.ContentType != "" {
		e.kind = []string{f.ContentType}
	}
	if e.ttl == (TTL{}) {
		e.ttl = c.ttl()
	}
	left := refreshLater + rand.Float64()*(refreshSooner-refreshLater) //nolint:gosec // jitter
	e.refresh = time.Duration(float64(e.ttl.Fresh) * (1 - left))
	e.tags = append(append(make([]string, 0, len(f.Tags)+1), f.Tags...), keyTag(key))
	says := f.Body
	if c.etagMark != "" {
		says = f.Says
	}
	sum := sha256.Sum256(says)
	copy(e.sum[:], sum[:])
	e.variant[identity].body = f.Body
	if !c.raw && len(f.Body) > 0 {
		e.variant[gzipped].body = c.store.codec.gzip(f.Body)
		e.variant[zstandard].body = c.store.codec.zstd(f.Body)
	}
	e.prepare()
	return e
}

// prepare makes the header values once for all readers.
func (e *Entry) prepare() {
	hash := hex.EncodeToString(e.sum[:])
	for i := range e.variant {
		v := &e.variant[i]
		if v.body == nil {
			continue
		}
		// A strong ETag names bytes: one per encoding.
		v.etag = e.cache.etagMark + `"` + hash + encodingSuffix[i] + `"`
		v.etags = []string{v.etag}
		v.length = []string{strconv.Itoa(len(v.body))}
	}
}

// weight is the memory an entry takes, roughly.
func (e *Entry) weight() int {
	n := 1536 + len(e.meta)
	for i := range e.variant {
		n += len(e.variant[i].body) + len(e.variant[i].etag)
	}
	for _, t := range e.tags {
		n += 16 + len(t)
	}
	return n
}

// state is what an entry is good for at one moment.
type state uint8

const (
	gone    state = iota // not to be served
	stale                // to be served if a fill fails
	grace                // to be served as stale, and refreshed
	due                  // to be served as a hit, and refreshed
	settled              // to be served as a hit
)

// judge is on the path of every hit: two comparisons unless something was
// invalidated since the last look.
func (s *Store) judge(e *Entry, now int64) state {
	age := time.Duration(now - e.born)
	if e.checked.Load() != s.tags.version.Load() {
		v, version := s.tags.check(e.stamp, e.tags)
		switch v {
		case invalid:
			return gone
		case outdated:
			age = max(age, e.ttl.Fresh)
		default:
			e.checked.Store(version)
		}
	}
	switch {
	case age < e.refresh:
		return settled
	case age < e.ttl.Fresh:
		return due
	case age < e.ttl.Fresh+e.ttl.Grace:
		return grace
	case age < e.ttl.life():
		return stale
	}
	return gone
}

// failure is why the entry could not be refreshed, if that was tried.
func (e *Entry) failure() error {
	if p := e.failed.Load(); p != nil {
		return *p
	}
	return nil
}
