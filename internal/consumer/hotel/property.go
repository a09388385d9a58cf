package hotel

import (
	"encoding/json"
	"time"

	"melmastoon.ghasi.io/bff"
)

// Address is where a hotel is.
type Address struct {
	Line        string `json:"line"`
	City        string `json:"city"`
	CityLabel   string `json:"cityLabel"` // in the guest's language
	Region      string `json:"region"`
	RegionLabel string `json:"regionLabel"`
	Country     string `json:"country"`
}

// RoomTypeSummary is one kind of room.
type RoomTypeSummary struct {
	RoomTypeID   string              `json:"roomTypeId"`
	Name         bff.LocalizedString `json:"name"`
	MaxOccupancy RoomCapacity        `json:"maxOccupancy"`
	Beds         []Bed               `json:"beds"`
	SizeSqm      *float64            `json:"sizeSqm,omitempty"`
	Amenities    []string            `json:"amenities"`
	PhotoURLs    []string            `json:"photoUrls"`
}

// RoomCapacity is how many a room sleeps.
type RoomCapacity struct {
	Adults   int `json:"adults"`
	Children int `json:"children"`
}

// Bed is a kind of bed and how many there are.
type Bed struct {
	Type  string `json:"type"`
	Count int    `json:"count"`
}

// Amenity is something that a hotel offers.
type Amenity struct {
	Code     string `json:"code"`
	Label    string `json:"label"`
	Category string `json:"category"`
}

// Photo is a picture of a hotel.
type Photo struct {
	URL    string `json:"url"`
	Alt    string `json:"alt"`
	IsHero bool   `json:"isHero"`
}

// Policies are a hotel's rules in the guest's language.
type Policies struct {
	Cancellation string `json:"cancellation"`
	CheckIn      string `json:"checkIn"`
	CheckOut     string `json:"checkOut"`
}

// Popularity says how much a hotel is wanted now.
type Popularity struct {
	BookedLast24h int `json:"bookedLast24h"`
	ViewedLast1h  int `json:"viewedLast1h"`
}

// Property is a hotel as property-service describes it, in one locale.
type Property struct {
	PropertyID            bff.ID
	TenantID              bff.ID
	Name                  bff.LocalizedString
	Description           *bff.LocalizedString
	PropertyType          string
	StarRating            *float64
	Address               Address
	Geo                   LatLng
	Rooms                 []RoomTypeSummary
	Amenities             []Amenity
	Photos                []Photo
	Policies              Policies
	Sharia                bool
	TranslationProvenance json.RawMessage `json:",omitempty"` // absent stays absent through the cache
	// StaleAge is how old the description is when it could not be renewed; zero
	// when it is as fresh as it should be.
	StaleAge time.Duration `json:"-"`
}

// Projected is what the search projection knows of one hotel.
type Projected struct {
	Listing    Listing
	Texts      ListingTexts
	Popularity *Popularity
	// StaleAge is how old this is when the projection could not be asked again;
	// zero when it is as fresh as it should be.
	StaleAge time.Duration `json:"-"`
}
