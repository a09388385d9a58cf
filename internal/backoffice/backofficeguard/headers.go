package backofficeguard

import (
	"hash/maphash"
	"net/http"
	"strconv"
	"strings"
	"time"

	"melmastoon.ghasi.io/bff"
	"melmastoon.ghasi.io/bff/internal/backoffice"
	"melmastoon.ghasi.io/bff/internal/backoffice/device"
	"melmastoon.ghasi.io/bff/internal/backoffice/identity"
	"melmastoon.ghasi.io/bff/internal/issuer"
	"melmastoon.ghasi.io/bff/internal/web"
)

// headers are what a request says of its sender, of the right shape and size.
type headers struct {
	token    string
	proof    string // "" if there is none, or more than one
	device   bff.ID
	app      backoffice.App
	version  version
	property bff.ID // zero if there is none
}

const (
	maxHeader   = 64
	maxOperator = 64
)

// readHeaders reads the headers of a request that carries an access token.
func readHeaders(r *http.Request, ofProperty bool) (*headers, error) {
	token, err := bearer(r.Header)
	if err != nil {
		return nil, err
	}
	sent, err := readProofHeaders(r, ofProperty)
	if err != nil {
		return nil, err
	}
	sent.token = token
	return sent, nil
}

// bearer reads the access token. Both schemes are understood: RFC 9449 has DPoP,
// older apps send Bearer with the same token and proof.
func bearer(h http.Header) (string, error) {
	values := h["Authorization"]
	if len(values) != 1 || len(values[0]) > issuer.MaxToken {
		return "", unauthenticated(nil)
	}
	scheme, token, _ := strings.Cut(values[0], " ")
	if !strings.EqualFold(scheme, "DPoP") && !strings.EqualFold(scheme, "Bearer") || token == "" {
		return "", unauthenticated(nil)
	}
	return token, nil
}

// readProofHeaders reads the headers of any request, and reports all that is wrong. The
// property is looked at only where one is needed: apps send it along with every call, and
// one that is wrong must not keep an operator from signing out.
func readProofHeaders(r *http.Request, ofProperty bool) (*headers, error) {
	var (
		bad bff.FieldErrors
		out headers
		err error
		h   = r.Header
	)
	if v := h["Dpop"]; len(v) == 1 { // several are as good as none (RFC 9449 §4.3)
		out.proof = v[0]
	}
	dev, given := only(h, "X-Device-Id", &bad)
	if !given {
		bad.Add("X-Device-Id", bff.FieldRequired)
	} else if out.device, err = bff.ParseID(bff.PrefixDevice, dev); err != nil {
		bad.Add("X-Device-Id", bff.FieldFormat)
	}
	if v, given := only(h, "X-App-Version", &bad); given {
		if out.version, given = parseVersion(v); !given {
			bad.Add("X-App-Version", bff.FieldFormat)
		}
		out.app.Version = v
	}
	if v, given := only(h, "X-App-Platform", &bad); given {
		out.app.Platform = oneOf("X-App-Platform", v, device.Platforms(), &bad)
	}
	if v, given := only(h, "X-Network-Profile", &bad); given {
		oneOf("X-Network-Profile", v, device.NetworkProfiles(), &bad)
	}
	if ofProperty {
		if v, given := only(h, "X-Property-Id", &bad); given {
			if out.property, err = bff.ParseID(bff.PrefixProperty, v); err != nil {
				bad.Add("X-Property-Id", bff.FieldFormat)
			}
		}
	}
	return &out, bad.Err()
}

// only is the value of a header that may be there once.
func only(h http.Header, name string, bad *bff.FieldErrors) (value string, given bool) {
	values := h[name]
	switch {
	case len(values) == 0 || len(values) == 1 && values[0] == "":
		return "", false
	case len(values) > 1:
		bad.Add(name, bff.FieldConflict)
	case len(values[0]) > maxHeader:
		bad.Add(name, bff.FieldLength)
	default:
		return values[0], true
	}
	return "", false
}

