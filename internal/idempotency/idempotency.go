// Package idempotency makes a mutation happen once however often it is sent:
// begin (a claim, or the earlier answer), prepare, commit. The answer is written
// in the mutation's own transaction, so that there is no moment at which one
// stands without the other. Redis holds a copy that is quick to find; when it is
// lost, Postgres still has it (DATA_MODEL §3.6, §8). Table, owner columns and
// error codes are each service's own.
package idempotency

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/oklog/ulid/v2"

	"melmastoon.ghasi.io/bff"
)

// Lifetime is how long an answer is kept, unless a service says otherwise.
const Lifetime = 24 * time.Hour

// maxKey bounds what a client may call its request.
const maxKey = 128

// KeyFrom reads the client's key from either spelling of the header; required is
// the service's code of a missing one. Two spellings with two values would let
// two layers see two different requests.
func KeyFrom(h http.Header, required bff.Code) (string, error) {
	var given []string
	for _, name := range []string{"X-Idempotency-Key", "Idempotency-Key"} {
		given = append(given, h.Values(name)...)
	}
	if len(given) == 0 || (len(given) == 1 && given[0] == "") {
		return "", bff.Errorf(required, "send Idempotency-Key, a fresh value for every new action")
	}
	for _, g := range given[1:] {
		if g != given[0] {
			return "", bff.FieldErrors{{Field: "Idempotency-Key", Code: bff.FieldConflict}}.Err()
		}
	}
	key := given[0]
	if len(key) > maxKey {
		return "", bff.FieldErrors{{Field: "Idempotency-Key", Code: bff.FieldLength}}.Err()
	}
	for i := range len(key) {
		if key[i] < '!' || key[i] > '~' {
			return "", bff.FieldErrors{{Field: "Idempotency-Key", Code: bff.FieldFormat}}.Err()
		}
	}
	return key, nil
}

// ULIDFrom is KeyFrom for keys that are ULIDs; either letter case is the same key.
func ULIDFrom(h http.Header, required bff.Code) (string, error) {
	key, err := KeyFrom(h, required)
	if err != nil {
		return "", err
	}
	id, err := ulid.ParseStrict(key)
	if err != nil {
		return "", bff.FieldErrors{{Field: "Idempotency-Key", Code: bff.FieldFormat}}.Err()
	}
	return id.String(), nil
}

// Final reports whether an answer is the same however often the request is sent:
// success, or a refusal that a repetition does not change. A timeout, a failure or
// a full service is not, and must not be kept; nor is a refusal that depends on the
// rights of the caller, who may bring a second factor with the next attempt.
func Final(status int) bool {
	switch status {
	case http.StatusUnauthorized, http.StatusForbidden, http.StatusRequestTimeout, http.StatusTooEarly, http.StatusTooManyRequests:
		return false
	}
	return status >= 200 && status < 300 || status >= 400 && status < 500
}

// Request is one attempt at a mutation.
type Request struct {
	Owner  []string // whose key it is: another owner's same key is another request
	By     []string // further columns, who sent it; the same request may come from another, unless [Table.Whose] says otherwise
	Route  string   // empty = the same key on another route is no other request; put the route into the digest
	Key    string
	Digest [sha256.Size]byte // of the canonical body
}

// Composite is the name under which the answer is kept.
func (r Request) Composite() string {
	sum := sha256.Sum256([]byte(strings.Join(r.Owner, "|") + "|" + r.Route + "|" + r.Key))
	return hex.EncodeToString(sum[:])
}

// Digest hashes a JSON body without regard to white space and member order.
// Extra distinguishes what is not in the body, such as a path parameter.
func Digest(body any, extra ...string) ([sha256.Size]byte, error) {
	b, err := json.Marshal(append([]any{body}, anys(extra)...))
	if err != nil {
		return [sha256.Size]byte{}, fmt.Errorf("digest request: %w", err)
	}
	return sha256.Sum256(b), nil
}

func anys(in []string) []any {
	out := make([]any, len(in))
	for i, s := range in {
		out[i] = s
	}
	return out
}

// Answer is what the client was told. Body is canonical JSON: every replay has
// the same bytes.
type Answer struct {
	Status int
	Body   []byte
}

// NewAnswer encodes a body.
func NewAnswer(status int, body any) (Answer, error) {
	b, err := json.Marshal(body)
	if err != nil {
		return Answer{}, fmt.Errorf("encode answer: %w", err)
	}
	return Answer{Status: status, Body: canonical(b)}, nil
}

// canonical sorts the members of JSON, because a jsonb column does not keep
// their order and the first answer must equal the later ones.
func canonical(b []byte) []byte {
	var v any
	if json.Unmarshal(b, &v) != nil {
		return b
	}
	out, err := json.Marshal(v)
	if err != nil {
		return b
	}
	return out
}
