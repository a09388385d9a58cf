package consumer_test

import (
	"time"

	"melmastoon.ghasi.io/bff"
	"melmastoon.ghasi.io/bff/internal/consumer/consumertest"
)

var (
	midday  = time.Date(2027, 3, 10, 12, 0, 0, 0, time.UTC)
	errDown = consumertest.Failure("error")
)

type (
	platform = consumertest.Platform
	failures = consumertest.Failures
)

func propertyID(n int) bff.ID { return consumertest.PropertyID(n) }
func tenantID(n int) bff.ID   { return consumertest.TenantID(n) }

// platformOr is a platform on which all is well unless one is given.
func platformOr(p *platform) *platform {
	if p == nil {
		return new(platform)
	}
	return p
}
