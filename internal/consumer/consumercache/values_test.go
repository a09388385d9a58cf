package consumercache

import (
	"context"
	"encoding/json"
	"reflect"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"melmastoon.ghasi.io/bff"
	"melmastoon.ghasi.io/bff/internal/cache"
	"melmastoon.ghasi.io/bff/internal/consumer"
	"melmastoon.ghasi.io/bff/internal/consumer/hotel"
)

func hotelValues(t *testing.T) (*cache.Store, *values[hotel.Projected]) {
	t.Helper()
	store, err := cache.NewStore(cache.StoreConfig{Prefix: "test:bff-consumer:"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { store.Close(context.WithoutCancel(t.Context())) })
	c, err := cache.New(store, cache.Config{Name: "hotels", Raw: true, MaxBytes: 1 << 20, TTL: func() cache.TTL { return cache.TTL{Fresh: time.Hour} }})
	if err != nil {
		t.Fatal(err)
	}
	return store, newValues[hotel.Projected](c)
}

func TestValuesAreDecodedOnce(t *testing.T) {
	t.Parallel()
	store, hotels := hotelValues(t)
	fetched := 0
	read := func() hotel.Projected {
		t.Helper()
		p, age, err := hotels.get(t.Context(), "test:bff-consumer:1", func(context.Context) (hotel.Projected, []string, error) {
			fetched++
			return hotel.Projected{
				Listing: hotel.Listing{Name: bff.LocalizedString{Default: "House"}}, Popularity: &hotel.Popularity{BookedLast24h: fetched},
			}, []string{"tenant:7"}, nil
		})
		if err != nil || age != 0 || p.Listing.Name.Default != "House" {
			t.Fatalf("%+v, %v, %v", p, age, err)
		}
		return p
	}
	first := read()
	if second := read(); fetched != 1 || first.Popularity != second.Popularity {
		t.Errorf("fetched %d times, %p and %p", fetched, first.Popularity, second.Popularity)
	}
	if err := store.Invalidate(t.Context(), "tenant:7"); err != nil {
		t.Fatal(err)
	}
	if third := read(); fetched != 2 || third.Popularity.BookedLast24h != 2 {
		t.Errorf("after an invalidation: fetched %d times, %+v", fetched, third.Popularity)
	}
}

// What another process filled is decoded once.
func TestValuesOfAnotherProcess(t *testing.T) {
	t.Parallel()
	_, hotels := hotelValues(t)
	entryOf := func(body string) *cache.Entry {
		t.Helper()
		entry, _, err := hotels.cache.Fetch(t.Context(), func(context.Context) (cache.Fill, error) {
			return cache.Fill{Body: []byte(body)}, nil
		})
		if err != nil {
			t.Fatal(err)
		}
		return entry
	}
	entry := entryOf(`{"Popularity":{"viewedLast1h":3}}`)
	first, err := valueOf[hotel.Projected](entry)
	if err != nil || first.Popularity.ViewedLast1h != 3 {
		t.Fatalf("%+v, %v", first, err)
	}
	if second, err := valueOf[hotel.Projected](entry); err != nil || second.Popularity != first.Popularity {
		t.Errorf("decoded again: %p and %p, %v", first.Popularity, second.Popularity, err)
	}
	if _, err := valueOf[hotel.Projected](entryOf(`{"Popularity":3}`)); err == nil {
		t.Error("another kind of value was accepted")
	}
}

// The cache's form keeps everything but the age, which is the entry's.
func TestFormOfTheCache(t *testing.T) {
	t.Parallel()
	name := bff.LocalizedString{Default: "House", Localized: map[string]string{"fa-AF": "خانه"}}
	star := 4.5
	listing := hotel.Listing{
		PropertyID: bff.NewID(bff.PrefixProperty, time.Now()), TenantID: bff.NewID(bff.PrefixTenant, time.Now()), TenantSlug: "house", Name: name,
		City: "Kabul", CityLabel: "کابل", Region: "Kabul Province", RegionLabel: "ولایت کابل", Country: "AF", PropertyType: "hotel", Geo: hotel.LatLng{Lat: 34.5, Lng: 69.2}, GeoCell: "h3:8a",
		Thumbnail: hotel.Image{URL: "https://x", Alt: "y"}, StarRating: &star, GuestRating: &hotel.GuestRating{Value: 8.5, Count: 7},
		Amenities: []string{"free-wifi"}, Sharia: true, ListedAt: time.UnixMilli(1_800_000_000_123).UTC(), DistanceKm: &star,
	}
	for f, v := range reflect.ValueOf(listing).Fields() {
		if v.IsZero() {
			t.Errorf("the listing has no %s", f.Name)
		}
	}
	survives(t, hotel.Listings{
		Items: []hotel.Listing{listing}, Total: 7, AIProvenance: json.RawMessage(`{"by":"x"}`), QueryRewriteHint: json.RawMessage(`"y"`),
		Order: consumer.Hash{1, 255},
	})
	survives(t, hotel.Projected{
		Listing: listing, Texts: hotel.ListingTexts{City: name, Region: name, Alt: name},
		Popularity: &hotel.Popularity{BookedLast24h: 2, ViewedLast1h: 3},
	})
	survives(t, hotel.BrandPeek{PrimaryColor: "#123456", LogoURL: "https://x", BrandName: name})
	survives(t, hotel.Property{
		PropertyID: listing.PropertyID, TenantID: listing.TenantID, Name: name, Description: &name, PropertyType: "hotel", StarRating: &star,
		Address: hotel.Address{Line: "1", City: "Kabul", Region: "K", Country: "AF"}, Geo: listing.Geo,
		Rooms:     []hotel.RoomTypeSummary{{RoomTypeID: "r", Name: name, Beds: []hotel.Bed{{Type: "twin", Count: 2}}, SizeSqm: &star}},
		Amenities: []hotel.Amenity{{Code: "a", Label: "b", Category: "c"}}, Photos: []hotel.Photo{{URL: "u", Alt: "v", IsHero: true}},
		Policies: hotel.Policies{Cancellation: "x", CheckIn: "y", CheckOut: "z"}, Sharia: true, TranslationProvenance: json.RawMessage(`{"by":"x"}`),
	})
}

func survives[T any](t *testing.T, v T) {
	t.Helper()
	body, err := json.Marshal(&v)
	if err != nil {
		t.Fatal(err)
	}
	var again T
	if err := json.Unmarshal(body, &again); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(v, again, cmpopts.EquateComparable(bff.ID{})); diff != "" {
		t.Errorf("%T (-kept +read):\n%s", v, diff)
	}
}
