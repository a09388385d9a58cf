package sim

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"regexp"
	"strconv"
	"time"

	"melmastoon.ghasi.io/bff"
)

// controlIndex is for people who look at the simulator with a browser.
const controlIndex = `Simulated upstreams, each below its name: /pricing/…, /property/…. See docs/upstreams.md.

  /_sim/catalog    tenants, houses and staff of the data set
  /_sim/operators  operators that can sign in by name
  /_sim/faults     what misbehaves
  /_sim/calls      how often each route was called
`

// controlRoutes mount the interface under /_sim. It is neither counted nor
// slowed nor failed.
func (s *Sim) controlRoutes() {
	s.mux.HandleFunc("GET /{$}", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/plain; charset=utf-8")
		_, _ = io.WriteString(w, controlIndex) // fails only if the client has left
	})
	s.control("GET /_sim/calls", func([]byte, *http.Request) (any, error) { return s.Calls(), nil })
	s.control("DELETE /_sim/calls", func([]byte, *http.Request) (any, error) { s.ResetCalls(); return nil, nil })
	s.control("GET /_sim/faults", func([]byte, *http.Request) (any, error) {
		return map[string]any{"faults": s.Faults()}, nil
	})
	s.control("POST /_sim/faults", func(body []byte, _ *http.Request) (any, error) {
		var f Fault
		if err := decodeStrict(body, &f); err != nil {
			return nil, err
		}
		if err := s.SetFault(f); err != nil {
			return nil, err
		}
		return created{f}, nil
	})
	s.control("DELETE /_sim/faults", func(_ []byte, r *http.Request) (any, error) {
		s.ClearFaults(r.URL.Query()["upstream"]...)
		return nil, nil
	})
	s.control("POST /_sim/events", func(body []byte, r *http.Request) (any, error) {
		var ev struct {
			Topic   string          `json:"topic"`
			Payload json.RawMessage `json:"payload"`
		}
		if err := decodeStrict(body, &ev); err != nil {
			return nil, err
		}
		id, published, err := s.Emit(r.Context(), ev.Topic, ev.Payload)
		if err != nil {
			return nil, err
		}
		return accepted{map[string]any{"eventId": id, "published": published}}, nil
	})
	s.control("GET /_sim/catalog", func([]byte, *http.Request) (any, error) { return s.Catalog(), nil })
	s.control("GET /_sim/operators", func([]byte, *http.Request) (any, error) {
		return map[string]any{"operators": s.Cast()}, nil
	})
	s.drillRoutes()
	s.control("POST /_sim/iam/keys", func(body []byte, _ *http.Request) (any, error) {
		var req struct {
			Alg     string `json:"alg"`
			DropOld bool   `json:"dropOld"`
		}
		if err := decodeStrict(body, &req); err != nil {
			return nil, err
		}
		if err := s.RotateKeys(req.Alg, req.DropOld); err != nil {
			return nil, err
		}
		keys, err := s.iam.keys.published(s.cfg.Now())
		return created{keys}, err
	})
}

func (s *Sim) control(pattern string, h func(body []byte, r *http.Request) (any, error)) {
	s.mux.HandleFunc(pattern, func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxBody))
		if err != nil {
			writeFailure(w, &failure{status: http.StatusRequestEntityTooLarge, code: "PAYLOAD_TOO_LARGE", message: "body too large"})
			return
		}
		out, err := h(body, r)
		if err != nil {
			writeFailure(w, err)
			return
		}
		writeJSON(w, out)
	})
}

// decodeStrict refuses fields it does not know: a misspelt fault that silently
// does nothing would make a test pass for nothing.
func decodeStrict(body []byte, v any) error {
	dec := json.NewDecoder(bytes.NewReader(body))
	dec.DisallowUnknownFields()
	if err := dec.Decode(v); err != nil {
		return decodeFailure(err)
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		return refused(bff.FieldErrors{{Field: "body", Code: bff.FieldFormat}})
	}
	return nil
}

