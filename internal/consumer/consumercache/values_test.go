package consumercache

import (
	"context"
	"runtime"
	"testing"
	"time"

	"melmastoon.ghasi.io/bff"
	"melmastoon.ghasi.io/bff/internal/cache"
	"melmastoon.ghasi.io/bff/internal/consumer"
)

func hotelValues(t *testing.T) (*cache.Store, *values[consumer.Projected]) {
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
	return store, newValues[consumer.Projected](c)
}

func (c *values[T]) count() (n int) {
	c.known.Range(func(any, any) bool { n++; return true })
	return n
}

func TestValuesAreDecodedOnce(t *testing.T) {
	t.Parallel()
	store, hotels := hotelValues(t)
	fetched := 0
	read := func() consumer.Projected {
		t.Helper()
		p, age, err := hotels.get(t.Context(), "test:bff-consumer:1", func(context.Context) (consumer.Projected, []string, error) {
			fetched++
			return consumer.Projected{
				Listing: consumer.Listing{Name: bff.LocalizedString{Default: "House"}}, Popularity: &consumer.Popularity{BookedLast24h: fetched},
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

// A value is no longer known once its entry is gone.
func TestValuesGoWithTheirEntries(t *testing.T) {
	t.Parallel()
	_, hotels := hotelValues(t)
	func() {
		entry, _, err := hotels.cache.Fetch(t.Context(), func(context.Context) (cache.Fill, error) {
			return cache.Fill{Body: []byte(`{"Popularity":{"viewedLast1h":3}}`)}, nil
		})
		if err != nil {
			t.Fatal(err)
		}
		for range 2 {
			if p, err := hotels.value(entry, nil); err != nil || p.Popularity.ViewedLast1h != 3 || hotels.count() != 1 {
				t.Fatalf("%+v, %v, %d known", p, err, hotels.count())
			}
		}
		runtime.KeepAlive(entry)
	}()
	for deadline := time.Now().Add(10 * time.Second); hotels.count() > 0; runtime.GC() {
		if time.Now().After(deadline) {
			t.Fatal("the value outlives its entry")
		}
	}
}
