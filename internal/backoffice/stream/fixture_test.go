package stream_test

import "melmastoon.ghasi.io/bff/internal/backoffice/backofficetest"

var (
	began    = backofficetest.Began
	tenant   = backofficetest.Tenant
	device   = backofficetest.Device
	property = backofficetest.Property
	sameIDs  = backofficetest.SameIDs
	visitor  = backofficetest.Visitor
)
