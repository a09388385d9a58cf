package consumerhttp

import (
	"encoding/json"
	"maps"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"time"

	"melmastoon.ghasi.io/bff"
	"melmastoon.ghasi.io/bff/internal/consumer"
	"melmastoon.ghasi.io/bff/internal/consumer/telemetry"
	"melmastoon.ghasi.io/bff/internal/web"
)

// accepted promises that the event is committed; or that none is wanted, because
// the guest refused, or that there is no session that it could belong to.
type accepted struct {
	Accepted bool   `json:"accepted"`
	ID       string `json:"id"`
}

// retryTelemetry is when a client may report again what was not taken.
const retryTelemetry = 2 * time.Second

// promise journals what a client reports and answers only then: what was
// accepted is not lost, whatever dies next. An empty id stands for the event's.
func (a *API) promise(w http.ResponseWriter, r *http.Request, s consumer.GuestSession, f consumer.Fact, id bff.ID, now time.Time) error {
	if s.Unread && s.Consent.Telemetry { // whether the guest agreed is known again soon
		return &bff.Error{Code: bff.CodeServiceUnavailable, RetryAfter: retryTelemetry}
	}
	var e *bff.Event
	if !s.ID.IsZero() {
		var err error
		if e, err = a.event(r, s, f, now); err != nil {
			return err
		}
	}
	answer := accepted{Accepted: true, ID: id.String()}
	if e != nil {
		if err := a.cfg.Journal.Record(r.Context(), *e); err != nil {
			return err
		}
		if answer.ID == "" {
			answer.ID = e.Envelope.EventID
		}
	}
	if answer.ID == "" { // the same shape for every guest: nothing shows who has agreed
		answer.ID = bff.NewID(bff.PrefixEvent, now).String()
	}
	return web.WriteJSON(w, http.StatusAccepted, answer)
}

// Bounds of what a client may report, several times what an honest one does.
const (
	maxPosition     = 10_000
	maxPath         = 512
	maxEscapedPath  = 2048
	maxReferer      = 2048
	maxMetadata     = 16
	maxMetadataText = 64
)

// click takes a click (EVENT_SCHEMAS §3.4).
func (a *API) click(w http.ResponseWriter, r *http.Request) error {
	in, err := web.ReadBody(w, r)
	if err != nil {
		return err
	}
	in.Require("kind")
	c := telemetry.ClickRecorded{
		Kind:     in.Enum("kind", telemetry.ClickKinds()...),
		Position: in.Int("position", 0, 1, maxPosition), Page: in.Int("page", 0, 1, maxPosition),
		SortKey: consumer.SortKey(in.Enum("sortKey", string(consumer.SortRecommended), string(consumer.SortPriceAsc),
			string(consumer.SortPriceDesc), string(consumer.SortRatingDesc), string(consumer.SortDistanceAsc))),
	}
	c.TenantID, c.PropertyID, c.SearchSessionID = readSubjects(in)
	in.Require("tenantId")
	if c.Kind != "brand-peek" { // a brand is not one of its hotels
		in.Require("propertyId")
	}
	if err := in.Err(); err != nil {
		return err
	}
	s := a.reporter(w, r)
	now := a.cfg.Now()
	c.GuestSessionID, c.OccurredAt = s.ID, bff.At(now)
	return a.promise(w, r, s, c, bff.ID{}, now)
}

// pageView takes a page view (DOMAIN_MODEL §2.5).
func (a *API) pageView(w http.ResponseWriter, r *http.Request) error {
	in, err := web.ReadBody(w, r)
	if err != nil {
		return err
	}
	in.Require("path")
	p := telemetry.PageViewed{Path: readPath(in), Referer: readReferer(in)}
	p.TenantID, p.PropertyID, p.SearchSessionID = readSubjects(in)
	if err := in.Err(); err != nil {
		return err
	}
	s, v := a.reporter(w, r), visitOf(r)
	now := a.cfg.Now()
	p.ID, p.GuestSessionID, p.ViewedAt = bff.NewID(bff.PrefixPageView, now), s.ID, bff.At(now)
	p.UserAgentHash, p.FingerprintHash = v.UserAgent, v.Fingerprint
	return a.promise(w, r, s, p, p.ID, now)
}

// funnel takes a step of the conversion funnel (DOMAIN_MODEL §2.6).
func (a *API) funnel(w http.ResponseWriter, r *http.Request) error {
	in, err := web.ReadBody(w, r)
	if err != nil {
		return err
	}
	in.Require("step")
	f := telemetry.FunnelStepRecorded{Step: in.Enum("step", telemetry.FunnelSteps()...), Metadata: readMetadata(in)}
	f.TenantID, f.PropertyID, f.SearchSessionID = readSubjects(in)
	if err := in.Err(); err != nil {
		return err
	}
	s := a.reporter(w, r)
	now := a.cfg.Now()
	f.ID, f.GuestSessionID, f.OccurredAt = bff.NewID(bff.PrefixFunnelEvent, now), s.ID, bff.At(now)
	return a.promise(w, r, s, f, f.ID, now)
}

func readSubjects(in *web.Input) (tenant, property, search bff.ID) {
	return in.ID("tenantId", bff.PrefixTenant), in.ID("propertyId", bff.PrefixProperty), in.ID("searchSessionId", bff.PrefixSearchSession)
}

// readPath keeps the path of a page. Queries and fragments hold what guests
// type, and an at-sign is the mark of an e-mail address.
func readPath(in *web.Input) string {
	given := in.String("path", maxPath)
	if given == "" {
		return ""
	}
	u, err := url.Parse(given)
	if err != nil || !strings.HasPrefix(u.Path, "/") || u.Host != "" || strings.Contains(u.Path, "@") {
		in.Refuse("path", bff.FieldFormat)
		return ""
	}
	path := u.EscapedPath()
	if len(path) > maxEscapedPath {
		in.Refuse("path", bff.FieldLength)
		return ""
	}
	return path
}

// readReferer keeps the origin of the page that the guest came from: the rest
// of it is between the guest and that site.
func readReferer(in *web.Input) string {
	given := in.String("referer", maxReferer)
	if given == "" {
		return ""
	}
	u, err := url.Parse(given)
	if err != nil || (u.Scheme != "https" && u.Scheme != "http") || u.Host == "" || len(u.Host) > 255 {
		in.Refuse("referer", bff.FieldFormat)
		return ""
	}
	return u.Scheme + "://" + u.Host
}

var metadataKey = regexp.MustCompile(`^[a-zA-Z][a-zA-Z0-9_.-]{0,31}$`)

// metadataRule: room for what a product question needs, not for what a guest wrote.
var metadataRule = web.Free{
	Depth:  2, // so that a list is named by its own name
	Values: maxMetadata, Runes: maxMetadataText, Name: metadataKey.MatchString,
	Text: func(s string) bool { return !strings.Contains(s, "@") },
}

// readMetadata takes a few short scalars.
func readMetadata(in *web.Input) map[string]any {
	given := in.Free("metadata", metadataRule)
	if given == nil {
		return nil
	}
	out := make(map[string]any, len(given))
	for _, name := range slices.Sorted(maps.Keys(given)) {
		switch v := given[name].(type) {
		case bool, string:
			out[name] = v
		case json.Number:
			out[name], _ = v.Float64() // refused already if it is out of range
		default:
			if metadataKey.MatchString(name) { // the name itself may be anything
				in.Refuse("metadata."+name, bff.FieldType)
			}
		}
	}
	return out
}
