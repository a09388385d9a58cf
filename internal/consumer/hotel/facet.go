package hotel

import (
	"time"

	"melmastoon.ghasi.io/bff"
)

// FacetCatalog is what a region can be filtered by.
type FacetCatalog struct {
	Country     string  `json:"country"`
	Region      string  `json:"region,omitempty"`
	RegionLabel string  `json:"regionLabel,omitempty"`
	Facets      []Facet `json:"facets"`
	Stale       bool    `json:"stale,omitempty"`
}

// MarkStale says of a catalog that could not be renewed that it is old.
func (c *FacetCatalog) MarkStale(time.Duration, time.Time) { c.Stale = true }

// Facet is one filter with its values.
type Facet struct {
	Key    string       `json:"key"`
	Label  string       `json:"label"`
	Values []FacetValue `json:"values"`
}

// FacetValue is one choice and how many hotels it leaves.
type FacetValue struct {
	Value string `json:"value"`
	Label string `json:"label"`
	Count int    `json:"count"`
}

// Suggestion is a destination that completes what a guest typed.
type Suggestion struct {
	Kind        string `json:"kind"`
	Label       string `json:"label"`
	City        string `json:"city,omitempty"`
	CityLabel   string `json:"cityLabel,omitempty"`
	Region      string `json:"region,omitempty"`
	RegionLabel string `json:"regionLabel,omitempty"`
	Country     string `json:"country"`
	Geo         LatLng `json:"geo"`
	PropertyID  bff.ID `json:"propertyId,omitzero"`
}

// Suggestions complete what a guest typed.
type Suggestions struct {
	Suggestions []Suggestion `json:"suggestions"`
	Stale       bool         `json:"stale,omitempty"`
}

// MarkStale says of suggestions that could not be renewed that they are old.
func (s *Suggestions) MarkStale(time.Duration, time.Time) { s.Stale = true }
