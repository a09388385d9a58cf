package consumerupstream

import (
	"cmp"
	"slices"

	"melmastoon.ghasi.io/bff"
	"melmastoon.ghasi.io/bff/internal/consumer/discovery"
	"melmastoon.ghasi.io/bff/internal/consumer/hotel"
	"melmastoon.ghasi.io/bff/internal/jsonscan"
)

// The lists below are nil only where there is no list.

func readPins(r *jsonscan.Reader) []discovery.MapPin {
	if r.Null() {
		return nil
	}
	out := make([]discovery.MapPin, 0, 32)
	for range r.Array() {
		var p discovery.MapPin
		for name := range r.Object() {
			switch name {
			case "propertyId":
				p.PropertyID = readID(r, bff.PrefixProperty)
			case "tenantId":
				p.TenantID = readID(r, bff.PrefixTenant)
			case "geo":
				p.Geo = readGeo(r)
			}
		}
		r.Require(!p.PropertyID.IsZero(), "pins.propertyId")
		r.Require(!p.TenantID.IsZero(), "pins.tenantId")
		if nameable(p.PropertyID, p.TenantID) {
			out = append(out, p)
		}
	}
	return out
}

// readDays reads a calendar. A price that does not read exactly is no price.
func readDays(r *jsonscan.Reader) []discovery.AvailabilityDay {
	if r.Null() {
		return nil
	}
	out := make([]discovery.AvailabilityDay, 0, 32)
	for range r.Array() {
		var (
			day      discovery.AvailabilityDay
			cheapest string
		)
		for name := range r.Object() {
			switch name {
			case "date":
				day.Date = readDate(r)
			case "available":
				day.Available = r.Bool()
			case "roomsLeft":
				day.RoomsLeft = r.MaybeInt()
			case "cheapestNightly":
				cheapest = r.String()
			}
		}
		if cheapest != "" {
			m, err := bff.ParseMicros(cheapest)
			if r.Require(err == nil, "days.cheapestNightly"); err == nil {
				day.Nightly = &hotel.Amount{Minor: m.MinorString(), Currency: m.Currency}
				day.CheapestNightlyMinor, day.Currency = &day.Nightly.Minor, m.Currency
			}
		}
		out = append(out, day)
	}
	return out
}

// flexibilities are the values of the facet that a search can ask for; the
// projection also counts hotels that refund nothing.
var flexibilities = []string{"free", "partial", "any"}

func readFacets(r *jsonscan.Reader, locale bff.Locale) []hotel.Facet {
	if r.Null() {
		return nil
	}
	out := make([]hotel.Facet, 0, 8)
	for range r.Array() {
		f := hotel.Facet{Values: []hotel.FacetValue{}}
		for name := range r.Object() {
			switch name {
			case "key":
				f.Key = r.String()
			case "label":
				f.Label = readIn(r, locale)
			case "values":
				for range r.Array() {
					f.Values = append(f.Values, readFacetValue(r, locale))
				}
			}
		}
		if f.Key == "cancellationFlexibility" {
			f.Values = slices.DeleteFunc(f.Values, func(v hotel.FacetValue) bool { return !slices.Contains(flexibilities, v.Value) })
		}
		out = append(out, f)
	}
	return out
}

func readFacetValue(r *jsonscan.Reader, locale bff.Locale) (v hotel.FacetValue) {
	for name := range r.Object() {
		switch name {
		case "value":
			v.Value = kebab(r.String())
		case "label":
			v.Label = readIn(r, locale)
		case "count":
			v.Count = r.Int()
		}
	}
	return v
}

func readSuggestions(r *jsonscan.Reader, locale bff.Locale) []hotel.Suggestion {
	if r.Null() {
		return nil
	}
	out := make([]hotel.Suggestion, 0, 8)
	for range r.Array() {
		var g hotel.Suggestion
		for name := range r.Object() {
			switch name {
			case "kind":
				g.Kind = r.String()
			case "label":
				g.Label = readIn(r, locale)
			case "city":
				g.City = r.String()
			case "cityNames":
				g.CityLabel = readIn(r, locale)
			case "region":
				g.Region = r.String()
			case "regionNames":
				g.RegionLabel = readIn(r, locale)
			case "country":
				g.Country = r.String()
			case "geo":
				g.Geo = readGeo(r)
			case "propertyId":
				g.PropertyID = readID(r, bff.PrefixProperty)
			}
		}
		g.CityLabel, g.RegionLabel = cmp.Or(g.CityLabel, g.City), cmp.Or(g.RegionLabel, g.Region)
		out = append(out, g)
	}
	return out
}