var topicForm = regexp.MustCompile(`^melmastoon(\.[a-z0-9_-]+)+?(?:\.v([0-9]{1,3}))?$`)

const publishTimeout = 5 * time.Second

// Emit lets the platform report something: the event acts on the simulator's
// own state where it knows how, and goes to the topic of its name in the
// platform's envelope.
func (s *Sim) Emit(ctx context.Context, topic string, payload json.RawMessage) (eventID string, published bool, err error) {
	var bad bff.FieldErrors
	form := topicForm.FindStringSubmatch(topic)
	bad.Check(topic != "", "topic", bff.FieldRequired)
	bad.Check(topic == "" || form != nil && len(topic) <= 255, "topic", bff.FieldFormat)
	var about news
	switch trimmed := bytes.TrimSpace(payload); {
	case len(trimmed) == 0 || string(trimmed) == "null":
		bad.Add("payload", bff.FieldRequired)
	case trimmed[0] != '{':
		bad.Add("payload", bff.FieldType)
	default:
		if err := json.Unmarshal(payload, &about); err != nil {
			if t, ok := errors.AsType[*json.UnmarshalTypeError](err); ok {
				bad.Add("payload."+t.Field, bff.FieldType)
			} else {
				bad.Add("payload", bff.FieldFormat)
			}
		}
	}
	if err := refused(bad); err != nil {
		return "", false, err
	}
	s.apply(topic, about)

	version := 1
	if form[2] != "" {
		if version, err = strconv.Atoi(form[2]); err != nil {
			return "", false, fmt.Errorf("read version of topic: %w", err)
		}
	}
	ev := s.event(topic, version, payload)
	if about.TenantID != "" {
		ev.Envelope.TenantID = &about.TenantID
	}
	published, err = s.publish(ctx, ev, cmp.Or(about.TenantID, about.PropertyID))
	if err != nil {
		return "", false, err
	}
	return ev.Envelope.EventID, published, nil
}

// publish sends an event to the topic of its name, if there is a publisher.
func (s *Sim) publish(ctx context.Context, ev bff.Event, key string) (bool, error) {
	if s.cfg.Publisher == nil {
		return false, nil
	}
	data, err := json.Marshal(ev)
	if err != nil {
		return false, fmt.Errorf("encode event: %w", err)
	}
	ctx, cancel := context.WithTimeout(ctx, publishTimeout)
	defer cancel()
	if err := s.cfg.Publisher.Publish(ctx, ev.Envelope.Subject, data, key); err != nil {
		return false, errors.Join(&failure{status: http.StatusBadGateway, code: "PUBLISH_FAILED", message: "the event acted here but could not be published"}, err)
	}
	return true, nil
}

// news is what the simulator reads of an event's payload.
type news struct {
	TenantID         string   `json:"tenantId"`
	PropertyID       string   `json:"propertyId"`
	PublishedVersion string   `json:"publishedVersion"`
	OperatorID       string   `json:"operatorId"`
	DeviceID         string   `json:"deviceId"`
	DisplayName      string   `json:"displayName"`
	Roles            []string `json:"roles"`
	PropertyScope    []string `json:"propertyScope"`
	Flag             string   `json:"flag"`
	Enabled          bool     `json:"enabled"`
	AlertID          string   `json:"alertId"`
	Category         string   `json:"category"`
	Severity         string   `json:"severity"`
}

