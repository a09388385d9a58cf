package bff

import (
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"
)

// Code names one kind of failure to clients. Its status never changes; the
// registry in contracts/errors lists every code once.
type Code string

// Codes of both services, in the registry's order.
const (
	CodeValidationFailed     Code = "MELMASTOON.GENERAL.VALIDATION_FAILED"
	CodeUnauthenticated      Code = "MELMASTOON.GENERAL.UNAUTHENTICATED"
	CodeOriginNotAllowed     Code = "MELMASTOON.GENERAL.ORIGIN_NOT_ALLOWED"
	CodeResourceNotFound     Code = "MELMASTOON.GENERAL.RESOURCE_NOT_FOUND"
	CodeMethodNotAllowed     Code = "MELMASTOON.GENERAL.METHOD_NOT_ALLOWED"
	CodeNotAcceptable        Code = "MELMASTOON.GENERAL.NOT_ACCEPTABLE"
	CodePayloadTooLarge      Code = "MELMASTOON.GENERAL.PAYLOAD_TOO_LARGE"
	CodeUnsupportedMediaType Code = "MELMASTOON.GENERAL.UNSUPPORTED_MEDIA_TYPE"
	CodeInternal             Code = "MELMASTOON.GENERAL.INTERNAL"
	CodeServiceUnavailable   Code = "MELMASTOON.GENERAL.SERVICE_UNAVAILABLE"

	CodeSurfaceMismatch     Code = "MELMASTOON.BFF.SURFACE_MISMATCH"
	CodeUpstreamUnavailable Code = "MELMASTOON.BFF.UPSTREAM_UNAVAILABLE"

	CodeWishlistLimitExceeded   Code = "MELMASTOON.BFF.CONSUMER.WISHLIST_LIMIT_EXCEEDED"
	CodeHandoffReplayed         Code = "MELMASTOON.BFF.CONSUMER.HANDOFF_REPLAYED"
	CodeHandoffExpired          Code = "MELMASTOON.BFF.CONSUMER.HANDOFF_EXPIRED"
	CodeHandoffSignatureInvalid Code = "MELMASTOON.BFF.CONSUMER.HANDOFF_SIGNATURE_INVALID"
	CodeTenantSuspended         Code = "MELMASTOON.BFF.CONSUMER.TENANT_SUSPENDED"
	CodeSuspectedBot            Code = "MELMASTOON.BFF.CONSUMER.SUSPECTED_BOT"
	CodeUpstreamBudgetExceeded  Code = "MELMASTOON.BFF.CONSUMER.UPSTREAM_BUDGET_EXCEEDED"
	CodeLocaleNotSupported      Code = "MELMASTOON.BFF.CONSUMER.LOCALE_NOT_SUPPORTED"
	CodeCurrencyNotSupported    Code = "MELMASTOON.BFF.CONSUMER.CURRENCY_NOT_SUPPORTED"
	CodeRateLimited             Code = "MELMASTOON.BFF.CONSUMER.RATE_LIMITED"
	CodeIdempotencyKeyRequired  Code = "MELMASTOON.BFF.CONSUMER.IDEMPOTENCY_KEY_REQUIRED"
	CodeIdempotencyKeyReused    Code = "MELMASTOON.BFF.CONSUMER.IDEMPOTENCY_KEY_REUSED"
	CodeIdempotencyInFlight     Code = "MELMASTOON.BFF.CONSUMER.IDEMPOTENCY_IN_FLIGHT"
	CodeChallengeInvalid        Code = "MELMASTOON.BFF.CONSUMER.CHALLENGE_INVALID"

	CodeDPoPInvalid                Code = "MELMASTOON.BFF.BACKOFFICE.DPOP_INVALID"
	CodeDPoPReplayed               Code = "MELMASTOON.BFF.BACKOFFICE.DPOP_REPLAYED"
	CodeDeviceMismatch             Code = "MELMASTOON.BFF.BACKOFFICE.DEVICE_MISMATCH"
	CodeTokenExpired               Code = "MELMASTOON.BFF.BACKOFFICE.TOKEN_EXPIRED"
	CodeSessionRevoked             Code = "MELMASTOON.BFF.BACKOFFICE.SESSION_REVOKED"
	CodeMFARequired                Code = "MELMASTOON.BFF.BACKOFFICE.MFA_REQUIRED"
	CodeMFAAttestationInvalid      Code = "MELMASTOON.BFF.BACKOFFICE.MFA_ATTESTATION_INVALID"
	CodePropertyScopeDenied        Code = "MELMASTOON.BFF.BACKOFFICE.PROPERTY_SCOPE_DENIED"
	CodeRoleDenied                 Code = "MELMASTOON.BFF.BACKOFFICE.ROLE_DENIED"
	CodeStaffTenantSuspended       Code = "MELMASTOON.BFF.BACKOFFICE.TENANT_SUSPENDED"
	CodeStaffIdempotencyRequired   Code = "MELMASTOON.BFF.BACKOFFICE.IDEMPOTENCY_KEY_REQUIRED"
	CodeStaffIdempotencyInFlight   Code = "MELMASTOON.BFF.BACKOFFICE.IDEMPOTENCY_IN_FLIGHT"
	CodeStaffIdempotencyReused     Code = "MELMASTOON.BFF.BACKOFFICE.IDEMPOTENCY_KEY_REUSED"
	CodeStaffIdempotencyExpired    Code = "MELMASTOON.BFF.BACKOFFICE.IDEMPOTENCY_KEY_EXPIRED"
	CodeSuggestionAlreadyDecided   Code = "MELMASTOON.BFF.BACKOFFICE.SUGGESTION_ALREADY_DECIDED"
	CodeStateConflict              Code = "MELMASTOON.BFF.BACKOFFICE.STATE_CONFLICT"
	CodeSyncCursorConflict         Code = "MELMASTOON.BFF.BACKOFFICE.SYNC_CURSOR_CONFLICT"
	CodePreferencesVersionRequired Code = "MELMASTOON.BFF.BACKOFFICE.PREFERENCES_VERSION_REQUIRED"
	CodePreferencesVersionConflict Code = "MELMASTOON.BFF.BACKOFFICE.PREFERENCES_VERSION_CONFLICT"
	CodeAppVersionUnsupported      Code = "MELMASTOON.BFF.BACKOFFICE.APP_VERSION_UNSUPPORTED"
	CodeLockOutcomeUnknown         Code = "MELMASTOON.BFF.BACKOFFICE.LOCK_OUTCOME_UNKNOWN"
	CodeUpstreamTimeout            Code = "MELMASTOON.BFF.BACKOFFICE.UPSTREAM_TIMEOUT"
	CodeStaffRateLimited           Code = "MELMASTOON.BFF.BACKOFFICE.RATE_LIMITED"
)

