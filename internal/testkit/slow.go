package testkit

import (
	"bytes"
	"net/http"
)

// TooSlow reports whether an answer says that an upstream did not answer within its
// budget. Budgets are those of production, which a busy machine may exceed: a client
// asks again, and so does a test that is about something else.
func TooSlow(status int, body []byte) bool {
	return status >= http.StatusInternalServerError &&
		(bytes.Contains(body, []byte(`UPSTREAM_UNAVAILABLE"`)) || bytes.Contains(body, []byte(`UPSTREAM_BUDGET_EXCEEDED"`)))
}
