// Package site is the page on which a guest of the storefront arrives at a hotel: it
// verifies the hand-off, consumes it and shows what came over. A booking service
// starts its own flow where this one shows the stay.
package site

import (
	"bytes"
	"cmp"
	"context"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"time"

	"melmastoon.ghasi.io/bff"
	"melmastoon.ghasi.io/bff/handoff"
)

type site struct {
	keys     *handoff.Keyring
	internal string // where bff-consumer takes the calls of other services
	bearer   string
	hmacKey  []byte
	upstream string // where the platform's tenant and property services are
	client   http.Client
}

// New serves hand-offs at /{tenantSlug}/book?h={token}. In production the slug is a
// part of the host name.
func New(getenv func(string) string) (http.Handler, error) {
	var missing []error
	need := func(name string) string {
		if getenv(name) == "" {
			missing = append(missing, errors.New(name+" is not set"))
		}
		return getenv(name)
	}
	s := &site{
		internal: need("MELMASTOON_CONSUMER_INTERNAL_URL"), bearer: need("MELMASTOON_INTERNAL_TOKEN"),
		hmacKey: []byte(need("MELMASTOON_INTERNAL_HMAC_KEY")), upstream: need("MELMASTOON_SIM_URL"),
		client: http.Client{Timeout: 5 * time.Second},
	}
	file := need("BFF_CONSUMER_HANDOFF_KEYS") // in production from the secret store
	if len(missing) > 0 {
		return nil, errors.Join(missing...)
	}
	keys, err := handoff.ParseKeySet([]byte(file))
	if err != nil {
		return nil, fmt.Errorf("BFF_CONSUMER_HANDOFF_KEYS: %w", err)
	}
	s.keys = handoff.NewKeyring(keys)
	mux := http.NewServeMux()
	mux.HandleFunc("GET /{slug}/book", s.book)
	return mux, nil
}

// stay is what came over.
type stay struct {
	handoff.Payload `json:"-"` // signed
	Hotel           hotel      `json:"-"`
	// What the token does not hold comes from the consume call.
	Unsigned struct {
		ChildrenAges []int `json:"childrenAges"`
	} `json:"occupancy"`
	PriceCheck   string `json:"priceCheck"`
	Shown        *price `json:"shown"`        // what the guest was shown
	CurrentPrice *price `json:"currentPrice"` // what it is now, if it changed
}

// hotel is what the platform's services say of the house.
type hotel struct {
	Name  text `json:"name"`
	Photo struct {
		URL string `json:"url"`
		Alt text   `json:"alt"`
	}
	Color string
}

// text is a text in several languages, of which Default names one.
type text struct {
	Default string            `json:"default"`
	Values  map[string]string `json:"values"`
}

// In returns the text in the guest's language, or in the one that its author has chosen.
func (t text) In(l bff.Locale) string {
	language, _, _ := strings.Cut(string(l), "-")
	return cmp.Or(t.Values[string(l)], t.Values[language], t.Values[t.Default])
}

// price is an amount at a moment.
type price struct {
	Minor      string        `json:"minor"`
	Currency   bff.Currency  `json:"currency"`
	CapturedAt bff.Timestamp `json:"capturedAt"`
}

// refusal is a page without a stay: its status, and the name of its words.
type refusal struct {
	status int
	word   string
}

func (r refusal) Error() string { return r.word }

var (
	errNone      = refusal{http.StatusBadRequest, "none"}
	errForged    = refusal{http.StatusUnauthorized, "forged"}
	errExpired   = refusal{http.StatusGone, "expired"}
	errUsed      = refusal{http.StatusConflict, "used"}
	errElsewhere = refusal{http.StatusNotFound, "elsewhere"}
	errSuspended = refusal{http.StatusForbidden, "suspended"}
	errAway      = refusal{http.StatusServiceUnavailable, "away"}
)

