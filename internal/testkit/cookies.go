package testkit

import (
	"net/http"
	"strings"
)

// The cookies of a guest of the anonymous service.
const (
	idCookie   = "gms_id"
	cardCookie = "__Host-gms_card"
)

// CookieHeader is the Cookie header of a guest with a session's id and a card, or
// with one of them.
func CookieHeader(id, card string) string {
	var sent []string
	if id != "" {
		sent = append(sent, idCookie+"="+id)
	}
	if card != "" {
		sent = append(sent, cardCookie+"="+card)
	}
	return strings.Join(sent, "; ")
}

// TakeCookies keeps what an answer sets of a guest's cookies. An expired one is
// empty.
func TakeCookies(h http.Header, id, card *string) {
	for _, c := range (&http.Response{Header: h}).Cookies() {
		if c.MaxAge < 0 {
			c.Value = ""
		}
		switch c.Name {
		case idCookie:
			*id = c.Value
		case cardCookie:
			*card = c.Value
		}
	}
}
