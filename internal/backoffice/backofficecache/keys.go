package backofficecache

import (
	"melmastoon.ghasi.io/bff/internal/backoffice"
	"melmastoon.ghasi.io/bff/internal/redis"
)

// readingKey names a reading, which stays in this process.
func readingKey(k redis.TenantKeys, from backoffice.Source, at backoffice.Place) string {
	return k.Key("read", at.Property.String(), string(from), at.Date.String()).Name()
}
