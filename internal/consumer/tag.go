package consumer

import (
	"strings"

	"melmastoon.ghasi.io/bff"
)

// Kept answers carry tags, by which they are found again when what they show
// has changed.

// TenantTag is on everything that shows a hotel of the tenant.
func TenantTag(id bff.ID) string { return "tenant:" + id.String() }

// WithoutTag is on lists that a suspended tenant's hotels were left out of.
func WithoutTag(id bff.ID) string { return "without:" + id.String() }

// PropertyTag is on everything about one hotel.
func PropertyTag(id bff.ID) string { return "property:" + id.String() }

// BrandTag is on everything that shows the tenant's brand.
func BrandTag(id bff.ID) string { return "brand:" + id.String() }

// CellTag is on every list that shows a hotel of the geo cell, which the
// projection writes with a scheme.
func CellTag(cell string) string { return "cell:" + strings.TrimPrefix(cell, "h3:") }
