package console

import (
	"cmp"
	"context"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"

	"melmastoon.ghasi.io/bff/internal/local/trace"
)

const (
	shownDevices = 100
	// maxOpenings bounds the streams whose opening is remembered.
	maxOpenings = 10_000
	// streamRoute opens a device's stream: its request ends when that is open.
	streamRoute = "/sse/stream"
)

// heard is what stories say of more than their own request.
type heard struct {
	mu     sync.Mutex
	opened map[string]trace.Request // the last of each device that opened a stream
	limits map[limitKey]Limit
}

type limitKey struct{ service, class, scope string }

func (h *heard) add(s *trace.Story) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.opened == nil || len(h.opened) >= maxOpenings {
		h.opened = map[string]trace.Request{}
	}
	if h.limits == nil {
		h.limits = map[limitKey]Limit{}
	}
	if s.Status == http.StatusOK && strings.HasSuffix(s.Route, streamRoute) {
		h.opened[s.Caller.Device] = s.Request
	}
	for _, l := range s.Limits {
		h.limits[limitKey{s.Service, l.Class, l.Scope}] = Limit{Service: s.Service, Limit: l, At: s.At}
	}
}

// limits are those that decided about a request, or refused one.
func (c *Console) limits(now time.Time) ([]Limit, error) {
	c.heard.mu.Lock()
	known := maps.Clone(c.heard.limits)
	c.heard.mu.Unlock()
	if known == nil {
		known = map[limitKey]Limit{}
	}
	for _, svc := range c.cfg.Services {
		lines, err := c.history.Plot("sum by (class, scope) ("+svc.Namespace+"_rate_limited_total) > 0", now, now, time.Second)
		if err != nil {
			return nil, err
		}
		for _, line := range lines {
			for _, p := range line.Points {
				key := limitKey{svc.Name, line.Labels["class"], line.Labels["scope"]}
				l := known[key]
				l.Service, l.Class, l.Scope, l.Count = key.service, key.class, key.scope, int64(p[1])
				known[key] = l
			}
		}
	}
	out := make([]Limit, 0, len(known))
	for _, l := range known {
		if l.Limit.Limit > 0 { // all are for a minute
			each := time.Minute / time.Duration(l.Limit.Limit)
			l.RefillMs, l.FullAt = float64(each.Microseconds())/1000, l.At.Add(time.Duration(l.Limit.Limit-l.Remaining)*each)
		}
		out = append(out, l)
	}
	slices.SortFunc(out, func(a, b Limit) int {
		return cmp.Or(strings.Compare(a.Service, b.Service), strings.Compare(a.Class, b.Class), strings.Compare(a.Scope, b.Scope))
	})
	return out, nil
}

// devices are those that reported, and those that have a stream: each instance listens in
// Redis to what is told to the devices whose streams it has.
func (c *Console) devices(ctx context.Context) ([]Device, error) {
	rows, err := c.db.Query(ctx, `SELECT device_id, tenant_id::text, status, updated_at FROM bff_backoffice.device_sync_status ORDER BY updated_at DESC LIMIT $1`, shownDevices)
	if err != nil {
		return nil, err
	}
	found, err := pgx.CollectRows(rows, pgx.RowToStructByPos[Device])
	if err != nil {
		return nil, err
	}
	for _, svc := range c.cfg.Services {
		if svc.Streams == "" {
			continue
		}
		const last = ":channel:session" // one of the channels of each device
		channels, err := c.redis.Do(ctx, c.redis.B().PubsubChannels().Pattern(svc.Streams+"*"+last).Build()).AsStrSlice()
		if err != nil {
			return nil, err
		}
		for _, channel := range channels {
			id := strings.TrimSuffix(strings.TrimPrefix(channel, svc.Streams), last)
			at := slices.IndexFunc(found, func(d Device) bool { return d.DeviceID == id })
			if at < 0 {
				at, found = len(found), append(found, Device{DeviceID: id})
			}
			c.streaming(&found[at])
		}
	}
	slices.SortStableFunc(found, func(a, b Device) int {
		if (a.Stream == nil) != (b.Stream == nil) {
			return map[bool]int{true: 1, false: -1}[a.Stream == nil]
		}
		return b.SeenAt.Compare(a.SeenAt)
	})
	return found[:min(len(found), shownDevices)], nil
}

// streaming says of a device's stream what the request that opened it said.
func (c *Console) streaming(d *Device) {
	c.heard.mu.Lock()
	r := c.heard.opened[d.DeviceID]
	c.heard.mu.Unlock()
	d.TenantID = cmp.Or(d.TenantID, r.Caller.TenantID)
	if d.SeenAt.Before(r.At) {
		d.SeenAt = r.At
	}
	d.Stream = &Stream{Since: r.At, Operator: r.Caller.Name}
	d.Stream.Control = control("revoke", "melmastoon trigger iam.device.revoked --tenant "+d.TenantID+" --operator "+r.Caller.Name+" --set deviceId="+d.DeviceID,
		http.MethodPost, "/_up/trigger",
		Trigger{Event: "iam.device.revoked", Tenant: d.TenantID, Operator: r.Caller.Name, Set: map[string]string{"deviceId": d.DeviceID}})
}
