package sim

import (
	"net/http"
	"time"

	"melmastoon.ghasi.io/bff"
)

func (s *Sim) syncRoutes() {
	s.handle("sync", "GET /api/v1/properties/{propertyId}/devices", s.devices)
	s.handle("sync", "GET /api/v1/devices/{deviceId}/cursor", func(c *call) (any, error) {
		key, err := c.cursorKey()
		if err != nil {
			return nil, err
		}
		s.staff.mu.Lock()
		defer s.staff.mu.Unlock()
		return s.staff.cursor(key, c.PathValue("deviceId")), nil
	})
	s.mutation("sync", "POST /api/v1/devices/{deviceId}/cursor", s.putCursor)
}

// SyncDevice is a computer of a house as sync sees it.
type SyncDevice struct {
	DeviceID   string        `json:"deviceId"`
	Status     string        `json:"status"`
	LastSeenAt bff.Timestamp `json:"lastSeenAt"`
	LagSeconds int           `json:"lagSeconds"`
}

func (s *Sim) devices(c *call) (any, error) {
	p, err := s.house(c)
	if err != nil {
		return nil, err
	}
	items := []SyncDevice{}
	counts := map[string]int{"online": 0, "offline": 0}
	rnd := stream{mix(p.seed, kindDevice)}
	for n := range 2 + rnd.below(3) {
		d := SyncDevice{DeviceID: c.speaks.id(derivedID(bff.PrefixDevice, p.seed, kindDevice, uint64(n))), Status: "online", LagSeconds: rnd.below(20)}
		if rnd.chance(15) {
			d.Status, d.LagSeconds = "offline", 600+rnd.below(7200)
		}
		counts[d.Status]++
		d.LastSeenAt = bff.At(c.now.Add(-time.Duration(d.LagSeconds) * time.Second))
		items = append(items, d)
	}
	out, err := pageOf(s, c, p, dateOf(s.houseTime(p, c.now)), items)
	out.Counts = counts
	return out, err
}

// cursor is how far a device has synchronised.
type cursor struct {
	DeviceID      string `json:"deviceId"`
	PullCursor    string `json:"pullCursor"`
	PushAck       string `json:"pushAck"`
	CursorVersion int    `json:"cursorVersion"`
}

// cursorKey is under which a device's cursor is kept: one device of two tenants has
// two.
func (c *call) cursorKey() (string, error) {
	device, err := c.pathID(bff.PrefixDevice, "deviceId")
	if err != nil {
		return "", err
	}
	tenant, err := c.speaks.parse(bff.PrefixTenant, c.Header.Get(c.speaks.tenant))
	if err != nil {
		return "", refused(bff.FieldErrors{{Field: c.speaks.tenant, Code: bff.FieldRequired}})
	}
	return tenant.String() + device.String(), nil
}

// cursor needs the lock.
func (st *staffState) cursor(key, deviceID string) cursor {
	if c, ok := st.cursors[key]; ok {
		return c
	}
	return cursor{DeviceID: deviceID, PullCursor: "0", PushAck: "0", CursorVersion: 1}
}

// putCursor moves a cursor if the caller saw the newest version.
func (s *Sim) putCursor(c *call) (any, error) {
	key, err := c.cursorKey()
	if err != nil {
		return nil, err
	}
	var req struct {
		ExpectedVersion int    `json:"expectedVersion"`
		PullCursor      string `json:"pullCursor"`
		PushAck         string `json:"pushAck"`
	}
	if err := c.decode(&req); err != nil {
		return nil, err
	}
	var bad bff.FieldErrors
	bad.Check(req.ExpectedVersion > 0, "expectedVersion", bff.FieldRequired)
	bad.Check(len(req.PullCursor) <= 256, "pullCursor", bff.FieldLength)
	bad.Check(len(req.PushAck) <= 256, "pushAck", bff.FieldLength)
	if err := refused(bad); err != nil {
		return nil, err
	}
	s.staff.mu.Lock()
	defer s.staff.mu.Unlock()
	now := s.staff.cursor(key, c.PathValue("deviceId"))
	if now.CursorVersion != req.ExpectedVersion {
		return nil, &failure{status: http.StatusConflict, code: "CURSOR_CONFLICT", message: "cursor is at version " + itoa(now.CursorVersion)}
	}
	if req.PullCursor != "" {
		now.PullCursor = req.PullCursor
	}
	if req.PushAck != "" {
		now.PushAck = req.PushAck
	}
	now.CursorVersion++
	bound(s.staff.cursors)
	s.staff.cursors[key] = now
	return now, nil
}
