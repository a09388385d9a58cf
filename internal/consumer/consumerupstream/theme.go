package consumerupstream

import (
	"context"
	"encoding/json"

	"melmastoon.ghasi.io/bff"
	"melmastoon.ghasi.io/bff/internal/consumer/hotel"
	"melmastoon.ghasi.io/bff/internal/jsonscan"
	"melmastoon.ghasi.io/bff/internal/upstream"
)

// Theme is theme-config, the source of truth of brands.
type Theme struct{ client *upstream.Client }

// isColor accepts the only form of a colour that leaves us, #6b3fa0: it goes into
// style sheets.
func isColor(s string) bool {
	if len(s) != 7 || s[0] != '#' {
		return false
	}
	for _, c := range []byte(s[1:]) {
		if (c < '0' || c > '9') && (c < 'a' || c > 'f') && (c < 'A' || c > 'F') {
			return false
		}
	}
	return true
}

// Peeks returns the brands of tenants.
func (t *Theme) Peeks(ctx context.Context, tenants []bff.ID) (map[bff.ID]hotel.BrandPeek, error) {
	peeks := make(map[bff.ID]hotel.BrandPeek, len(tenants))
	const route = "/api/v1/brand-peeks/batch"
	body := append(make(json.RawMessage, 0, 64+34*len(tenants)), `{"tenantIds":[`...)
	for i, id := range tenants {
		if i > 0 {
			body = append(body, ',')
		}
		body = append(append(append(body, '"'), id.String()...), '"')
	}
	body = append(body, `]}`...)
	err := t.client.Post(ctx, route, route, body, upstream.Reading(func(r *jsonscan.Reader) {
		there := false
		for name := range r.Object() {
			if name != "brandPeeks" || r.Null() {
				continue
			}
			there = true
			for range r.Array() {
				id, b := readPeek(r)
				if !isColor(b.PrimaryColor) {
					t.client.Drift(route, "primaryColor")
					continue
				}
				peeks[id] = b
			}
		}
		r.Require(there, "brandPeeks")
	}), upstream.Idempotent())
	if err != nil {
		return nil, failed(err)
	}
	return peeks, nil
}

func readPeek(r *jsonscan.Reader) (tenant bff.ID, b hotel.BrandPeek) {
	for name := range r.Object() {
		switch name {
		case "tenantId":
			tenant = readID(r, bff.PrefixTenant)
		case "primaryColor":
			b.PrimaryColor = r.String()
		case "logoUrl":
			b.LogoURL = r.String()
		case "brandName":
			b.BrandName = readLocalized(r)
		}
	}
	r.Require(!tenant.IsZero(), "brandPeeks.tenantId")
	r.Require(b.PrimaryColor != "", "brandPeeks.primaryColor")
	return tenant, b
}
