package discovery

import (
	"time"

	"melmastoon.ghasi.io/bff"
)

// Part names what of an answer is missing or old.
type Part string

// The parts that can be missing.
const (
	PartSearch       Part = "search"
	PartRates        Part = "rates"
	PartBrand        Part = "brand"
	PartSimilar      Part = "similar"
	PartPopularity   Part = "popularity"
	PartCalendar     Part = "calendar"
	PartMapPrice     Part = "mapPrice"
	PartAvailability Part = "availability"
	PartProperty     Part = "property"
	PartPaging       Part = "paging"
	PartWishlist     Part = "wishlist"
)

// Reason says why a part is missing.
type Reason = bff.Reason

// The closed set of reasons.
const (
	ReasonTimeout = bff.ReasonTimeout
	ReasonError   = bff.ReasonError
	ReasonBreaker = bff.ReasonBreaker
	ReasonBudget  = bff.ReasonBudget
	ReasonStale   = bff.ReasonStale
	ReasonShed    = bff.ReasonShed
)

// Degradation tells a client what of its answer is missing or old, and why.
type Degradation struct {
	Part     Part   `json:"part"`
	Reason   Reason `json:"reason"`
	AgeMs    int64  `json:"ageMs,omitempty"`
	Affected int    `json:"affected"`
}

// Degradations are what is missing or old in one answer: each part at most once
// for what is missing, and once for what is old.
type Degradations []Degradation

// add says that a part is missing in some places. Of two reasons for one part
// the first is kept.
func (d *Degradations) add(part Part, why Reason, affected int) {
	d.merge(Degradation{Part: part, Reason: why, Affected: affected})
}

// shed says that a part was left out on purpose.
func (d *Degradations) shed(part Part, affected int) { d.add(part, ReasonShed, affected) }

// old says that a part is shown although it could not be renewed.
func (d *Degradations) old(part Part, age time.Duration, affected int) {
	d.merge(Degradation{Part: part, Reason: ReasonStale, AgeMs: max(1, age.Milliseconds()), Affected: affected})
}

func (d *Degradations) merge(more Degradation) {
	if more.Affected == 0 {
		return
	}
	for i := range *d {
		if had := &(*d)[i]; had.Part == more.Part && (had.Reason == ReasonStale) == (more.Reason == ReasonStale) {
			had.Affected += more.Affected
			had.AgeMs = max(had.AgeMs, more.AgeMs)
			return
		}
	}
	*d = append(*d, more)
}

// join adds what is missing in another part of the answer.
func (d *Degradations) join(more Degradations) {
	for _, m := range more {
		d.merge(m)
	}
}

// grow says of an answer that is kept how much older its old parts are by now.
func (d Degradations) grow(age time.Duration) {
	for i := range d {
		if d[i].Reason == ReasonStale {
			d[i].AgeMs += age.Milliseconds()
		}
	}
}

// aged says that a part is as old as the answer, unless it was old before.
func (d *Degradations) aged(part Part, age time.Duration, affected int) {
	for _, had := range *d {
		if had.Part == part && had.Reason == ReasonStale {
			return
		}
	}
	d.old(part, age, affected)
}
