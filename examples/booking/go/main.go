// Booking receives guests that the storefront hands off to a hotel. It is an
// example for booking teams to copy, and what `melmastoon up` runs as its booking page.
package main

import (
	"fmt"
	"net/http"
	"os"
	"time"

	"melmastoon.ghasi.io/bff/examples/booking/go/site"
)

func main() {
	booking, err := site.New(os.Getenv)
	if err != nil {
		fmt.Fprintln(os.Stderr, "booking:", err)
		os.Exit(1)
	}
	listen := os.Getenv("BOOKING_LISTEN")
	if listen == "" {
		listen = "127.0.0.1:8086"
	}
	_, _ = fmt.Fprintln(os.Stdout, "Hand-offs arrive at http://"+listen+"/{tenantSlug}/book?h={token}")
	server := &http.Server{Addr: listen, Handler: booking, ReadHeaderTimeout: 5 * time.Second}
	fmt.Fprintln(os.Stderr, "booking:", server.ListenAndServe())
	os.Exit(1)
}