//go:embed contracts/errors/registry.json
var registryJSON []byte

// CodeInfo is what the registry says of a code.
type CodeInfo struct {
	Code           Code   `json:"code"`
	Status         int    `json:"status"`
	Title          string `json:"title"`
	Retriable      bool   `json:"retriable"`
	UserMessageKey string `json:"userMessageKey"`
	Runbook        string `json:"runbook,omitempty"`
	RaisedBy       string `json:"raisedBy"` // which services
	Meaning        string `json:"meaning"`  // for developers, as the code's page says it
	Advice         string `json:"advice"`   // what a client is to do
}

// Codes lists what the registry says, in its order.
func Codes() []CodeInfo {
	var file struct {
		Codes []CodeInfo `json:"codes"`
	}
	if err := json.Unmarshal(registryJSON, &file); err != nil {
		panic("contracts/errors/registry.json: " + err.Error())
	}
	return file.Codes
}

var registry = sync.OnceValue(func() map[Code]CodeInfo {
	codes := Codes()
	m := make(map[Code]CodeInfo, len(codes))
	for _, c := range codes {
		m[c.Code] = c
	}
	return m
})

// Info returns what the registry says of the code; an unregistered code is an
// internal error.
func (c Code) Info() CodeInfo {
	if info, ok := registry()[c]; ok {
		return info
	}
	return registry()[CodeInternal]
}

