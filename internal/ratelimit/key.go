package ratelimit

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"hash"
	"hash/maphash"
	"net/netip"
	"sync"
)

// Key is one bucket: a rule and the subject it counts. Make it with [Rule.Key] or
// [Rule.IP]; it holds no secrets and costs no allocation.
type Key struct {
	rule    *Rule
	subject string
	network netip.Addr // in place of subject; valid if set
}

// Key counts by any text: a session id, a fingerprint hash.
func (r *Rule) Key(subject string) Key { return Key{rule: r, subject: subject} }

// IP counts by client address; see [Network].
func (r *Rule) IP(addr netip.Addr) Key { return Key{rule: r, network: Network(addr)} }

// Network is whom an address stands for: IPv4 addresses by themselves, IPv6 ones
// by their /64, since a host may pick any of 2^64 addresses at will.
func Network(addr netip.Addr) netip.Addr {
	addr = addr.Unmap().WithZone("")
	if !addr.Is6() {
		return addr
	}
	// The error is for bad prefix lengths; 64 fits every IPv6 address.
	prefix, _ := addr.Prefix(64)
	return prefix.Addr()
}

// tag finds the bucket in this process. It is seeded per process and rule, so
// that no client can aim at another's bucket. It is never 0.
func (k *Key) tag() uint64 {
	var h uint64
	if k.network.IsValid() {
		b := k.network.As16()
		h = maphash.Bytes(k.rule.seed, b[:])
	} else {
		h = maphash.String(k.rule.seed, k.subject)
	}
	return max(h, 1)
}

// newMACs returns HMACs that are keyed already, which is half of their work.
func newMACs(pepper []byte) *sync.Pool {
	return &sync.Pool{New: func() any { return hmac.New(sha256.New, pepper) }}
}

// bucketID names a bucket in every process and in Redis.
type bucketID [16]byte

// id is keyed: addresses and session ids must not be readable, nor guessable by
// trying them all, from a key in Redis (DOMAIN_MODEL §8).
func (k *Key) id(macs *sync.Pool) bucketID {
	mac, _ := macs.Get().(hash.Hash)
	defer macs.Put(mac)
	mac.Reset()
	mac.Write([]byte(k.rule.limit.Name))
	if k.network.IsValid() {
		b := k.network.As16()
		mac.Write([]byte{0, 'n'})
		mac.Write(b[:])
	} else {
		mac.Write([]byte{0, 's'})
		mac.Write([]byte(k.subject))
	}
	var sum [sha256.Size]byte
	return bucketID(mac.Sum(sum[:0])[:16])
}

// bucket is the {bucketKey} of DATA_MODEL §5.
func bucket(limit string, id bucketID) string {
	return limit + ":" + base64.RawURLEncoding.EncodeToString(id[:])
}
