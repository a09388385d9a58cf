package consumerhttp

import (
	"melmastoon.ghasi.io/bff"
	"melmastoon.ghasi.io/bff/internal/web"
)

// Codes are the anonymous service's codes of failures that any route can meet.
func Codes() web.Codes {
	return web.Codes{
		Budget: bff.CodeUpstreamBudgetExceeded,
		Unsupported: map[string]bff.Code{
			"locale": bff.CodeLocaleNotSupported, "currency": bff.CodeCurrencyNotSupported, "X-Currency": bff.CodeCurrencyNotSupported,
		},
	}
}
