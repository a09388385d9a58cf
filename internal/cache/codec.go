package cache

import (
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"time"
)

// codecVersion begins every blob. Another one is a miss, so that two releases
// can share a Redis.
const codecVersion = 1

// codecStale begins the blob of a body that was made of something old.
const codecStale = 2

const (
	maxTags = 4096
	maxMeta = 64 << 10
	maxText = 256 // content type
)

var errBlob = errors.New("cache: malformed entry in Redis")

// encode makes the blob that other processes read. It holds the compressed
// bodies, which cost time to make, and not the plain one, which costs memory.
// It holds no time of day: readers learn the age from what the server has left
// of the entry's life, so that clocks need not agree.
func (e *Entry) encode() []byte {
	size := 64 + len(e.kind[0]) + len(e.meta) + sumBytes
	for _, t := range e.tags {
		size += len(t) + 2
	}
	for i := range e.variant {
		v := &e.variant[i]
		size += len(v.body)
	}
	b := make([]byte, 0, size)
	version := byte(codecVersion)
	if e.old {
		version = codecStale
	}
	b = append(b, version)
	b = binary.LittleEndian.AppendUint64(b, e.stamp.epoch)
	b = binary.AppendUvarint(b, e.stamp.seq)
	for _, d := range []time.Duration{e.refresh, e.ttl.Fresh, e.ttl.Grace, e.ttl.Stale} {
		b = binary.AppendUvarint(b, uint64(max(d, 0)))
	}
	b = append(b, e.sum[:]...)
	b = appendBytes(b, e.kind[0])
	b = appendBytes(b, e.meta)
	tags := e.Tags()
	b = binary.AppendUvarint(b, uint64(len(tags)))
	for _, t := range tags {
		b = appendBytes(b, t)
	}
	plain := e.variant[identity].body
	if e.variant[gzipped].body != nil {
		plain = nil
	}
	b = appendBytes(b, plain)
	b = appendBytes(b, e.variant[gzipped].body)
	return appendBytes(b, e.variant[zstandard].body)
}

// decode reads a blob. Its size was limited before it came here.
func (c *Cache) decode(key string, blob []byte) (*Entry, error) {
	r := reader{b: blob}
	e := &Entry{cache: c}
	switch r.byte() {
	case codecVersion:
	case codecStale:
		e.old = true
	default:
		return nil, errBlob
	}
	e.stamp.epoch = r.uint64()
	e.stamp.seq = r.uvarint(1 << 53)
	for _, d := range []*time.Duration{&e.refresh, &e.ttl.Fresh, &e.ttl.Grace, &e.ttl.Stale} {
		*d = time.Duration(r.uvarint(uint64(maxTTL))) //nolint:gosec // limited
	}
	copy(e.sum[:], r.take(sumBytes))
	e.kind = []string{string(r.bytes(maxText))}
	e.meta = slices.Clone(r.bytes(maxMeta))
	n := r.uvarint(maxTags)
	if n > uint64(len(r.b)) { // every tag takes a byte at least
		return nil, errBlob
	}
	e.tags = make([]string, 0, n+1)
	for range n {
		e.tags = append(e.tags, string(r.bytes(maxTagBytes)))
	}
	e.tags = append(e.tags, keyTag(key))
	plain := slices.Clone(r.bytes(c.store.maxBody))
	gz, zst := slices.Clone(r.bytes(c.store.maxBody)), slices.Clone(r.bytes(c.store.maxBody))
	if r.bad || len(r.b) != 0 {
		return nil, errBlob
	}
	var err error
	switch {
	case len(zst) > 0 && len(gz) > 0:
		e.variant[gzipped].body, e.variant[zstandard].body = gz, zst
		plain, err = c.store.codec.unzstd(zst)
	case len(zst) > 0 || len(gz) > 0:
		err = errBlob
	}
	if err != nil {
		return nil, fmt.Errorf("cache: entry in Redis: %w", err)
	}
	e.variant[identity].body = orEmpty(plain)
	e.prepare()
	return e, nil
}

func orEmpty(b []byte) []byte {
	if b == nil {
		return []byte{}
	}
	return b
}

func appendBytes[T string | []byte](b []byte, s T) []byte {
	return append(binary.AppendUvarint(b, uint64(len(s))), s...)
}

// reader takes a blob apart. Once something does not fit, all it gives is zero.
type reader struct {
	b   []byte
	bad bool
}

func (r *reader) take(n int) []byte {
	if r.bad || n > len(r.b) {
		r.bad = true
		return nil
	}
	out := r.b[:n]
	r.b = r.b[n:]
	return out
}

func (r *reader) byte() byte {
	if b := r.take(1); b != nil {
		return b[0]
	}
	return 0
}

func (r *reader) uint64() uint64 {
	if b := r.take(8); b != nil {
		return binary.LittleEndian.Uint64(b)
	}
	return 0
}

func (r *reader) uvarint(most uint64) uint64 {
	v, n := binary.Uvarint(r.b)
	if n <= 0 || v > most {
		r.bad = true
		return 0
	}
	r.take(n)
	return v
}

func (r *reader) bytes(most int) []byte {
	return r.take(int(r.uvarint(uint64(most)))) //nolint:gosec // limited
}
