// Package migrations holds the two services' schemas as forward-only SQL files
// and says which roles they speak of. It knows how to apply nothing: that is
// internal/postgres.
package migrations

import (
	"embed"
	"io/fs"
)

//go:embed consumer/*.sql
var consumer embed.FS

//go:embed backoffice/*.sql
var backoffice embed.FS

// Set is one service's schema: its files, in the order of their ordinals, and
// the roles that its grants and policies name.
type Set struct {
	FS     fs.FS
	Schema string
	// Owner owns every object and can not log in. The files run as this role, so
	// that no service ever connects as the owner of what it reads.
	Owner string
	// Logins are the roles that processes connect as. They own nothing.
	Logins []string
}

// The roles, for connection URLs.
const (
	ConsumerOwner = "bff_consumer_owner"
	// ConsumerApp is the whole anonymous service: it is cross-tenant by nature.
	ConsumerApp = "bff_consumer_app"

	BackofficeOwner = "bff_backoffice_owner"
	// BackofficeApp serves requests, under row level security.
	BackofficeApp = "bff_backoffice_app"
	// BackofficeJobs is what works across tenants: the outbox relay, the cleanup
	// and the export jobs. It sees what those need and no more.
	BackofficeJobs = "bff_backoffice_jobs"
)

// Consumer is the schema bff_consumer.
func Consumer() Set {
	return Set{FS: sub(consumer, "consumer"), Schema: "bff_consumer", Owner: ConsumerOwner, Logins: []string{ConsumerApp}}
}

// Backoffice is the schema bff_backoffice.
func Backoffice() Set {
	return Set{
		FS: sub(backoffice, "backoffice"), Schema: "bff_backoffice",
		Owner: BackofficeOwner, Logins: []string{BackofficeApp, BackofficeJobs},
	}
}

func sub(f embed.FS, dir string) fs.FS {
	s, err := fs.Sub(f, dir)
	if err != nil {
		panic(err) // only a malformed constant path gets here
	}
	return s
}
