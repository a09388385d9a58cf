package handoff_test

import (
	"crypto/hmac"
	"crypto/sha256"
	"slices"
	"testing"
	"time"

	"melmastoon.ghasi.io/bff/handoff"
)

// BenchmarkMintVerify compares minting and verifying with the cryptography
// they cannot do without, two HMACs of the same canonical string, in
// interleaved slices of one run. ratio is against hmac.New, Write and Sum;
// ratio-prepared against HMACs that, as in this package, have their key
// schedule behind them and then do nothing else.
func BenchmarkMintVerify(b *testing.B) {
	ring, c := ring(b), claims()
	_, p, err := handoff.Mint(ring, c, minted)
	if err != nil {
		b.Fatal(err)
	}
	canonical := []byte(p.Canonical())
	prepared := hmac.New(sha256.New, secretA)
	var sum [sha256.Size]byte

	const slice = 200
	variants := [...]func(){
		func() {
			token, _, err := handoff.Mint(ring, c, minted)
			if err != nil {
				b.Fatal(err)
			}
			if _, err := handoff.Verify(ring, token, minted); err != nil {
				b.Fatal(err)
			}
		},
		func() {
			for range 2 {
				prepared.Reset()
				prepared.Write(canonical)
				prepared.Sum(sum[:0])
			}
		},
		func() {
			for range 2 {
				h := hmac.New(sha256.New, secretA)
				h.Write(canonical)
				h.Sum(sum[:0])
			}
		},
	}
	var took [len(variants)][]time.Duration
	b.ReportAllocs()
	for b.Loop() {
		for i, f := range variants {
			start := time.Now()
			for range slice {
				f()
			}
			took[i] = append(took[i], time.Since(start))
		}
	}
	median := func(d []time.Duration) float64 {
		slices.Sort(d)
		return float64(d[len(d)/2]) / slice
	}
	ours, ready, fresh := median(took[0]), median(took[1]), median(took[2])
	b.ReportMetric(ours, "ns/mint+verify")
	b.ReportMetric(fresh, "ns/2hmac")
	b.ReportMetric(ours/fresh, "ratio")
	b.ReportMetric(ours/ready, "ratio-prepared")
}

// BenchmarkMint and BenchmarkVerify show time and allocations of each side.
func BenchmarkMint(b *testing.B) {
	ring, c := ring(b), claims()
	b.ReportAllocs()
	for b.Loop() {
		if _, _, err := handoff.Mint(ring, c, minted); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkVerify(b *testing.B) {
	ring := ring(b)
	token, _, err := handoff.Mint(ring, claims(), minted)
	if err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	for b.Loop() {
		if _, err := handoff.Verify(ring, token, minted); err != nil {
			b.Fatal(err)
		}
	}
}
