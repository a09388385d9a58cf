package consumerupstream_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"melmastoon.ghasi.io/bff"
	"melmastoon.ghasi.io/bff/internal/consumer"
	"melmastoon.ghasi.io/bff/internal/consumer/discovery"
	"melmastoon.ghasi.io/bff/internal/consumer/hotel"
)

// plainly reads the platform in the plainest way: encoding/json into structs,
// structs into the domain. What the service does faster must come out the same.
type plainly struct {
	discovery.Searcher // what a hotel's page does not ask for

	platform http.RoundTripper
}

func (p plainly) ask(ctx context.Context, method, path string, body, out any) error {
	raw, err := json.Marshal(body)
	if err != nil {
		return err
	}
	req, err := http.NewRequestWithContext(ctx, method, "http://platform.test"+path, bytes.NewReader(raw))
	if err != nil {
		return err
	}
	res, err := p.platform.RoundTrip(req)
	if err != nil {
		return err
	}
	defer res.Body.Close()
	if res.StatusCode != http.StatusOK {
		return fmt.Errorf("%s: status %d", path, res.StatusCode)
	}
	return json.NewDecoder(res.Body).Decode(out)
}

type plainText struct {
	Default string            `json:"default"`
	Values  map[string]string `json:"values"`
}

func (t plainText) localized() bff.LocalizedString {
	out := bff.LocalizedString{Default: t.Values[t.Default]}
	for locale, s := range t.Values {
		if locale != t.Default {
			if out.Localized == nil {
				out.Localized = map[string]string{}
			}
			out.Localized[locale] = s
		}
	}
	return out
}

func (t plainText) in(locale bff.Locale) string {
	lang, _, _ := strings.Cut(string(locale), "-")
	for _, key := range []string{string(locale), lang, t.Default} {
		if s := t.Values[key]; s != "" {
			return s
		}
	}
	return ""
}

func plainKebabs(codes []string) []string {
	out := make([]string, len(codes))
	for i, c := range codes {
		out[i] = strings.ReplaceAll(c, "_", "-")
	}
	return out
}

type plainPicture struct {
	URL    string    `json:"url"`
	Alt    plainText `json:"alt"`
	IsHero bool      `json:"isHero"`
}

type plainListing struct {
	PropertyID   bff.ID             `json:"propertyId"`
	TenantID     bff.ID             `json:"tenantId"`
	TenantSlug   string             `json:"tenantSlug"`
	Name         plainText          `json:"name"`
	City         string             `json:"city"`
	CityNames    plainText          `json:"cityNames"`
	Region       string             `json:"region"`
	RegionNames  plainText          `json:"regionNames"`
	Country      string             `json:"country"`
	PropertyType string             `json:"propertyType"`
	Geo          hotel.LatLng       `json:"geo"`
	GeoCell      string             `json:"geoCell"`
	Thumbnail    plainPicture       `json:"thumbnail"`
	StarRating   *float64           `json:"starRating"`
	GuestRating  *hotel.GuestRating `json:"guestRating"`
	Amenities    []string           `json:"amenities"`
	Sharia       bool               `json:"shariaCompliant"`
	ListedAt     time.Time          `json:"listedAt"`
	DistanceKm   *float64           `json:"distanceKm"`
}

func (l plainListing) domain(locale bff.Locale) hotel.Listing {
	return hotel.Listing{
		PropertyID: l.PropertyID, TenantID: l.TenantID, TenantSlug: l.TenantSlug, Name: l.Name.localized(),
		City: l.City, CityLabel: l.CityNames.in(locale), Region: l.Region, RegionLabel: l.RegionNames.in(locale), Country: l.Country, PropertyType: l.PropertyType,
		Geo: l.Geo, GeoCell: l.GeoCell,
		Thumbnail:  hotel.Image{URL: l.Thumbnail.URL, Alt: l.Thumbnail.Alt.in(locale)},
		StarRating: l.StarRating, GuestRating: l.GuestRating, Amenities: plainKebabs(l.Amenities), Sharia: l.Sharia,
		ListedAt: l.ListedAt, DistanceKm: l.DistanceKm,
	}
}

func plainListings(in []plainListing, locale bff.Locale) []hotel.Listing {
	out := make([]hotel.Listing, 0, len(in))
	for _, l := range in {
		out = append(out, l.domain(locale))
	}
	return out
}

func (p plainly) FindProperty(ctx context.Context, id bff.ID) (hotel.Projected, error) {
	var out struct {
		Listing    plainListing      `json:"listing"`
		Popularity *hotel.Popularity `json:"popularity"`
	}
	err := p.ask(ctx, http.MethodGet, "/search-aggregation/api/v1/properties/"+id.String(), nil, &out)
	texts := hotel.ListingTexts{City: out.Listing.CityNames.localized(), Region: out.Listing.RegionNames.localized(), Alt: out.Listing.Thumbnail.Alt.localized()}
	return hotel.Projected{Listing: out.Listing.domain(bff.LocaleEnglish), Texts: texts, Popularity: out.Popularity}, err
}

