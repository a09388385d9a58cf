package backofficeupstream

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"time"

	"melmastoon.ghasi.io/bff"
	"melmastoon.ghasi.io/bff/internal/backoffice"
	"melmastoon.ghasi.io/bff/internal/backoffice/board"
	"melmastoon.ghasi.io/bff/internal/upstream"
)

// House reads what upstreams know about a property on a day.
type House struct {
	clients map[backoffice.Upstream]*upstream.Client
}

var _ board.House = (*House)(nil)

// Read implements board.House.
func (h *House) Read(ctx context.Context, from board.Source, at board.Place) (board.Reading, error) {
	read, ok := readers[from]
	if !ok {
		return board.Reading{}, fmt.Errorf("there is no source %q", from)
	}
	u := from.Upstream()
	c := &visit{client: h.clients[u], dialect: dialectOf(u), at: at}
	value, err := read(ctx, c)
	if err != nil {
		return board.Reading{}, declined(err)
	}
	if c.asOf.IsZero() {
		c.asOf = bff.At(time.Now()) // an upstream that does not say speaks of now
	}
	return board.Reading{Value: value, AsOf: c.asOf.Time}, nil
}

// declined gives the failure of a read its code.
func declined(err error) error {
	e, ok := errors.AsType[*upstream.Error](err)
	switch {
	case ok && e.Status == http.StatusNotFound:
		return &bff.Error{Code: bff.CodeResourceNotFound, Err: err}
	case ok && e.Status == http.StatusForbidden:
		return &bff.Error{Code: bff.CodeRoleDenied, Err: err}
	case errors.Is(err, bff.ErrMoney):
		return &bff.Error{Code: bff.CodeUpstreamUnavailable, RetryAfter: retryUpstream, Err: err}
	}
	return failed(err)
}

// visit is the reading of one source at one place.
type visit struct {
	client  *upstream.Client
	dialect dialect
	at      board.Place
	asOf    bff.Timestamp // of the oldest answer
}

const (
	pageLimit = 200
	maxPages  = 10
)

// get reads one document about the property.
func (v *visit) get(ctx context.Context, route string, query url.Values, out any) error {
	path := upstream.Path(route, v.dialect.write(v.at.Property))
	return v.client.Get(ctx, route, path, query, out, upstream.Header(v.dialect.tenant, v.dialect.write(v.at.Tenant)))
}

// day is the query for the place's date.
func (v *visit) day() url.Values { return url.Values{"date": {v.at.Date.String()}} }

// observe keeps the oldest asOf of the answers that were read.
func (v *visit) observe(asOf bff.Timestamp) {
	if v.asOf.IsZero() || asOf.Before(v.asOf.Time) {
		v.asOf = asOf
	}
}

// page is the form of every list of these services.
type page[T any] struct {
	AsOf       bff.Timestamp `json:"asOf" upstream:"required"`
	Items      []T           `json:"items"`
	NextCursor string        `json:"nextCursor"`
}

// pages reads a list to its end, and hands each item on in our words.
func pages[T, U any](v *visit, query url.Values, get func(url.Values, any) error, say func(*T) (U, error)) ([]U, error) {
	query.Set("limit", strconv.Itoa(pageLimit))
	out := []U{}
	for range maxPages {
		var p page[T]
		if err := get(query, &p); err != nil {
			return nil, err
		}
		v.observe(p.AsOf)
		for i := range p.Items {
			u, err := say(&p.Items[i])
			if err != nil {
				return nil, err
			}
			out = append(out, u)
		}
		if p.NextCursor == "" {
			break
		}
		query.Set("cursor", p.NextCursor)
	}
	return out, nil
}

// listed reads a list about the property.
func listed[T, U any](ctx context.Context, v *visit, route string, query url.Values, say func(*T) (U, error)) ([]U, error) {
	return pages(v, query, func(q url.Values, out any) error { return v.get(ctx, route, q, out) }, say)
}

// ofList reads what a service lists of a tenant, at most maxPages of it.
func ofList[T, U any](ctx context.Context, c *upstream.Client, route string, tenant bff.ID, say func(*T) (U, error)) ([]U, error) {
	all, err := pages(new(visit), url.Values{}, func(q url.Values, out any) error {
		return c.Get(ctx, route, upstream.Path(route, tenant.String()), q, out, ofTenant(tenant))
	}, say)
	return all, failed(err)
}

// same is for items that are written as we have them.
func same[T any](t *T) (T, error) { return *t, nil }

func with(query url.Values, name, value string) url.Values {
	query.Set(name, value)
	return query
}

// everyStatus asks for all, also what is done with.
func everyStatus(query url.Values) url.Values { return with(query, "status", "all") }

type reader func(context.Context, *visit) (any, error)

