package sim

import (
	"time"

	"github.com/oklog/ulid/v2"

	"melmastoon.ghasi.io/bff"
)

// mix is a splitmix64 step over its inputs: the whole data set is a function
// of the seed through it, equal on every platform and in every version of Go
// (which math/rand does not promise).
func mix(parts ...uint64) uint64 {
	h := uint64(0x9e3779b97f4a7c15)
	for _, p := range parts {
		h ^= p
		h += 0x9e3779b97f4a7c15
		h = (h ^ h>>30) * 0xbf58476d1ce4e5b9
		h = (h ^ h>>27) * 0x94d049bb133111eb
		h ^= h >> 31
	}
	return h
}

// stream hands out numbers that depend on nothing but its start.
type stream struct{ state uint64 }

func (s *stream) next() uint64 {
	s.state += 0x9e3779b97f4a7c15
	return mix(s.state)
}

// below returns a number in [0, n).
func (s *stream) below(n int) int { return int(s.next() % uint64(n)) } //nolint:gosec // n is a small positive count

// between returns a number in [lo, hi].
func (s *stream) between(lo, hi int) int { return lo + s.below(hi-lo+1) }

func (s *stream) chance(percent uint64) bool { return s.next()%100 < percent }

// spread returns a number in (-1, 1) that is mostly near zero.
func (s *stream) spread() float64 {
	const unit = 1 << 53
	a, b := float64(s.next()>>11)/unit, float64(s.next()>>11)/unit
	return a - b
}

// Kinds of derived numbers: the second input of mix, so that two uses of one
// index never meet.
const (
	kindTenant uint64 = iota + 1
	kindProperty
	kindOperator
	kindRoomType
	kindRatePlan
	kindThemeVersion
	kindFx
	kindRate
	kindRooms
	kindPopularity
	kindShuffle
	kindStaff
	kindReservation
	kindTask
	kindWorkOrder
	kindFolio
	kindSuggestion
	kindAlert
	kindDevice
)

// epoch is the moment that the oldest ids carry.
var epoch = time.Date(2023, time.January, 1, 0, 0, 0, 0, time.UTC)

// derivedID makes an id from numbers alone: the same in every run.
func derivedID(p bff.Prefix, parts ...uint64) string {
	a, b := mix(parts...), mix(append(parts, 1)...)
	var u ulid.ULID
	const threeYears = 3 * 365 * 24 * 3600
	if err := u.SetTime(ulid.Timestamp(epoch.Add(time.Duration(a%threeYears) * time.Second))); err != nil {
		panic(err) // a moment of this decade always fits a ULID
	}
	for i := range 8 {
		u[6+i] = byte(b >> (8 * i)) //nolint:gosec // the lowest byte is meant
	}
	u[14], u[15] = byte(a>>48), byte(a>>56) //nolint:gosec // the lowest byte is meant
	return bff.IDFromBytes(p, u).String()
}