func (p plainly) Similar(ctx context.Context, id bff.ID, limit int, locale bff.Locale) ([]hotel.Listing, error) {
	var out struct {
		Items []plainListing `json:"items"`
	}
	q := url.Values{"limit": {strconv.Itoa(limit)}, "locale": {string(locale)}}
	err := p.ask(ctx, http.MethodGet, "/search-aggregation/api/v1/properties/"+id.String()+"/similar?"+q.Encode(), nil, &out)
	return plainListings(out.Items, locale), err
}

func (p plainly) Search(ctx context.Context, q consumer.SearchQuery) (hotel.Listings, error) {
	var out struct {
		Items            []plainListing  `json:"items"`
		Total            int             `json:"total"`
		AIProvenance     json.RawMessage `json:"aiProvenance"`
		QueryRewriteHint json.RawMessage `json:"queryRewriteHint"`
	}
	err := p.ask(ctx, http.MethodPost, "/search-aggregation/api/v1/search/listings", q, &out)
	return hotel.Listings{
		Items: plainListings(out.Items, q.Locale), Total: out.Total, AIProvenance: out.AIProvenance, QueryRewriteHint: out.QueryRewriteHint,
	}, err
}

func (p plainly) Describe(ctx context.Context, id bff.ID, locale bff.Locale) (hotel.Property, error) {
	var in struct {
		PropertyID   bff.ID     `json:"propertyId"`
		TenantID     bff.ID     `json:"tenantId"`
		Name         plainText  `json:"name"`
		Description  *plainText `json:"description"`
		StarRating   *float64   `json:"starRating"`
		PropertyType string     `json:"propertyType"`
		Address      struct {
			hotel.Address
			CityNames   plainText `json:"cityNames"`
			RegionNames plainText `json:"regionNames"`
		} `json:"address"`
		Geo   hotel.LatLng `json:"geo"`
		Rooms []struct {
			RoomTypeID   string             `json:"roomTypeId"`
			Name         plainText          `json:"name"`
			MaxOccupancy hotel.RoomCapacity `json:"maxOccupancy"`
			Beds         []hotel.Bed        `json:"beds"`
			SizeSqm      *float64           `json:"sizeSqm"`
			Amenities    []string           `json:"amenities"`
			PhotoURLs    []string           `json:"photoUrls"`
		} `json:"rooms"`
		Amenities []struct {
			Code     string    `json:"code"`
			Label    plainText `json:"label"`
			Category string    `json:"category"`
		} `json:"amenities"`
		Photos   []plainPicture `json:"photos"`
		Policies struct {
			Cancellation plainText `json:"cancellation"`
			CheckIn      string    `json:"checkIn"`
			CheckOut     string    `json:"checkOut"`
		} `json:"policies"`
		Sharia                bool            `json:"shariaCompliant"`
		TranslationProvenance json.RawMessage `json:"translationProvenance"`
	}
	err := p.ask(ctx, http.MethodGet, "/property/api/v1/properties/"+id.String()+"?locale="+string(locale), nil, &in)
	in.Address.CityLabel, in.Address.RegionLabel = in.Address.CityNames.in(locale), in.Address.RegionNames.in(locale)
	out := hotel.Property{
		PropertyID: in.PropertyID, TenantID: in.TenantID, Name: in.Name.localized(), PropertyType: in.PropertyType,
		StarRating: in.StarRating, Address: in.Address.Address, Geo: in.Geo, Sharia: in.Sharia, TranslationProvenance: in.TranslationProvenance,
		Rooms: []hotel.RoomTypeSummary{}, Amenities: []hotel.Amenity{}, Photos: []hotel.Photo{},
		Policies: hotel.Policies{
			Cancellation: in.Policies.Cancellation.in(locale), CheckIn: in.Policies.CheckIn, CheckOut: in.Policies.CheckOut,
		},
	}
	if in.Description != nil {
		d := in.Description.localized()
		out.Description = &d
	}
	for _, r := range in.Rooms {
		out.Rooms = append(out.Rooms, hotel.RoomTypeSummary{
			RoomTypeID: r.RoomTypeID, Name: r.Name.localized(), MaxOccupancy: r.MaxOccupancy, SizeSqm: r.SizeSqm,
			Beds: append([]hotel.Bed{}, r.Beds...), Amenities: plainKebabs(r.Amenities), PhotoURLs: append([]string{}, r.PhotoURLs...),
		})
	}
	for _, a := range in.Amenities {
		codes := plainKebabs([]string{a.Code, a.Category})
		out.Amenities = append(out.Amenities, hotel.Amenity{Code: codes[0], Label: a.Label.in(locale), Category: codes[1]})
	}
	for _, f := range in.Photos {
		out.Photos = append(out.Photos, hotel.Photo{URL: f.URL, Alt: f.Alt.in(locale), IsHero: f.IsHero})
	}
	return out, err
}

