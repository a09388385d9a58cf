package main

import (
	"cmp"
	"fmt"
	"io"
	"net/http"
	"os"

	booking "melmastoon.ghasi.io/bff/examples/booking/go/site"
	"melmastoon.ghasi.io/bff/internal/local/pages"
)

const (
	bookingPath     = "/booking"
	redirectSetting = "BFF_CONSUMER_REDIRECT_TEMPLATE"
)

const bookingText = "Hand-offs arrive below this address: POST /bff/consumer/v1/handoff answers with a url to open here.\n"

// mountBooking puts up the page on which hand-offs arrive, and has bff-consumer lead
// guests there unless the user's environment leads them elsewhere.
func mountBooking(site *pages.Site, env map[string]string) error {
	page, err := booking.New(func(name string) string { return env[name] })
	if err != nil {
		return fmt.Errorf("booking page: %w", err)
	}
	site.Handle(bookingPath+"/", http.StripPrefix(bookingPath, page))
	site.Handle("GET "+bookingPath+"/{$}", http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/plain; charset=utf-8")
		_, _ = io.WriteString(w, bookingText) // fails only if the client has left
	}))
	env[redirectSetting] = cmp.Or(os.Getenv(redirectSetting), site.URL+bookingPath+"/{tenantSlug}/book?h={token}")
	return nil
}
