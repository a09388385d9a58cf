package consumerupstream

import (
	"context"
	"regexp"

	"melmastoon.ghasi.io/bff"
	"melmastoon.ghasi.io/bff/internal/consumer"
	"melmastoon.ghasi.io/bff/internal/upstream"
)

// Theme is theme-config, the source of truth of brands.
type Theme struct{ client *upstream.Client }

// hexColor is the only form of a colour that leaves us: it goes into style
// sheets.
var hexColor = regexp.MustCompile(`^#[0-9a-fA-F]{6}$`)

// Peeks returns the brands of tenants.
func (t *Theme) Peeks(ctx context.Context, tenants []bff.ID) (map[bff.ID]consumer.BrandPeek, error) {
	var out struct {
		BrandPeeks []struct {
			TenantID     bff.ID `json:"tenantId" upstream:"required"`
			PrimaryColor string `json:"primaryColor" upstream:"required"`
			LogoURL      string `json:"logoUrl"`
			BrandName    text   `json:"brandName"`
		} `json:"brandPeeks" upstream:"required"`
	}
	const route = "/api/v1/brand-peeks/batch"
	body := map[string][]bff.ID{"tenantIds": tenants}
	if err := t.client.Post(ctx, route, route, body, &out, upstream.Idempotent()); err != nil {
		return nil, failed(err)
	}
	peeks := make(map[bff.ID]consumer.BrandPeek, len(out.BrandPeeks))
	for _, b := range out.BrandPeeks {
		if !hexColor.MatchString(b.PrimaryColor) {
			t.client.Drift(route, "primaryColor")
			continue
		}
		peeks[b.TenantID] = consumer.BrandPeek{
			PrimaryColor: b.PrimaryColor, LogoURL: b.LogoURL, BrandName: b.BrandName.localized(),
		}
	}
	return peeks, nil
}