func (p plainly) Peeks(ctx context.Context, tenants []bff.ID) (map[bff.ID]hotel.BrandPeek, error) {
	var out struct {
		BrandPeeks []struct {
			TenantID     bff.ID    `json:"tenantId"`
			PrimaryColor string    `json:"primaryColor"`
			LogoURL      string    `json:"logoUrl"`
			BrandName    plainText `json:"brandName"`
		} `json:"brandPeeks"`
	}
	err := p.ask(ctx, http.MethodPost, "/theme-config/api/v1/brand-peeks/batch", map[string]any{"tenantIds": tenants}, &out)
	peeks := map[bff.ID]hotel.BrandPeek{}
	for _, b := range out.BrandPeeks {
		peeks[b.TenantID] = hotel.BrandPeek{PrimaryColor: b.PrimaryColor, LogoURL: b.LogoURL, BrandName: b.BrandName.localized()}
	}
	return peeks, err
}

type plainQuote struct {
	PropertyID      bff.ID    `json:"propertyId"`
	CheapestNightly string    `json:"cheapestNightly"`
	TotalForStay    string    `json:"totalForStay"`
	DisplayPolicy   string    `json:"currencyDisplayPolicy"`
	FxSnapshotID    string    `json:"fxSnapshotId"`
	CapturedAt      time.Time `json:"capturedAt"`
	RatePlan        struct {
		Sharia bool `json:"shariaCompliant"`
	} `json:"ratePlan"`
	Calendar []struct {
		Date     bff.Date `json:"date"`
		Cheapest string   `json:"cheapest"`
	} `json:"calendar"`
	Taxes []struct {
		Code     string `json:"code"`
		Amount   string `json:"amount"`
		Included bool   `json:"included"`
	} `json:"taxes"`
}

func plainMoney(s string) bff.Money {
	m, err := bff.ParseMicros(s)
	if err != nil {
		panic(err)
	}
	return m
}

func (q plainQuote) rate() hotel.RateSnapshot {
	rate := hotel.NewRateSnapshot(plainMoney(q.CheapestNightly), plainMoney(q.TotalForStay), q.DisplayPolicy, q.CapturedAt)
	rate.FxSnapshotID, rate.Sharia = q.FxSnapshotID, q.RatePlan.Sharia
	for _, t := range q.Taxes {
		m := plainMoney(t.Amount)
		rate.Taxes = append(rate.Taxes, hotel.Tax{Code: t.Code, Minor: m.MinorString(), Currency: m.Currency, Included: t.Included})
	}
	return rate
}

func (p plainly) quotes(ctx context.Context, req hotel.PriceRequest, days int) ([]plainQuote, []bff.ID, error) {
	refs := []map[string]bff.ID{}
	for _, r := range req.Properties {
		refs = append(refs, map[string]bff.ID{"propertyId": r.PropertyID, "tenantId": r.TenantID})
	}
	var out struct {
		Quotes  []plainQuote `json:"quotes"`
		Missing []bff.ID     `json:"missing"`
	}
	err := p.ask(ctx, http.MethodPost, "/pricing/v1/pricing/quotes/preview", map[string]any{
		"properties": refs, "dates": req.Dates, "occupancy": req.Occupancy, "currency": req.Currency, "locale": req.Locale, "calendarDays": days,
	}, &out)
	return out.Quotes, out.Missing, err
}

func (p plainly) Preview(ctx context.Context, req hotel.PriceRequest) (hotel.Previews, error) {
	quotes, soldOut, err := p.quotes(ctx, req, 0)
	rates := hotel.Previews{}
	for _, id := range soldOut {
		rates[id] = nil
	}
	for _, q := range quotes {
		rate := q.rate()
		rates[q.PropertyID] = &rate
	}
	return rates, err
}

func (p plainly) Quote(ctx context.Context, req hotel.PriceRequest, days int) (hotel.Quote, error) {
	quotes, soldOut, err := p.quotes(ctx, req, days)
	out := hotel.Quote{SoldOut: len(soldOut) > 0}
	if err != nil || len(quotes) == 0 {
		return out, err
	}
	rate := quotes[0].rate()
	out.Rate = &rate
	for _, d := range quotes[0].Calendar {
		m := plainMoney(d.Cheapest)
		out.Calendar = append(out.Calendar, hotel.CalendarDay{Date: d.Date, CheapestMinor: m.MinorString(), Currency: m.Currency})
	}
	return out, nil
}
