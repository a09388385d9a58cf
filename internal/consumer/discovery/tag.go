package discovery

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

// Tags of a list.
func (res *SearchResult) Tags() []string {
	seen := map[string]bool{}
	var tags []string
	add := func(tag string) {
		if !seen[tag] {
			seen[tag] = true
			tags = append(tags, tag)
		}
	}
	for i, card := range res.Results {
		add(TenantTag(card.TenantID))
		add(BrandTag(card.TenantID))
		if res.Cells[i] != "" {
			add(CellTag(res.Cells[i]))
		}
	}
	for _, id := range res.Omitted {
		add(WithoutTag(id))
	}
	return tags
}

// Tags of a map.
func (res *MapResult) Tags() []string {
	seen := map[bff.ID]bool{}
	var tags []string
	for _, p := range res.Pins {
		if !seen[p.TenantID] {
			seen[p.TenantID] = true
			tags = append(tags, TenantTag(p.TenantID), BrandTag(p.TenantID))
		}
	}
	for _, id := range res.Omitted {
		if !seen[id] {
			seen[id] = true
			tags = append(tags, WithoutTag(id))
		}
	}
	return tags
}
