package backofficehttp

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"net/http"
	"strings"
	"time"

	"melmastoon.ghasi.io/bff"
	"melmastoon.ghasi.io/bff/internal/backoffice"
	"melmastoon.ghasi.io/bff/internal/backoffice/audit"
	"melmastoon.ghasi.io/bff/internal/web"
)

const (
	activityPage        = 50 // items of a page unless said
	maxActivityPage     = 200
	maxActivityResource = 256
	maxActivityOperator = 64
	maxActivityToken    = 512
)

// activity answers with a page of what operators did at a property.
func (a *API) activity(w http.ResponseWriter, r *http.Request) error {
	v := visitOf(r)
	in := web.ReadQuery(r)
	q := audit.ActivityQuery{
		Property: v.Property, Operator: in.String("operatorId", maxActivityOperator), From: readMoment(in, "from"), To: readMoment(in, "to"),
		Limit: in.Int("limit", activityPage, 1, maxActivityPage),
	}
	if !audit.OperatorToken(q.Operator) {
		in.Refuse("operatorId", bff.FieldFormat)
	}
	if s := in.String("resource", maxActivityResource); s != "" {
		var ok bool
		if q.Resource, ok = audit.ParseResource(s); !ok {
			in.Refuse("resource", bff.FieldFormat)
		}
	}
	if !q.From.IsZero() && !q.To.IsZero() && !q.From.Before(q.To) {
		in.Refuse("to", bff.FieldRange)
	}
	if s := in.String("cursor", maxActivityToken); s != "" {
		var ok bool
		if q.After, ok = readActivityCursor(s, v.Session.Tenant, q); !ok {
			in.Refuse("cursor", bff.FieldFormat)
		}
	}
	if err := in.Err(); err != nil {
		return err
	}
	page, err := a.cfg.Activities.ListActivities(r.Context(), v.Session.Tenant, q)
	if err != nil {
		return err
	}
	body, names := activityBody{Items: make([]activityItem, 0, len(page.Items))}, a.names(r)
	for i := range page.Items {
		item := newActivityItem(&page.Items[i])
		item.OperatorName = names[item.OperatorID]
		body.Items = append(body.Items, item)
	}
	if page.Next != nil {
		body.NextCursor = writeActivityCursor(*page.Next, v.Session.Tenant, q)
	}
	return web.WriteJSON(w, http.StatusOK, body)
}

// readMoment reads a date and time of RFC 3339; the zero time if absent or refused.
func readMoment(in *web.Input, name string) time.Time {
	var t bff.Timestamp
	s := in.String(name, 64)
	if s == "" {
		return time.Time{}
	}
	if t.UnmarshalText([]byte(s)) != nil || t.IsZero() {
		in.Refuse(name, bff.FieldFormat)
	}
	return t.Time
}

type (
	activityBody struct {
		Items      []activityItem `json:"items"`
		NextCursor string         `json:"nextCursor,omitempty"`
	}
	activityItem struct {
		ActivityID   bff.ID             `json:"activityId"`
		OccurredAt   bff.Timestamp      `json:"occurredAt"`
		OperatorID   string             `json:"operatorId"`
		OperatorName string             `json:"operatorName,omitempty"`
		DeviceID     string             `json:"deviceId"`
		Category     string             `json:"category"`
		Action       string             `json:"action"`
		Resource     *activityResource  `json:"resource,omitempty"`
		Outcome      backoffice.Outcome `json:"outcome"`
		ErrorCode    bff.Code           `json:"errorCode,omitempty"`
		LatencyMS    int64              `json:"latencyMs,omitempty"`
		PressedAt    *bff.Timestamp     `json:"pressedAt,omitempty"`
	}
	activityResource struct {
		Kind string `json:"kind,omitempty"`
		ID   string `json:"id,omitempty"`
	}
)

func newActivityItem(a *backoffice.Activity) activityItem {
	item := activityItem{
		ActivityID: a.ID, OccurredAt: bff.At(a.At), OperatorID: a.Operator, DeviceID: a.Device.String(),
		Category: a.Category, Action: a.Action, Outcome: a.Outcome, ErrorCode: a.Code, LatencyMS: a.Latency.Milliseconds(),
	}
	if a.Resource != (backoffice.Resource{}) {
		item.Resource = &activityResource{a.Resource.Kind, a.Resource.ID}
	}
	if !a.Pressed.IsZero() {
		pressed := bff.At(a.Pressed)
		item.PressedAt = &pressed
	}
	return item
}

// A cursor is the position of the last item of a page, with a sum over it and the query.
// The sum has no key: it finds the mistake of a client that changes its query between
// pages. A client that makes up a cursor reads nothing that from and to do not give it.

const activitySum = 8 // bytes

func writeActivityCursor(p audit.ActivityPosition, tenant bff.ID, q audit.ActivityQuery) string {
	id := p.ID.Bytes()
	b := binary.BigEndian.AppendUint64(id[:], uint64(p.At.UnixMicro())) //nolint:gosec // read back as it was
	return base64.RawURLEncoding.EncodeToString(append(b, activityQuerySum(b, tenant, q)...))
}

func readActivityCursor(s string, tenant bff.ID, q audit.ActivityQuery) (audit.ActivityPosition, bool) {
	const id, at = 16, 8
	b, err := base64.RawURLEncoding.Strict().DecodeString(s)
	if err != nil || len(b) != id+at+activitySum || !bytes.Equal(b[id+at:], activityQuerySum(b[:id+at], tenant, q)) {
		return audit.ActivityPosition{}, false
	}
	when := time.UnixMicro(int64(binary.BigEndian.Uint64(b[id:]))).UTC() //nolint:gosec // written so
	// Postgres would refuse a made-up moment out of its range.
	return audit.ActivityPosition{At: when, ID: bff.IDFromBytes(bff.PrefixActivity, [16]byte(b[:id]))}, when.Year() >= 0 && when.Year() <= 9999
}

// activityQuerySum is over everything that decides which activities a list has. Pages
// of one list may have different lengths.
func activityQuerySum(position []byte, tenant bff.ID, q audit.ActivityQuery) []byte {
	sum := sha256.Sum256([]byte(strings.Join([]string{
		string(position), tenant.String(), q.Property.String(), q.Resource.Kind, q.Resource.ID, q.Operator,
		q.From.Format(time.RFC3339Nano), q.To.Format(time.RFC3339Nano),
	}, "\n")))
	return sum[:activitySum]
}
