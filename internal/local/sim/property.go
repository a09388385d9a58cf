package sim

import (
	"melmastoon.ghasi.io/bff"
)

// Property is a house as its owner describes it.
type Property struct {
	PropertyID            string         `json:"propertyId"`
	TenantID              string         `json:"tenantId"`
	Name                  Text           `json:"name"`
	Description           Text           `json:"description"`
	StarRating            int            `json:"starRating,omitempty"`
	PropertyType          string         `json:"propertyType"`
	Address               Address        `json:"address"`
	Geo                   Point          `json:"geo"`
	Region                string         `json:"region"`
	TimeZone              string         `json:"timeZone"`
	Rooms                 []RoomType     `json:"rooms"`
	Amenities             []Amenity      `json:"amenities"`
	Photos                []Photo        `json:"photos"`
	Policies              Policies       `json:"policies"`
	ShariaCompliant       bool           `json:"shariaCompliant"`
	TranslationProvenance map[string]any `json:"translationProvenance,omitempty"`
}

// Address is where the house stands.
type Address struct {
	Line        string `json:"line,omitempty"`
	City        string `json:"city"`
	CityNames   Text   `json:"cityNames"`
	Region      string `json:"region"`
	RegionNames Text   `json:"regionNames"`
	Country     string `json:"country"`
}

// RoomType is a kind of room that the house sells.
type RoomType struct {
	RoomTypeID   string       `json:"roomTypeId"`
	Name         Text         `json:"name"`
	MaxOccupancy MaxOccupancy `json:"maxOccupancy"`
	Beds         []bed        `json:"beds"`
	SizeSqm      int          `json:"sizeSqm,omitempty"`
	Amenities    []string     `json:"amenities"`
	PhotoURLs    []string     `json:"photoUrls"`
}

// MaxOccupancy is who fits a room.
type MaxOccupancy struct {
	Adults   int `json:"adults"`
	Children int `json:"children"`
}

// Amenity is an amenity with its names.
type Amenity struct {
	Code     string `json:"code"`
	Label    Text   `json:"label"`
	Category string `json:"category"`
}

// Photo is a picture of the house.
type Photo struct {
	URL    string `json:"url"`
	Alt    Text   `json:"alt"`
	IsHero bool   `json:"isHero"`
}

// Policies are the rules of the house.
type Policies struct {
	Cancellation Text   `json:"cancellation"`
	CheckIn      string `json:"checkIn"`
	CheckOut     string `json:"checkOut"`
}

func (s *Sim) propertyRoutes() {
	s.handle("property", "GET /api/v1/properties/{propertyId}", func(c *call) (any, error) {
		p, err := s.property(c)
		if err != nil {
			return nil, err
		}
		return s.describe(p, c.base), nil
	})
	s.handle("property", "GET /api/v1/tenants/{tenantId}/properties", func(c *call) (any, error) {
		t, err := s.tenant(c)
		if err != nil {
			return nil, err
		}
		items := make([]PropertySummary, 0, len(t.properties))
		for _, p := range t.properties {
			items = append(items, PropertySummary{p.id, t.id, p.names.text(), p.address(""), p.country.zone.String()})
		}
		return ofTenantList(s, c, t, items)
	})
	s.mux.HandleFunc("GET /media/{owner}/{file}", s.media)
}

// PropertySummary is a house in the list of its tenant's.
type PropertySummary struct {
	PropertyID string  `json:"propertyId"`
	TenantID   string  `json:"tenantId"`
	Name       Text    `json:"name"`
	Address    Address `json:"address"`
	TimeZone   string  `json:"timeZone"`
}

// ofTenantList is a page of what a tenant has, for callers that ask for that tenant.
func ofTenantList[T any](s *Sim, c *call, t *tenant, items []T) (any, error) {
	if err := c.ofTenant(t); err != nil {
		return nil, err
	}
	out, err := pageOf(s, c, nil, 0, items)
	out.TenantID, out.Date = t.id, nil
	return out, err
}

func (p *property) address(line string) Address {
	c := p.city
	return Address{Line: line, City: c.names.En, CityNames: c.texts[0], Region: c.region.En, RegionNames: c.texts[1], Country: p.country.code}
}

func (s *Sim) describe(p *property, base string) Property {
	rnd := stream{mix(p.seed, kindRoomType)}
	typ := s.data.types[p.kind]
	out := Property{
		PropertyID: p.id, TenantID: p.tenant.id, Name: p.names.text(), StarRating: p.stars, PropertyType: typ.code,
		Description: Names{
			En: p.names.En + " welcomes its guests in " + p.neighbourhood.En + ", " + p.city.names.En + ", with tea on arrival and " + p.city.region.En + " at the door.",
			Ps: p.names.Ps + " په " + p.city.names.Ps + " کې خپلو مېلمنو ته ښه راغلاست وايي.",
			Fa: p.names.Fa + " در " + p.city.names.Fa + " به مهمانان خود خوش\u200cآمد می\u200cگوید.",
		}.text(),
		Address: p.address(p.neighbourhood.En + ", Street " + itoa(rnd.between(1, 40)) + ", House " + itoa(rnd.between(1, 300))),
		Geo:     p.geo, Region: p.city.region.En, TimeZone: p.country.zone.String(), ShariaCompliant: p.sharia, Amenities: []Amenity{},
		Policies: Policies{
			Cancellation: cancellations()[p.cancellation].text(),
			CheckIn:      []string{"12:00", "13:00", "14:00", "15:00"}[rnd.below(4)],
			CheckOut:     []string{"10:00", "11:00", "12:00"}[rnd.below(3)],
		},
	}
	for i, a := range s.data.amenities {
		if p.amenities>>i&1 == 1 {
			out.Amenities = append(out.Amenities, Amenity{a.code, a.names.text(), a.category})
		}
	}
	photos := 3 + rnd.below(3)
	for n := range photos {
		out.Photos = append(out.Photos, Photo{photoURL(base, p, n), p.photoAlt(n), n == 0})
	}
	for n, k := range roomKinds()[:p.roomTypes] {
		room := RoomType{
			RoomTypeID: derivedID(bff.PrefixRoomType, p.seed, kindRoomType, uint64(n)),
			Name:       k.names.text(), MaxOccupancy: MaxOccupancy{k.adults, k.child}, Beds: k.beds,
			SizeSqm: k.sqm + rnd.below(9), Amenities: []string{}, PhotoURLs: []string{photoURL(base, p, 1+n%(photos-1))},
		}
		for i, a := range s.data.amenities {
			if p.amenities>>i&1 == 1 && (a.category == "comfort" || a.category == "connectivity") {
				room.Amenities = append(room.Amenities, a.code)
			}
		}
		out.Rooms = append(out.Rooms, room)
	}
	if rnd.chance(25) {
		out.TranslationProvenance = map[string]any{
			"ps": map[string]any{"source": "en", "model": "translate-ps", "modelVersion": "2026-01", "reviewed": rnd.chance(50)},
		}
	}
	return out
}
