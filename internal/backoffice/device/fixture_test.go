package device_test

import "melmastoon.ghasi.io/bff/internal/backoffice/backofficetest"

type ledger = backofficetest.Ledger

var (
	began      = backofficetest.Began
	finishedAt = backofficetest.FinishedAt
	tenant     = backofficetest.Tenant
	property   = backofficetest.Property
	sameIDs    = backofficetest.SameIDs
	visitor    = backofficetest.Visitor
)
