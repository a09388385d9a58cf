//go:build !nocloud

package main

// gs:// for the audit lake and bigquery:// for its warehouse. Here, because they bring
// the cloud's clients along; builds for tests leave them out (-tags nocloud), which
// saves a minute of compiling.
import (
	_ "gocloud.dev/blob/gcsblob"

	_ "melmastoon.ghasi.io/bff/internal/backoffice/backofficewarehouse"
)
