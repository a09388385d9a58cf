package backofficehttp

import (
	"crypto/sha256"
	"encoding/hex"
	"slices"

	"melmastoon.ghasi.io/bff/internal/backoffice"
	"melmastoon.ghasi.io/bff/internal/backoffice/board"
	"melmastoon.ghasi.io/bff/internal/redis"
)

// cacheKeyVersion goes up when the form of a kept answer changes; old keys are left
// to expire.
const cacheKeyVersion = "1"

// dashboardKey names the dashboard of a property as a set of roles sees it
// (DATA_MODEL §3.2). It has the day, so that one of 23:59 is not served after midnight.
func dashboardKey(k redis.TenantKeys, at board.Place, roles []backoffice.Role, form string) string {
	return k.Key("dash", at.Property.String(), roleHash(roles), at.Date.String(), cacheKeyVersion+form).Name()
}

// roleHash names a set of roles, in whatever order they are given.
func roleHash(roles []backoffice.Role) string {
	sorted := roles
	if !slices.IsSorted(sorted) {
		sorted = slices.Sorted(slices.Values(roles))
	}
	var room [256]byte
	text := room[:0]
	for _, r := range sorted {
		text = append(append(text, r...), ',')
	}
	return shortHash(text)
}

func shortHash(text []byte) string {
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:8])
}

// viewKey names a view of the workbench on a day (DATA_MODEL §3.2), for readers who may
// do the same with its items.
func viewKey(k redis.TenantKeys, part backoffice.Part, at board.Place, may board.Steps) string {
	nouns := map[backoffice.Part]string{
		backoffice.PartToday: "wb:today", backoffice.PartArrivals: "wb:arr", backoffice.PartDepartures: "wb:dep",
		backoffice.PartInHouse: "wb:ih", backoffice.PartHousekeeping: "wb:hk", backoffice.PartMaintenance: "wb:mt",
	}
	return k.Key(nouns[part], at.Property.String(), at.Date.String(), shortHash([]byte(may.String()))).Name()
}

// packKey names the blackout pack of a day, for readers who may do the same and are told the
// names of guests, or not.
func packKey(k redis.TenantKeys, at board.Place, may board.Steps, names bool) string {
	return k.Key("pack", at.Property.String(), at.Date.String(), shortHash([]byte(may.String()+map[bool]string{true: " names"}[names]))).Name()
}