// arrive turns a token into a stay. The steps and their order are those of
// the documentation of package handoff.
func (s *site) arrive(r *http.Request) (stay, error) {
	token := r.URL.Query().Get("h") // never logged: until it is consumed it is worth a booking
	switch {
	case token == "":
		return stay{}, errNone
	case r.Header.Get("Sec-Purpose") != "": // a browser looks ahead: the guest has not come yet
		return stay{}, errAway
	}
	p, err := handoff.Verify(s.keys, token, time.Now())
	switch {
	case errors.Is(err, handoff.ErrExpired):
		return stay{}, errExpired
	case err != nil:
		return stay{}, errForged
	}
	var tenant struct{ Slug string }
	if err := s.find(r.Context(), "/tenant/api/v1/tenants/"+p.TenantID.String(), &tenant); err != nil {
		return stay{}, err
	}
	if tenant.Slug != r.PathValue("slug") {
		return stay{}, errElsewhere
	}
	house, err := s.hotel(r.Context(), p.TenantID, p.PropertyID)
	if err != nil {
		return stay{}, err
	}
	came, err := s.consume(r.Context(), p.ID.String(), token)
	came.Payload, came.Hotel = p, house
	return came, err
}

// hotel reads the name and a picture of the house, and the brand's colour: a page without
// colour is a page, one without the hotel's name is not.
func (s *site) hotel(ctx context.Context, tenant, property bff.ID) (hotel, error) {
	var house struct {
		hotel
		Photos []struct {
			URL    string `json:"url"`
			Alt    text   `json:"alt"`
			IsHero bool   `json:"isHero"`
		} `json:"photos"`
	}
	if err := s.find(ctx, "/property/api/v1/properties/"+property.String(), &house); err != nil {
		return hotel{}, err
	}
	for _, p := range house.Photos {
		if u, err := url.Parse(p.URL); err == nil && p.IsHero && (u.Scheme == "http" || u.Scheme == "https") {
			house.Photo.URL, house.Photo.Alt = p.URL, p.Alt
		}
	}
	house.Color = plainColor
	var theme struct {
		PrimaryColor string `json:"primaryColor"`
	}
	if s.find(ctx, "/theme-config/api/v1/tenants/"+tenant.String()+"/brand-peek", &theme) == nil && isColor.MatchString(theme.PrimaryColor) {
		house.Color = theme.PrimaryColor
	}
	return house.hotel, nil
}

const plainColor = "#1f4e5f"

// isColor accepts the one form of a colour that goes into the style sheet.
var isColor = regexp.MustCompile(`^#[0-9a-fA-F]{6}$`)

// consume uses the hand-off. An instance that repeats its call is told the same again
// for ten seconds, so each visit is an instance of its own: the next one is told that
// the hand-off was used.
func (s *site) consume(ctx context.Context, id, token string) (came stay, err error) {
	body, err := json.Marshal(map[string]string{"token": token, "instance": "booking-" + rand.Text()})
	if err != nil {
		return came, err
	}
	for range 2 { // a lost answer is asked for once more
		if err = s.post(ctx, "/internal/handoff/"+id+"/consume", body, &came); !errors.Is(err, errAway) {
			break
		}
	}
	return came, err
}

// post makes a call that only services may make: a bearer token says which service
// calls, and a signature that nothing was changed on the way.
func (s *site) post(ctx context.Context, path string, body []byte, answer any) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, s.internal+path, bytes.NewReader(body))
	if err != nil {
		return err
	}
	digest, now := sha256.Sum256(body), time.Now().Unix()
	mac := hmac.New(sha256.New, s.hmacKey)
	_, _ = fmt.Fprintf(mac, "POST\n%s\n%d\n%s", path, now, hex.EncodeToString(digest[:])) // a hash takes everything
	req.Header.Set("Authorization", "Bearer "+s.bearer)
	req.Header.Set("X-Internal-HMAC", fmt.Sprintf("t=%d,v1=%s", now, hex.EncodeToString(mac.Sum(nil))))
	req.Header.Set("Content-Type", "application/json")
	return s.do(req, answer)
}

// find reads from a service of the platform.
func (s *site) find(ctx context.Context, path string, answer any) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, s.upstream+path, nil)
	if err != nil {
		return err
	}
	return s.do(req, answer)
}

const maxAnswer = 1 << 20

func (s *site) do(req *http.Request, answer any) error {
	res, err := s.client.Do(req)
	if err != nil {
		return errAway // without the cause, which may name the address
	}
	defer func() { _ = res.Body.Close() }()
	switch res.StatusCode {
	case http.StatusOK:
		if json.NewDecoder(io.LimitReader(res.Body, maxAnswer)).Decode(answer) != nil {
			return errAway
		}
		return nil
	case http.StatusNotFound:
		return errElsewhere
	case http.StatusConflict:
		return errUsed
	case http.StatusGone:
		return errExpired
	case http.StatusForbidden:
		return errSuspended
	}
	return errAway // also 401: our own credentials are wrong, which is no fault of the guest
}
