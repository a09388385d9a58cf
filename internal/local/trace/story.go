package trace

import "time"

// Request is a finished request, as a list shows it.
type Request struct {
	Seq     uint64    `json:"seq"` // counts up; of this run of the platform
	ID      string    `json:"id"`  // req_…, as logs have it; X-Request-Id is without the prefix
	TraceID string    `json:"traceId"`
	At      time.Time `json:"at"`
	Ms      float64   `json:"ms"`
	Service string    `json:"service"` // bff-consumer or bff-backoffice
	Method  string    `json:"method"`
	Route   string    `json:"route"`          // its pattern, such as /bff/consumer/v1/hotels/{propertyId}
	Target  string    `json:"target"`         // path and query, as they were sent
	Body    string    `json:"body,omitempty"` // as it was sent, if it was short and no secret
	Status  int       `json:"status"`
	Code    string    `json:"code,omitempty"`  // of the problem
	Cache   string    `json:"cache,omitempty"` // of the answer: HIT, MISS, STALE, BYPASS
	// Degraded is what is missing and why, such as "rates: timeout".
	Degraded []string `json:"degraded"`
	Shed     string   `json:"shed,omitempty"` // the rung of the brownout ladder, if something was left out
	Caller   Caller   `json:"caller"`
	Calls    int      `json:"calls"`  // that came to upstreams, until the answer
	Faults   []string `json:"faults"` // that were set and struck it
}

// Caller is who asked.
type Caller struct {
	Kind     string  `json:"kind"`               // guest, operator, service
	Name     string  `json:"name,omitempty"`     // session or operator
	TenantID string  `json:"tenantId,omitempty"` // of an operator
	Device   string  `json:"device,omitempty"`
	Verdict  string  `json:"verdict,omitempty"` // of the bot defence
	Score    float64 `json:"score,omitempty"`
}

// Story is one request and what it caused.
type Story struct {
	Request
	// Text is the story as `melmastoon why` prints it.
	Text   string   `json:"text"`
	Limits []Limit  `json:"limits"`
	Notes  []string `json:"notes"` // of the request's log event
	Reads  []Read   `json:"reads"` // through caches
	Calls  []Call   `json:"upstreams"`
	Trips  []Trips  `json:"trips"`
	Events []Left   `json:"events"`
	Spans  []Span   `json:"spans"` // the waterfall: parents before their children
}

// Limit is the limit that decided about the request.
type Limit struct {
	Class     string `json:"class"` // such as search
	Scope     string `json:"scope"` // whose it is: session, ip, fingerprint
	Limit     int    `json:"limit"`
	Remaining int    `json:"remaining"`
	Refused   bool   `json:"refused,omitempty"`
	Local     bool   `json:"local,omitempty"` // decided without Redis
}

// Read is one read through a cache.
type Read struct {
	Cache  string   `json:"cache"`
	Result string   `json:"result"`           // HIT, MISS, STALE, BYPASS, or failed
	By     string   `json:"by"`               // who filled it: this request, memory, redis, another request, another instance
	Filler string   `json:"filler,omitempty"` // the request that did, if it is still known
	Key    string   `json:"key,omitempty"`
	Tags   []string `json:"tags,omitempty"`
	Number int64    `json:"number"` // of the last invalidation that its filler knew
	AgeMs  int64    `json:"ageMs"`
	Ms     float64  `json:"ms"`
}

// Call is one call of an upstream, with its attempts.
type Call struct {
	Upstream string    `json:"upstream"`
	Route    string    `json:"route"`
	Outcome  string    `json:"outcome"`
	Breaker  string    `json:"breaker"`
	AfterMs  float64   `json:"afterMs"` // since the request began
	Ms       float64   `json:"ms"`
	Attempts []Attempt `json:"attempts"`
}

// Attempt is one request that was sent.
type Attempt struct {
	Hedge   bool    `json:"hedge,omitempty"`
	Status  int     `json:"status,omitempty"` // 0: no answer
	Outcome string  `json:"outcome"`
	AfterMs float64 `json:"afterMs"`
	Ms      float64 `json:"ms"`
	// Came is how often it came to the upstream: not at all, if it was given up before it
	// was sent, and twice, if its connection broke and it went again on another.
	Came int `json:"came"`
	// Fault is what the simulator did to it because it was told to.
	Fault string `json:"fault,omitempty"`
}

// Trips are the round trips to one store.
type Trips struct {
	Store  string  `json:"store"` // redis or postgresql
	Count  int     `json:"count"`
	Failed int     `json:"failed,omitempty"`
	Ms     float64 `json:"ms"` // of all; they may overlap
}

// Left is an event that left because of the request.
type Left struct {
	Subject string    `json:"subject"`
	At      time.Time `json:"at"`
	AfterMs float64   `json:"afterMs"`
}

// Span is one bar of the waterfall.
type Span struct {
	ID      string            `json:"id"`
	Parent  string            `json:"parent,omitempty"`
	Depth   int               `json:"depth"`
	Service string            `json:"service"`
	Name    string            `json:"name"`
	AfterMs float64           `json:"afterMs"`
	Ms      float64           `json:"ms"`
	Failed  string            `json:"failed,omitempty"` // why
	Facts   map[string]string `json:"facts,omitempty"`
}