func oneOf(name, value string, words []string, bad *bff.FieldErrors) string {
	for _, w := range words {
		if w == value {
			return w
		}
	}
	bad.Offer(name, words)
	return ""
}

// caller is the sender of a request by its token, which must be bound to a key and be
// for the device that the request names.
func (g *Guard) caller(t *issuer.Token, sent *headers, r *http.Request) (backoffice.Caller, error) {
	tenant, err := bff.ParseID(bff.PrefixTenant, t.Claim("tid"))
	if err != nil || t.KeyPrint == "" || !readable(t.Subject) {
		return backoffice.Caller{}, unauthenticated(err)
	}
	claimed := t.Claim("device_id")
	if alias := t.Claim("did"); claimed == "" {
		claimed = alias
	} else if alias != "" && alias != claimed {
		return backoffice.Caller{}, unauthenticated(nil)
	}
	if device, err := bff.ParseID(bff.PrefixDevice, claimed); err != nil || device != sent.device {
		return backoffice.Caller{}, bff.Errorf(bff.CodeDeviceMismatch, "the token belongs to another device: sign in on this one")
	}
	h := r.Header
	return backoffice.Caller{
		Tenant: tenant, Operator: t.Subject, Device: sent.device, TokenHash: t.Hash, TokenIssued: t.Issued, TokenExpires: expiry(t), KeyPrint: t.KeyPrint,
		App:             sent.app,
		IPHash:          g.sum("ip", web.From(r.Context()).ClientIP.String()),
		FingerprintHash: g.sum("fingerprint", h.Get("User-Agent"), h.Get("Accept-Language"), sent.app.Platform),
	}, nil
}

// expiry is when a token is refused: it does not outlive the tombstones.
func expiry(t *issuer.Token) time.Time {
	if longest := t.Issued.Add(identity.TokenLifetime); t.Expires.After(longest) {
		return longest
	}
	return t.Expires
}

// readable accepts an operator's id: it becomes part of keys, rows and events.
func readable(id string) bool {
	if id == "" || len(id) > maxOperator {
		return false
	}
	for i := range len(id) {
		if id[i] <= ' ' || id[i] > '~' {
			return false
		}
	}
	return true
}

// propertyOf is the property that a request is about, in the query or in a header.
func propertyOf(r *http.Request, sent *headers) (bff.ID, error) {
	property := sent.property
	if given := r.URL.Query()["propertyId"]; len(given) > 0 {
		id, err := bff.ParseID(bff.PrefixProperty, given[0])
		switch {
		case err != nil:
			return property, bff.FieldErrors{{Field: "propertyId", Code: bff.FieldFormat}}.Err()
		case len(given) > 1, !property.IsZero() && property != id:
			return property, bff.FieldErrors{{Field: "propertyId", Code: bff.FieldConflict}}.Err()
		}
		property = id
	}
	if property.IsZero() {
		return property, bff.FieldErrors{{Field: "propertyId", Code: bff.FieldRequired}}.Err()
	}
	return property, nil
}

// version is an app's: up to four numbers. What follows a dash or a plus is a build,
// and is not compared.
type version [4]uint32

func parseVersion(s string) (v version, ok bool) {
	if i := strings.IndexAny(s, "-+"); i >= 0 {
		s = s[:i]
	}
	parts := strings.Split(s, ".")
	if len(parts) > len(v) {
		return v, false
	}
	for i, p := range parts {
		n, err := strconv.ParseUint(p, 10, 31)
		if err != nil {
			return v, false
		}
		v[i] = uint32(n)
	}
	return v, true
}

func (v version) before(w version) bool {
	for i := range v {
		if v[i] != w[i] {
			return v[i] < w[i]
		}
	}
	return false
}

var seed = maphash.MakeSeed()

func spread(s string) uint64 { return maphash.String(seed, s) }
