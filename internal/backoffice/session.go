package backoffice

import (
	"time"

	"melmastoon.ghasi.io/bff"
)

// Caller is who sends a request, by a verified token and proof.
type Caller struct {
	Tenant   bff.ID
	Operator string
	Device   bff.ID
	// TokenHash, TokenIssued and TokenExpires are of the access token.
	TokenHash    string
	TokenIssued  time.Time
	TokenExpires time.Time
	KeyPrint     string // of the device's key
	App          App
	// Traces of the client, hashed with the service's pepper.
	IPHash, FingerprintHash string
}

// App is the desktop app that sends a request.
type App struct {
	Version  string
	Platform string
}

// Session is an operator at a device, from the first authenticated request on.
// There is one per tenant and device.
type Session struct {
	ID       bff.ID    `json:"id"`
	Tenant   bff.ID    `json:"tenantId"`
	Operator string    `json:"operatorId"`
	Device   bff.ID    `json:"deviceId"`
	OpenedAt time.Time `json:"openedAt"`
	// TokenIssued is when the token was issued that opened it: only a later sign-in
	// of another operator may take its place.
	TokenIssued     time.Time `json:"tokenIssuedAt"`
	IPHash          string    `json:"ipHash"`
	FingerprintHash string    `json:"fingerprintHash"`
	AppVersion      string    `json:"appVersion,omitempty"`
	AppPlatform     string    `json:"appPlatform,omitempty"`

	// Replaced is the session of another operator that this one has ended.
	Replaced *Replaced `json:"replaced,omitempty"`
	// Announced: the events of its opening are in the outbox, and nothing is left of
	// the session that it replaced.
	Announced bool `json:"announced,omitempty"`
	// Ended: its operator has signed out. The keys go next; a process that is killed
	// before leaves that to the next request, which then knows what to do.
	Ended *Ending `json:"ended,omitempty"`
}

// Replaced names a session that another operator's has ended.
type Replaced struct {
	ID       bff.ID    `json:"id"`
	Operator string    `json:"operatorId"`
	OpenedAt time.Time `json:"openedAt"`
}

// Ending is a sign-out.
type Ending struct {
	At        time.Time `json:"at"`
	TokenHash string    `json:"tokenHash"` // of the token that asked for it
}

// Before is the moment up to which tokens are refused. Of the very second only the
// token that asked is: the operator may have signed in again within it.
func (e *Ending) Before() time.Time { return e.At.Truncate(time.Second).Add(-time.Millisecond) }
