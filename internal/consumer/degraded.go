package consumer

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
)

// Reason says why a part is missing.
type Reason string

// The closed set of reasons.
const (
	ReasonTimeout Reason = "timeout"
	ReasonError   Reason = "error"
	ReasonBreaker Reason = "breaker"
	ReasonBudget  Reason = "budget"
	ReasonStale   Reason = "stale"
	ReasonShed    Reason = "shed"
)

// Degradation tells a client what of its answer is missing or old, and why.
type Degradation struct {
	Part     Part   `json:"part"`
	Reason   Reason `json:"reason"`
	AgeMs    int64  `json:"ageMs,omitempty"`
	Affected int    `json:"affected"`
}

// Reasoner is an upstream failure that knows its reason.
type Reasoner interface {
	error
	DegradedReason() string
}