// readers are how each source is read.
var readers = map[board.Source]reader{
	board.SourceArrivals:     stays("/api/v1/properties/{propertyId}/arrivals"),
	board.SourceDepartures:   stays("/api/v1/properties/{propertyId}/departures"),
	board.SourceInHouse:      stays("/api/v1/properties/{propertyId}/in-house"),
	board.SourceOccupancy:    occupancy,
	board.SourceRooms:        rooms,
	board.SourceRates:        rates,
	board.SourceFigures:      figures,
	board.SourceTasks:        tasks,
	board.SourceProgress:     progress,
	board.SourceLinen:        linen,
	board.SourceWorkOrders:   workOrders,
	board.SourceFolios:       folios,
	board.SourceCashDrawer:   cashDrawer,
	board.SourceAlerts:       countOpen("/api/v1/tenants/{tenantId}/alerts", func(i *inboxItem) string { return i.Severity }),
	board.SourceSuggestions:  countOpen("/api/v1/tenants/{tenantId}/suggestions", func(i *inboxItem) string { return i.Category }),
	board.SourceAcceptance:   acceptance,
	board.SourceDevices:      devices,
	board.SourceShiftGaps:    shiftGaps,
	board.SourceLockFailures: lockFailures,
	board.SourceNotes:        notes,
}

func stays(route string) reader {
	type stay struct {
		board.Stay
		RoomTypeName *text `json:"roomTypeName"`
	}
	return func(ctx context.Context, v *visit) (any, error) {
		return listed(ctx, v, route, everyStatus(v.day()), func(s *stay) (board.Stay, error) {
			s.Stay.RoomTypeName = s.RoomTypeName.named()
			return s.Stay, nil
		})
	}
}

// week is how many days of occupancy are read.
const week = 7

func occupancy(ctx context.Context, v *visit) (any, error) {
	query := url.Values{"from": {v.at.Date.String()}, "to": {(v.at.Date + week).String()}}
	return listed(ctx, v, "/api/v1/properties/{propertyId}/occupancy", query, same[board.Night])
}

func rooms(ctx context.Context, v *visit) (any, error) {
	return listed(ctx, v, "/api/v1/properties/{propertyId}/rooms", everyStatus(url.Values{}), same[board.Room])
}

func rates(ctx context.Context, v *visit) (any, error) {
	type rate struct {
		RoomTypeID   string `json:"roomTypeId"`
		RoomTypeName *text  `json:"roomTypeName"`
		RatePlanID   string `json:"ratePlanId"`
		Nightly      string `json:"nightly"`
	}
	return listed(ctx, v, "/v1/pricing/properties/{propertyId}/rates", v.day(), func(r *rate) (board.Rate, error) {
		nightly, err := micros(r.Nightly)
		return board.Rate{RoomTypeID: r.RoomTypeID, RoomTypeName: r.RoomTypeName.named(), RatePlanID: r.RatePlanID, Nightly: nightly}, err
	})
}

func figures(ctx context.Context, v *visit) (any, error) {
	var in struct {
		AsOf                bff.Timestamp  `json:"asOf" upstream:"required"`
		Currency            bff.Currency   `json:"currency" upstream:"required"`
		ADR                 json.Number    `json:"adr" upstream:"required"`
		RevPAR              json.Number    `json:"revpar" upstream:"required"`
		AverageLengthOfStay float64        `json:"averageLengthOfStay"`
		Cancellations       int            `json:"cancellations"`
		NoShows             int            `json:"noShows"`
		ChannelMix          map[string]int `json:"channelMix"`
	}
	if err := v.get(ctx, "/api/v1/properties/{propertyId}/kpis", v.day(), &in); err != nil {
		return nil, err
	}
	v.observe(in.AsOf)
	out := board.Figures{
		AverageLengthOfStay: in.AverageLengthOfStay, Cancellations: in.Cancellations, NoShows: in.NoShows, ChannelMix: in.ChannelMix,
	}
	var err1, err2 error
	out.ADR, err1 = majorUnits(in.ADR, in.Currency)
	out.RevPAR, err2 = majorUnits(in.RevPAR, in.Currency)
	return out, errors.Join(err1, err2)
}

func tasks(ctx context.Context, v *visit) (any, error) {
	return listed(ctx, v, "/api/v1/properties/{propertyId}/tasks", everyStatus(v.day()), same[board.Task])
}

func progress(ctx context.Context, v *visit) (any, error) {
	var in struct {
		AsOf                   bff.Timestamp  `json:"asOf" upstream:"required"`
		Total                  int            `json:"total"`
		Counts                 map[string]int `json:"counts"`
		PercentDone            float64        `json:"percentDone"`
		TimeToReadyMinutes     int            `json:"timeToReadyMinutes"`
		PendingAtArrivalWindow int            `json:"pendingAtArrivalWindow"`
	}
	if err := v.get(ctx, "/api/v1/properties/{propertyId}/progress", v.day(), &in); err != nil {
		return nil, err
	}
	v.observe(in.AsOf)
	return board.Progress{
		Total: in.Total, Counts: in.Counts, PercentDone: in.PercentDone,
		TimeToReadyMinutes: in.TimeToReadyMinutes, PendingAtArrivalWindow: in.PendingAtArrivalWindow,
	}, nil
}

