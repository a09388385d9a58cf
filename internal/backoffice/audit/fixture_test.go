package audit_test

import "melmastoon.ghasi.io/bff/internal/backoffice/backofficetest"

var (
	began   = backofficetest.Began
	tenant  = backofficetest.Tenant
	sameIDs = backofficetest.SameIDs
)
