package consumer

import "slices"

// AppendJSON appends the page to b.
func (d *HotelDetail) AppendJSON(b []byte) ([]byte, error) {
	w := writer{b: slices.Grow(b, d.roughly())}
	w.raw(`{"property":`)
	w.summary(&d.Property)
	w.raw(`,"rooms":`)
	list(&w, d.Rooms, (*writer).room)
	w.raw(`,"amenities":`)
	list(&w, d.Amenities, (*writer).amenity)
	w.raw(`,"photos":`)
	list(&w, d.Photos, (*writer).photo)
	w.raw(`,"policies":`)
	w.policies(&d.Policies)
	w.raw(`,"brandPeek":`).brand(&d.BrandPeek)
	w.raw(`,"cheapestRateSnapshot":`).rate(d.CheapestRateSnapshot)
	if len(d.PriceCalendarPreview) > 0 {
		w.raw(`,"priceCalendarPreview":`)
		list(&w, d.PriceCalendarPreview, (*writer).night)
	}
	if len(d.SimilarProperties) > 0 {
		w.raw(`,"similarProperties":`)
		list(&w, d.SimilarProperties, (*writer).card)
	}
	if p := d.PopularitySignals; p != nil {
		w.raw(`,"popularitySignals":`)
		w.popularity(p)
	}
	w.raw(`,"handoffHint":{"url":`).string(d.HandoffHint.URL).raw(`,"ttlSeconds":`).int(d.HandoffHint.TTLSeconds)
	w.raw(`},"degraded":`)
	list(&w, d.Degraded, (*writer).degradation)
	w.raw(`,"stale":`).bool(d.Stale).raw(`}`)
	return w.b, w.err
}

// AppendJSON appends the hotel, as a cache keeps it, to b.
func (p *Property) AppendJSON(b []byte) ([]byte, error) {
	page := HotelDetail{Rooms: p.Rooms, Amenities: p.Amenities, Photos: p.Photos}
	w := writer{b: slices.Grow(b, page.roughly())}
	w.raw(`{"PropertyID":`).id(p.PropertyID).raw(`,"TenantID":`).id(p.TenantID).raw(`,"Name":`).localized(&p.Name)
	w.raw(`,"Description":`)
	if p.Description == nil {
		w.raw(`null`)
	} else {
		w.localized(p.Description)
	}
	w.raw(`,"PropertyType":`).string(p.PropertyType).raw(`,"StarRating":`).floatOrNull(p.StarRating)
	w.raw(`,"Address":`)
	w.address(&p.Address)
	w.raw(`,"Geo":`).geo(p.Geo)
	w.raw(`,"Rooms":`)
	list(&w, p.Rooms, (*writer).room)
	w.raw(`,"Amenities":`)
	list(&w, p.Amenities, (*writer).amenity)
	w.raw(`,"Photos":`)
	list(&w, p.Photos, (*writer).photo)
	w.raw(`,"Policies":`)
	w.policies(&p.Policies)
	w.raw(`,"Sharia":`).bool(p.Sharia)
	w.message(`,"TranslationProvenance":`, p.TranslationProvenance)
	w.raw(`}`)
	return w.b, w.err
}

func (w *writer) policies(p *Policies) {
	w.raw(`{"cancellation":`).string(p.Cancellation).raw(`,"checkIn":`).string(p.CheckIn).raw(`,"checkOut":`).string(p.CheckOut).raw(`}`)
}

func (w *writer) address(a *Address) {
	w.raw(`{"line":`).string(a.Line).raw(`,"city":`).string(a.City)
	w.raw(`,"region":`).string(a.Region).raw(`,"country":`).string(a.Country).raw(`}`)
}

// roughly is how long the page will be: to grow it piece by piece costs more than
// to write it.
func (d *HotelDetail) roughly() int {
	n := 2048 + 100*len(d.Amenities) + 200*len(d.Photos) + 1024*len(d.SimilarProperties) + len(d.Property.TranslationProvenance)
	for i := range d.Rooms {
		n += 300 + 32*len(d.Rooms[i].Amenities) + 120*len(d.Rooms[i].PhotoURLs)
	}
	return n
}

func (w *writer) summary(p *PropertySummary) {
	w.raw(`{"propertyId":`).id(p.PropertyID).raw(`,"tenantId":`).id(p.TenantID)
	w.raw(`,"tenantSlug":`).string(p.TenantSlug)
	w.raw(`,"name":`).localized(&p.Name)
	if p.Description != nil {
		w.raw(`,"description":`).localized(p.Description)
	}
	w.raw(`,"propertyType":`).string(p.PropertyType)
	w.maybeFloat(`,"starRating":`, p.StarRating)
	w.rating(p.GuestRating)
	w.raw(`,"address":`)
	w.address(&p.Address)
	w.raw(`,"geo":`).geo(p.Geo)
	w.raw(`,"badges":`)
	list(w, p.Badges, (*writer).badge)
	w.message(`,"translationProvenance":`, p.TranslationProvenance)
	w.raw(`}`)
}

func (w *writer) room(r *RoomTypeSummary) {
	w.raw(`{"roomTypeId":`).string(r.RoomTypeID).raw(`,"name":`).localized(&r.Name)
	w.raw(`,"maxOccupancy":{"adults":`).int(r.MaxOccupancy.Adults).raw(`,"children":`).int(r.MaxOccupancy.Children)
	w.raw(`},"beds":`)
	list(w, r.Beds, (*writer).bed)
	w.maybeFloat(`,"sizeSqm":`, r.SizeSqm)
	w.raw(`,"amenities":`)
	list(w, r.Amenities, (*writer).element)
	w.raw(`,"photoUrls":`)
	list(w, r.PhotoURLs, (*writer).element)
	w.raw(`}`)
}

func (w *writer) bed(b *Bed) {
	w.raw(`{"type":`).string(b.Type).raw(`,"count":`).int(b.Count).raw(`}`)
}

func (w *writer) amenity(a *Amenity) {
	w.raw(`{"code":`).string(a.Code).raw(`,"label":`).string(a.Label).raw(`,"category":`).string(a.Category).raw(`}`)
}

func (w *writer) photo(p *Photo) {
	w.raw(`{"url":`).string(p.URL).raw(`,"alt":`).string(p.Alt).raw(`,"isHero":`).bool(p.IsHero).raw(`}`)
}

func (w *writer) night(d *CalendarDay) {
	w.raw(`{"date":`).date(d.Date).raw(`,"cheapestMinor":`).string(d.CheapestMinor).raw(`,"currency":`).string(string(d.Currency)).raw(`}`)
}
