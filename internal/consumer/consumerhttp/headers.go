package consumerhttp

import (
	"melmastoon.ghasi.io/bff/internal/consumer"
	"melmastoon.ghasi.io/bff/internal/web"
)

// Headers are the headers of the API that a page of another origin may send, and
// those that it may read. What browsers send by themselves is not among them.
func Headers() web.Headers {
	return web.Headers{
		Read: []string{
			"Accept-Language", "If-None-Match", "Idempotency-Key", "X-Idempotency-Key", "X-Currency", "X-Search-Session", "X-View-Source",
			"X-Client-Screen", "X-Client-Timezone", "X-Campaign-Source", "X-Campaign-Medium", "X-Campaign-Name", "X-Challenge", "X-Recaptcha-Token",
		},
		Written: []string{
			"Age", "Cache-Status", "ETag", "Link", "RateLimit-Limit", "RateLimit-Remaining", "RateLimit-Reset",
			"X-Brownout", "X-Cache", "X-Search-Session", consumer.ReplayedHeader,
		},
	}
}