// The closed set of reasons why one field is refused.
const (
	FieldRequired    = "required"
	FieldType        = "type"        // another JSON type than the field has
	FieldFormat      = "format"      // the right type, unreadable
	FieldRange       = "range"       // readable, outside the allowed values
	FieldOrder       = "order"       // two values in the wrong order
	FieldCount       = "count"       // too many, too few, or not as many as another field says
	FieldLength      = "length"      // too long
	FieldUnsupported = "unsupported" // well-formed, but not one of ours
	FieldConflict    = "conflict"    // contradicts another field
	FieldPast        = "past"        // a day that is over
)

// FieldError names one refused field by its path ("dates.checkOut",
// "filters.amenities[3]", or a header's name).
type FieldError struct {
	Field     string   `json:"field"`
	Code      string   `json:"code"`
	Supported []string `json:"supported,omitempty"` // what could stand there, if it is a small closed set
}

// FieldErrors collects every refused field of one input.
type FieldErrors []FieldError

// Add records a refused field.
func (f *FieldErrors) Add(field, code string) { *f = append(*f, FieldError{Field: field, Code: code}) }

// Offer records a field whose value is none of the supported.
func (f *FieldErrors) Offer(field string, supported []string) {
	*f = append(*f, FieldError{Field: field, Code: FieldUnsupported, Supported: supported})
}

// Texts are the words of a closed set, for Offer.
func Texts[T ~string](words []T) []string {
	texts := make([]string, len(words))
	for i, w := range words {
		texts[i] = string(w)
	}
	return texts
}

// Check records a refused field unless ok.
func (f *FieldErrors) Check(ok bool, field, code string) {
	if !ok {
		f.Add(field, code)
	}
}

// Under records the fields of a part under the part's own path.
func (f *FieldErrors) Under(path string, part FieldErrors) {
	for _, e := range part {
		e.Field = path + "." + e.Field
		*f = append(*f, e)
	}
}

// Err returns nil when nothing was refused, else one error that lists it all.
func (f FieldErrors) Err() error {
	if len(f) == 0 {
		return nil
	}
	return &Error{Code: CodeValidationFailed, Fields: f}
}

// Error is the one error type that crosses the services. The edge turns it
// into a status, a problem document and a log event.
type Error struct {
	Code       Code
	Detail     string        // for the client: never internals, never personal data
	Fields     FieldErrors   // every refused field
	RetryAfter time.Duration // when trying again makes sense; zero if unsaid
	Known      *Known        // what is on record of the request; nil if unsaid
	Err        error         // the cause, for the log only
}

// Known is what is on record of a request that is refused for its age.
type Known struct {
	Outcome    string     `json:"outcome"`
	At         *Timestamp `json:"at,omitempty"`
	OperatorID string     `json:"operatorId,omitempty"`
	Code       Code       `json:"code,omitempty"` // why it was no success
}

// Errorf returns an error with a code and a client-safe detail.
func Errorf(code Code, format string, args ...any) *Error {
	return &Error{Code: code, Detail: fmt.Sprintf(format, args...)}
}

// Wrap gives a cause a code. The cause goes to the log, not to the client.
func Wrap(code Code, cause error) *Error { return &Error{Code: code, Err: cause} }

func (e *Error) Error() string {
	var b strings.Builder
	b.WriteString(string(e.Code))
	if e.Detail != "" {
		b.WriteString(": " + e.Detail)
	}
	for i, f := range e.Fields {
		b.WriteString([]string{": ", ", "}[min(i, 1)] + f.Field + " " + f.Code)
	}
	if e.Err != nil {
		b.WriteString(": " + e.Err.Error())
	}
	return b.String()
}

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }

// CodeOf returns the code that an error carries, or CodeInternal.
func CodeOf(err error) Code {
	if e, ok := errors.AsType[*Error](err); ok {
		return e.Code
	}
	return CodeInternal
}