func linen(ctx context.Context, v *visit) (any, error) {
	var in struct {
		AsOf bff.Timestamp `json:"asOf" upstream:"required"`
		board.Linen
	}
	if err := v.get(ctx, "/api/v1/properties/{propertyId}/linen", v.day(), &in); err != nil {
		return nil, err
	}
	v.observe(in.AsOf)
	return in.Linen, nil
}

func workOrders(ctx context.Context, v *visit) (any, error) {
	query := url.Values{"status": {"open,in_progress,resolved"}}
	return listed(ctx, v, "/api/v1/properties/{propertyId}/work-orders", query, func(w *board.WorkOrder) (board.WorkOrder, error) {
		out := *w
		out.WorkOrderID, out.AssignedTo = v.dialect.read(backoffice.PrefixWorkOrder, w.WorkOrderID), v.dialect.read(bff.PrefixOperator, w.AssignedTo)
		return out, nil
	})
}

func folios(ctx context.Context, v *visit) (any, error) {
	var in struct {
		AsOf       bff.Timestamp `json:"asOf" upstream:"required"`
		Total      int           `json:"total"`
		BalanceDue minorUnits    `json:"balanceDue"`
	}
	query := with(with(v.day(), "status", "open"), "limit", "1") // the sum is of all of them
	if err := v.get(ctx, "/api/v1/properties/{propertyId}/folios", query, &in); err != nil {
		return nil, err
	}
	v.observe(in.AsOf)
	return board.Folios{Open: in.Total, BalanceDue: in.BalanceDue.amount()}, nil
}

func cashDrawer(ctx context.Context, v *visit) (any, error) {
	var in struct {
		AsOf     bff.Timestamp `json:"asOf" upstream:"required"`
		Status   string        `json:"status"`
		Opening  minorUnits    `json:"opening"`
		Taken    minorUnits    `json:"taken"`
		Expected minorUnits    `json:"expected"`
	}
	if err := v.get(ctx, "/api/v1/properties/{propertyId}/cash-drawer", v.day(), &in); err != nil {
		return nil, err
	}
	v.observe(in.AsOf)
	return board.CashDrawer{Status: in.Status, Opening: in.Opening.amount(), Taken: in.Taken.amount(), Expected: in.Expected.amount()}, nil
}

type inboxItem struct {
	Category string `json:"category"`
	Severity string `json:"severity"`
}

// countOpen counts what is open at the property.
func countOpen(route string, by func(*inboxItem) string) reader {
	return func(ctx context.Context, v *visit) (any, error) {
		path, tenant := upstream.Path(route, v.dialect.write(v.at.Tenant)), upstream.Header(v.dialect.tenant, v.dialect.write(v.at.Tenant))
		query := url.Values{"propertyId": {v.dialect.write(v.at.Property)}, "status": {"open"}}
		kinds, err := pages(v, query, func(q url.Values, out any) error {
			return v.client.Get(ctx, route, path, q, out, tenant)
		}, func(i *inboxItem) (string, error) { return by(i), nil })
		counts := board.Counts{}
		for _, k := range kinds {
			counts[k]++
		}
		return counts, err
	}
}

func acceptance(ctx context.Context, v *visit) (any, error) {
	var in struct {
		AsOf           bff.Timestamp `json:"asOf" upstream:"required"`
		Days           int           `json:"days"`
		Accepted       int           `json:"accepted"`
		Rejected       int           `json:"rejected"`
		Modified       int           `json:"modified"`
		AcceptanceRate float64       `json:"acceptanceRate"`
	}
	if err := v.get(ctx, "/api/v1/properties/{propertyId}/acceptance", v.day(), &in); err != nil {
		return nil, err
	}
	v.observe(in.AsOf)
	return board.Acceptance{Days: in.Days, Accepted: in.Accepted, Rejected: in.Rejected, Modified: in.Modified, Rate: in.AcceptanceRate}, nil
}

func devices(ctx context.Context, v *visit) (any, error) {
	type device struct {
		Status     string `json:"status"`
		LagSeconds int    `json:"lagSeconds"`
	}
	return listed(ctx, v, "/api/v1/properties/{propertyId}/devices", url.Values{}, func(d *device) (board.SyncDevice, error) {
		return board.SyncDevice{Online: d.Status == "online", LagSeconds: d.LagSeconds}, nil
	})
}

func shiftGaps(ctx context.Context, v *visit) (any, error) {
	var in struct {
		AsOf bff.Timestamp `json:"asOf" upstream:"required"`
		Gaps []board.Shift `json:"gaps"`
	}
	if err := v.get(ctx, "/api/v1/properties/{propertyId}/shifts", v.day(), &in); err != nil {
		return nil, err
	}
	v.observe(in.AsOf)
	return slices.Clip(in.Gaps), nil
}

func lockFailures(ctx context.Context, v *visit) (any, error) {
	return listed(ctx, v, "/api/v1/properties/{propertyId}/failures", v.day(), same[board.LockFailure])
}

func notes(ctx context.Context, v *visit) (any, error) {
	return listed(ctx, v, "/api/v1/properties/{propertyId}/notes", v.day(), same[board.Note])
}
