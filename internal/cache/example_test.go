package cache_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"time"

	"melmastoon.ghasi.io/bff/internal/cache"
)

func Example() {
	store, err := cache.NewStore(cache.StoreConfig{Prefix: "dev:bff-consumer:"}) // Redis: a client, for the shared tier
	if err != nil {
		fmt.Println(err)
		return
	}
	ctx := context.Background()
	defer store.Close(ctx)
	details, err := cache.New(store, cache.Config{
		Name: "detail", Shared: true, MaxBytes: 64 << 20,
		TTL: func() cache.TTL {
			return cache.TTL{Fresh: 5 * time.Minute, Grace: 10 * time.Second, Stale: 10 * time.Minute}
		},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	handler := func(w http.ResponseWriter, r *http.Request) {
		entry, status, err := details.Get(r.Context(), "dev:bff-consumer:cache:detail:1", func(context.Context) (cache.Fill, error) {
			return cache.Fill{Body: []byte(`{"name":"Serena"}`), Tags: []string{"property:1", "tenant:7"}}, nil
		})
		if err != nil {
			w.WriteHeader(http.StatusServiceUnavailable)
			return
		}
		entry.Serve(w, r, status)
	}
	ask := func() {
		w := httptest.NewRecorder()
		handler(w, httptest.NewRequestWithContext(ctx, http.MethodGet, "/", http.NoBody))
		fmt.Println(w.Header().Get("X-Cache"), w.Body)
	}
	ask()
	ask()
	if err := store.Invalidate(ctx, "tenant:7"); err != nil {
		fmt.Println(err)
	}
	ask()
	// Output:
	// MISS {"name":"Serena"}
	// HIT {"name":"Serena"}
	// MISS {"name":"Serena"}
}
