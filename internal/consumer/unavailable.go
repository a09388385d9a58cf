package consumer

import (
	"context"
	"errors"
	"time"

	"melmastoon.ghasi.io/bff"
)

// retryUpstream is when a client may sensibly ask again: the breaker's
// half-open probe has then had its chance.
const retryUpstream = 4 * time.Second

// Unavailable codes an upstream failure that leaves nothing to answer with.
func Unavailable(err error) error {
	if _, coded := errors.AsType[*bff.Error](err); err == nil || coded || errors.Is(err, context.Canceled) {
		return err
	}
	if r := bff.ReasonOf(err); r == bff.ReasonBudget {
		return &bff.Error{Code: bff.CodeUpstreamBudgetExceeded, RetryAfter: retryUpstream, Err: err}
	}
	return &bff.Error{Code: bff.CodeUpstreamUnavailable, RetryAfter: retryUpstream, Err: err}
}
