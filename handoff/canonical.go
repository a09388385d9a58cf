package handoff

import (
	"encoding/binary"
	"strconv"
	"time"

	bff "melmastoon.ghasi.io/bff"
)

// Canonical returns the string that is signed.
func (p *Payload) Canonical() string {
	var b [maxCanonical]byte
	return string(p.canonical(&b))
}

// The canonical string begins with lines of fixed length.
const (
	idLine       = 4 + 26 + 1
	dayLine      = 10 + 1
	maxCanonical = 256
)

// canonical writes the string into b. It is written by hand: with fmt and
// time.Format, minting and verifying would spend more on spelling than on
// cryptography.
func (p *Payload) canonical(b *[maxCanonical]byte) []byte {
	const day0 = 3 + 4*idLine
	copy(b[:], "v1\n")
	putID((*[idLine]byte)(b[3:]), p.ID)
	putID((*[idLine]byte)(b[3+idLine:]), p.GuestSessionID)
	putID((*[idLine]byte)(b[3+2*idLine:]), p.TenantID)
	putID((*[idLine]byte)(b[3+3*idLine:]), p.PropertyID)
	putDay((*[dayLine]byte)(b[day0:]), int64(p.Dates.CheckIn), '\n')
	putDay((*[dayLine]byte)(b[day0+dayLine:]), int64(p.Dates.CheckOut), '\n')
	s := b[:day0+2*dayLine]
	s = append(strconv.AppendInt(s, int64(p.Occupancy.Adults), 10), '\n')
	s = append(strconv.AppendInt(s, int64(p.Occupancy.Children), 10), '\n')
	s = append(strconv.AppendInt(s, int64(p.Occupancy.Rooms), 10), '\n')
	s = append(append(s, p.Currency...), '\n')
	s = append(append(s, p.Locale...), '\n')
	s = appendMoment(s, p.MintedAt.Time)
	s = appendMoment(s, p.ExpiresAt.Time)
	return append(s, p.KeyID...)
}

// crockford holds every pair of base-32 digits of a ULID, two characters for
// ten bits.
var crockford = func() (pairs [1 << 10][2]byte) {
	const digits = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"
	for i := range pairs {
		pairs[i] = [2]byte{digits[i>>5], digits[i&31]}
	}
	return pairs
}()

// putID writes the wire form of an id and a newline.
func putID(b *[idLine]byte, id bff.ID) {
	bits := id.Bytes()
	hi, lo := binary.BigEndian.Uint64(bits[:8]), binary.BigEndian.Uint64(bits[8:])
	copy(b[:4], id.Prefix())
	b[3] = '_'
	// 26 digits of five bits: two bits of nothing, then the 128.
	pair := func(at int, v uint64) { copy(b[4+2*at:], crockford[v&(1<<10-1)][:]) }
	pair(0, hi>>56)
	pair(1, hi>>46)
	pair(2, hi>>36)
	pair(3, hi>>26)
	pair(4, hi>>16)
	pair(5, hi>>6)
	pair(6, hi<<4|lo>>60)
	pair(7, lo>>50)
	pair(8, lo>>40)
	pair(9, lo>>30)
	pair(10, lo>>20)
	pair(11, lo>>10)
	pair(12, lo)
	b[30] = '\n'
}

// appendMoment writes a moment in bff.TimestampFormat and a newline.
func appendMoment(s []byte, t time.Time) []byte {
	const dayMillis = 24 * 60 * 60 * 1000
	ms := t.UnixMilli()
	day, rest := ms/dayMillis, int(ms%dayMillis)
	var b [25]byte
	putDay((*[dayLine]byte)(b[:]), day, 'T')
	putPair(b[11:], rest/3_600_000)
	b[13] = ':'
	putPair(b[14:], rest/60_000%60)
	b[16] = ':'
	putPair(b[17:], rest/1000%60)
	b[19] = '.'
	b[20] = byte('0' + rest/100%10)
	putPair(b[21:], rest%100)
	b[23] = 'Z'
	b[24] = '\n'
	return append(s, b[:]...)
}

// putDay writes a day since 1970-01-01 as YYYY-MM-DD, and what follows it.
func putDay(b *[dayLine]byte, day int64, after byte) {
	year, month, date := time.Unix(day*86400, 0).UTC().Date()
	putPair(b[0:], year/100)
	putPair(b[2:], year%100)
	b[4] = '-'
	putPair(b[5:], int(month))
	b[7] = '-'
	putPair(b[8:], date)
	b[10] = after
}

// putPair writes two decimal digits.
func putPair(b []byte, n int) {
	b[0], b[1] = byte('0'+n/10), byte('0'+n%10) //nolint:gosec // n is below 100
}
