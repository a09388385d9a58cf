package backofficehttp

import (
	"cmp"
	"context"
	"encoding/json"
	"net/http"
	"slices"
	"strings"
	"time"

	"melmastoon.ghasi.io/bff"
	"melmastoon.ghasi.io/bff/internal/backoffice"
	"melmastoon.ghasi.io/bff/internal/backoffice/board"
	"melmastoon.ghasi.io/bff/internal/web"
)

const (
	propertyPage    = 50 // items of a page unless said
	maxPropertyPage = 200
	// sessionProperties is how many properties a session names.
	sessionProperties = 20
	listPatience      = 250 * time.Millisecond
)

// properties answers with a page of the properties in the operator's scope.
func (a *API) properties(w http.ResponseWriter, r *http.Request) error {
	in := web.ReadQuery(r)
	limit, after := in.Int("limit", propertyPage, 1, maxPropertyPage), in.ID("cursor", bff.PrefixProperty)
	if err := in.Err(); err != nil {
		return err
	}
	v := visitOf(r)
	listed, err := a.cfg.Hotels.List(r.Context(), v.Session.Tenant)
	if err != nil {
		return unfilled(err)
	}
	own := hotelsOf(v.Member, listed)
	from, there := slices.BinarySearchFunc(own, after, func(h hotel, id bff.ID) int { return strings.Compare(h.ID.String(), id.String()) })
	if there {
		from++
	}
	page := struct {
		Items []hotel `json:"items"`
		inboxFrame
	}{own[from:min(from+limit, len(own))], inboxFrame{Total: len(own), Stale: listed.Stale, Degraded: agedHotels(listed)}}
	if from+limit < len(own) {
		page.NextCursor = own[from+limit-1].ID.String()
	}
	if listed.Stale {
		at := bff.At(listed.AsOf)
		page.AsOf = &at
	}
	body, err := json.Marshal(page)
	if err != nil {
		return err
	}
	return answerTagged(w, r, tagOf(v, body), body)
}

// hotel is a property as operators are shown it.
type hotel struct {
	ID       bff.ID              `json:"propertyId"`
	Name     bff.LocalizedString `json:"name"`
	City     string              `json:"city,omitempty"`
	TimeZone string              `json:"timeZone,omitempty"`
}

// hotelsOf are those of a tenant's properties that an operator works for. It is never nil.
func hotelsOf(m *backoffice.Member, all backoffice.Listed[[]board.Property]) []hotel {
	own := []hotel{}
	for _, p := range all.All {
		if m.Scope.Covers(p.ID) {
			own = append(own, hotel{p.ID, p.Name, p.City, p.Zone.Name()})
		}
	}
	return own
}

func agedHotels(all backoffice.Listed[[]board.Property]) []Missing {
	if all.Stale {
		return []Missing{{MissingProperties, ShownStale}}
	}
	return []Missing{}
}

// soon returns what a list has of the request's tenant, if that is known soon. A call that
// was not waited for goes on, and serves the next answer.
func soon[T any](a *API, r *http.Request, from backoffice.Lists[T]) (backoffice.Listed[T], bool) {
	ctx, cancel := context.WithTimeout(r.Context(), cmp.Or(a.cfg.Patience, listPatience))
	defer cancel()
	listed, err := from.List(ctx, visitOf(r).Session.Tenant)
	return listed, err == nil
}

// names are those of the tenant's operators, as far as they are known: a page of ids is
// better than none.
func (a *API) names(r *http.Request) map[string]string {
	listed, _ := soon(a, r, a.cfg.Names)
	return listed.All
}

// nameHotels puts the first properties of the operator's scope into a session, which does
// not wait long for them and does not fail with them.
func (a *API) nameHotels(r *http.Request, s *sessionView) {
	listed, ok := soon(a, r, a.cfg.Hotels)
	if !ok {
		s.Degraded = []Missing{{MissingProperties, UpstreamAway}}
		return
	}
	own := hotelsOf(visitOf(r).Member, listed)
	first, count := own[:min(len(own), sessionProperties)], len(own)
	s.Properties, s.PropertyCount, s.Degraded = &first, &count, agedHotels(listed)
}
