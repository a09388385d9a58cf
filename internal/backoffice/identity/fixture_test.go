package identity_test

import "melmastoon.ghasi.io/bff/internal/backoffice/backofficetest"

var (
	began      = backofficetest.Began
	finishedAt = backofficetest.FinishedAt
	tenant     = backofficetest.Tenant
	device     = backofficetest.Device
	sameIDs    = backofficetest.SameIDs
	visitor    = backofficetest.Visitor
)
