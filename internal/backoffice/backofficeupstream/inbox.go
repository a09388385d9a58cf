package backofficeupstream

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/url"
	"slices"
	"strconv"

	"melmastoon.ghasi.io/bff"
	"melmastoon.ghasi.io/bff/internal/backoffice/inbox"
	"melmastoon.ghasi.io/bff/internal/jsonscan"
	"melmastoon.ghasi.io/bff/internal/upstream"
)

// Inboxes are the services that want operators to look at something: the AI
// orchestrator and notification-service.
type Inboxes struct{ ai, notification *upstream.Client }

var (
	_ inbox.Feed        = (*Inboxes)(nil)
	_ inbox.EntryFinder = (*Inboxes)(nil)
)

// inboxDialect is how a service spells its entries.
type inboxDialect struct{ route, one, id, at string }

var inboxDialects = map[inbox.Inbox]inboxDialect{
	inbox.Suggestions: {"/api/v1/tenants/{tenantId}/suggestions", "/api/v1/suggestions/{suggestionId}", "suggestionId", "createdAt"},
	inbox.Alerts:      {"/api/v1/tenants/{tenantId}/alerts", "/api/v1/alerts/{alertId}", "alertId", "raisedAt"},
}

const inboxPageSize = 200

// FetchInbox implements inbox.Feed. It takes entries of all states: those
// that were dealt with are part of the list that operators see.
func (i *Inboxes) FetchInbox(ctx context.Context, of inbox.Inbox, tenant, property bff.ID, etag string) (inbox.Fetched, error) {
	client := i.client(of)
	list := inboxList{dialect: inboxDialects[of], tenant: tenant.String(), property: property.String()}
	route := list.dialect.route
	// A tag names one page. Of a list of several pages it would say nothing about the
	// others: such a list is read anew each time.
	seen := upstream.Validator{ETag: etag}
	options := []upstream.Option{ofTenant(tenant), upstream.Unless(&seen)}
	for {
		query := url.Values{"status": {"all"}, "limit": {strconv.Itoa(inboxPageSize)}}
		if !property.IsZero() {
			query.Set("propertyId", property.String())
		}
		if list.next != "" {
			query.Set("cursor", list.next)
		}
		list.next = ""
		err := client.Get(ctx, route, upstream.Path(route, tenant.String()), query, upstream.Reading(list.read), options...)
		switch {
		case upstream.NotFound(err):
			return inbox.Fetched{}, &bff.Error{Code: bff.CodeResourceNotFound, Detail: "there is no such property", Err: err}
		case err != nil:
			return inbox.Fetched{}, failed(err)
		case seen.Unchanged:
			return inbox.Fetched{ETag: seen.ETag, Unchanged: true}, nil
		}
		if list.next == "" || len(list.entries) >= inbox.MaxInbox {
			break
		}
		seen, options = upstream.Validator{}, options[:1]
	}
	if list.strangers > 0 {
		client.Drift(route, "tenantId")
	}
	inbox.SortInbox(list.entries)
	return inbox.Fetched{Entries: list.entries[:min(len(list.entries), inbox.MaxInbox)], ETag: seen.ETag}, nil
}

// FindEntry implements inbox.EntryFinder.
func (i *Inboxes) FindEntry(ctx context.Context, of inbox.Inbox, tenant, property bff.ID, id string) (inbox.Entry, error) {
	one := inboxList{dialect: inboxDialects[of], tenant: tenant.String(), property: property.String()}
	route := one.dialect.one
	err := i.client(of).Get(ctx, route, upstream.Path(route, id), nil, upstream.Reading(one.readEntry), ofTenant(tenant))
	switch {
	// A service that does not take the id for one of its own has no such entry either.
	case upstream.NotFound(err), err == nil && (len(one.entries) != 1 || one.entries[0].ID != id), refusedID(err):
		return inbox.Entry{}, &bff.Error{Code: bff.CodeResourceNotFound, Detail: "there is no such entry in this property's inbox", Err: err}
	case err != nil:
		return inbox.Entry{}, failed(err)
	}
	return one.entries[0], nil
}

func refusedID(err error) bool {
	e, ok := errors.AsType[*upstream.Error](err)
	return ok && e.Status == http.StatusBadRequest
}

func (i *Inboxes) client(of inbox.Inbox) *upstream.Client {
	if of == inbox.Suggestions {
		return i.ai
	}
	return i.notification
}

// inboxList collects entries of several pages.
type inboxList struct {
	dialect          inboxDialect
	tenant, property string // an empty property: of all of the tenant's

	entries   []inbox.Entry
	next      string // cursor of the next page
	strangers int    // entries of another tenant or property, which are not shown
}

func (l *inboxList) read(r *jsonscan.Reader) {
	there := false
	for name := range r.Object() {
		switch name {
		case "items":
			there = true
			for range r.Array() {
				l.readEntry(r)
			}
		case "nextCursor":
			l.next = r.String()
		}
	}
	r.Require(there, "items")
}

// readEntry reads what is filtered and sorted by, and keeps everything else as it is
// written.
func (l *inboxList) readEntry(r *jsonscan.Reader) {
	var e inbox.Entry
	tenant, property, named := l.tenant, l.property, false
	e.Body = append(e.Body, '{')
	for name := range r.Object() {
		raw := r.Raw()
		text := func() string { return jsonscan.New(raw).String() }
		switch name {
		case l.dialect.id:
			e.ID = text()
		case l.dialect.at:
			var at bff.Timestamp
			if at.UnmarshalText([]byte(text())) == nil {
				e.At = at.Time
			}
		case "category":
			e.Category = text()
		case "severity":
			e.Severity = text()
		case "status":
			e.Status = text()
		case "tenantId":
			tenant = text()
		case "propertyId":
			property, named = text(), true
		}
		if slices.Contains(ownMembers, name) {
			continue
		}
		if raw == nil {
			raw = []byte("null")
		}
		quoted, err := json.Marshal(name)
		if err != nil {
			continue // a string is always encoded
		}
		if len(e.Body) > 1 {
			e.Body = append(e.Body, ',')
		}
		e.Body = append(append(append(e.Body, quoted...), ':'), raw...)
	}
	r.Require(e.ID != "", l.dialect.id)
	r.Require(!e.At.IsZero(), l.dialect.at)
	id, err := bff.ParseID(bff.PrefixProperty, property)
	if e.Property = id; !named { // each item names its property
		e.Body = append(append(append(e.Body, `,"propertyId":"`...), property...), '"')
	}
	switch {
	case e.ID == "" || e.At.IsZero():
	case tenant != l.tenant || err != nil || l.property != "" && property != l.property:
		l.strangers++
	default:
		l.entries = append(l.entries, e)
	}
}

var ownMembers = inbox.InboxMembers()