// apply does what the event reports. Unknown things are left alone: the event
// may be about a tenant of the test's own.
func (s *Sim) apply(topic string, n news) {
	switch topic {
	case "melmastoon.tenant.suspended.v1":
		s.SuspendTenant(n.TenantID)
	case "melmastoon.tenant.reinstated.v1", "melmastoon.tenant.reactivated.v1":
		s.ReinstateTenant(n.TenantID)
	case "melmastoon.tenant.membership.added.v1", "melmastoon.tenant.membership.changed.v1":
		s.setMember(n.TenantID, n.OperatorID, n.DisplayName, n.Roles, n.PropertyScope)
	case "melmastoon.tenant.membership.removed.v1":
		s.removeMember(n.TenantID, n.OperatorID)
	case "melmastoon.tenant.feature_flag.toggled.v1":
		s.setFlag(n.TenantID, n.Flag, n.Enabled)
	case "melmastoon.iam.session.revoked.v1":
		if n.TenantID != "" { // without one it would sign everybody out
			s.iam.end(Revocation{TenantID: n.TenantID, OperatorID: n.OperatorID, DeviceID: n.DeviceID})
		}
	case "melmastoon.iam.user.locked.v1", "melmastoon.iam.user.unlocked.v1":
		if n.OperatorID != "" {
			s.iam.setLocked(n.OperatorID, topic == "melmastoon.iam.user.locked.v1")
		}
	case "melmastoon.iam.device.revoked.v1", "melmastoon.iam.device.trusted.v1":
		if n.DeviceID != "" {
			s.iam.setBarred(n.DeviceID, topic == "melmastoon.iam.device.revoked.v1")
		}
	case "melmastoon.theme.published.v1", "melmastoon.theme.events":
		if n.PublishedVersion != "" {
			s.PublishTheme(n.TenantID, n.PublishedVersion)
		}
	case "melmastoon.search_aggregation.listing.indexed.v1", "melmastoon.search.projection.updated.v1":
		s.IndexListing(n.PropertyID)
	case "melmastoon.notification.alert.raised.v1":
		if _, err := bff.ParseID(prefixAlert, n.AlertID); err == nil && s.data.propertyByID[n.PropertyID] != nil { // lists have it, too
			s.addAlert(Alert{
				AlertID: n.AlertID, TenantID: n.TenantID, PropertyID: n.PropertyID, Category: n.Category, Severity: n.Severity,
				Title: "Reported by hand", Status: "open", RaisedAt: bff.At(s.cfg.Now()),
			})
		}
	}
}

// Catalog is what a test may want to know of the data set.
type Catalog struct {
	Tenants    []CatalogTenant   `json:"tenants"`
	Properties []CatalogProperty `json:"properties"`
	Operators  []CatalogOperator `json:"operators"`
}

// CatalogTenant is a tenant of the data set.
type CatalogTenant struct {
	TenantID string `json:"tenantId"`
	Slug     string `json:"slug"`
	Name     string `json:"name"`
	Status   string `json:"status"`
}

// CatalogProperty is a house of the data set.
type CatalogProperty struct {
	PropertyID string `json:"propertyId"`
	TenantID   string `json:"tenantId"`
	City       string `json:"city"`
	Country    string `json:"country"`
	Name       string `json:"name"`
	Geo        Point  `json:"geo"`
}

// CatalogOperator is a member of staff of the data set.
type CatalogOperator struct {
	OperatorID    string   `json:"operatorId"`
	TenantID      string   `json:"tenantId"`
	DisplayName   string   `json:"displayName"`
	Roles         []string `json:"roles"`
	PropertyScope []string `json:"propertyScope"`
}

// Catalog lists the data set. Operators and properties are shared: read them only.
func (s *Sim) Catalog() Catalog {
	c := Catalog{Tenants: make([]CatalogTenant, 0, len(s.data.tenants)), Operators: s.data.listed.Operators, Properties: s.data.listed.Properties}
	for _, t := range s.data.tenants {
		c.Tenants = append(c.Tenants, CatalogTenant{t.id, t.slug, t.names.En, s.status(t)})
	}
	return c
}

// list writes down the part of the catalogue that never changes.
func (ds *dataset) list() {
	for _, t := range ds.tenants {
		for _, o := range t.operators {
			ds.listed.Operators = append(ds.listed.Operators, CatalogOperator{o.id, t.id, o.displayName, o.roles, o.propertyScope})
		}
	}
	for _, p := range ds.properties {
		ds.listed.Properties = append(ds.listed.Properties, CatalogProperty{p.id, p.tenant.id, p.city.names.En, p.country.code, p.names.En, p.geo})
	}
}
