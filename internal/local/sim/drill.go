package sim

import (
	"context"
	"encoding/json"
	"maps"
	"net/http"

	"melmastoon.ghasi.io/bff"
)

// drillRoutes let a test be the staff of any house: what it does shows at every
// service, and the services tell of it as they would. They are above tenants.
func (s *Sim) drillRoutes() {
	drill := func(route string, h func(c *call) (any, error)) {
		s.control(route, func(body []byte, r *http.Request) (any, error) {
			return h(&call{Request: r, body: body, now: s.cfg.Now(), reply: http.Header{}, above: true})
		})
	}
	drill("POST /_sim/reservations/{reservationId}/{action}", func(c *call) (any, error) {
		res, err := s.moveStay(c, c.PathValue("action"))
		return res, err
	})
	drill("PATCH /_sim/reservations/{reservationId}", func(c *call) (any, error) {
		res, err := s.changeStay(c)
		return res, err
	})
	drill("POST /_sim/reservations/{reservationId}/lock-failures", s.failLock)
	s.lockControls(drill)
	drill("GET /_sim/executions", func(c *call) (any, error) {
		return map[string]int{"executions": s.staff.executions(c.URL.Query().Get("path"))}, nil
	})
	drill("GET /_sim/book", func(*call) (any, error) {
		return map[string]any{"executions": s.Book()}, nil
	})
	drill("POST /_sim/tasks", s.addTask)
	drill("POST /_sim/tasks/{taskId}/{transition}", s.moveTask)
	drill("POST /_sim/work-orders", s.openWorkOrder)
	drill("POST /_sim/work-orders/{workOrderId}/{transition}", s.moveWorkOrder)
	drill("PUT /_sim/properties/{propertyId}/rooms/{roomNumber}", s.setRoom)
	drill("POST /_sim/properties/{propertyId}/cash", s.putCash)
	drill("POST /_sim/alerts", s.raiseAlert)
	drill("POST /_sim/alerts/{alertId}/resolve", s.resolveAlert)
	drill("POST /_sim/suggestions", s.addSuggestion)
	drill("POST /_sim/suggestions/{suggestionId}/expire", s.expireSuggestion)
}

// tell publishes what a service has to say about a house. The envelope names the
// request that caused it. An event that cannot be published is lost, and the data
// stands: what is read is true all the same.
func (s *Sim) tell(c *call, topic string, p *property, payload map[string]any) {
	said := maps.Clone(payload)
	said["tenantId"], said["propertyId"] = c.speaks.id(p.tenant.id), c.speaks.id(p.id)
	b, err := json.Marshal(said)
	if err != nil {
		return // maps of texts, numbers and dates always encode
	}
	ev := s.event(topic, 1, b)
	ev.Envelope.TenantID, ev.Envelope.PropertyID = &p.tenant.id, p.id
	if id := c.Header.Get("X-Request-Id"); id != "" && len(id) <= 64 {
		ev.Envelope.RequestID, ev.Envelope.CorrelationID = &id, &id
	}
	// The caller may go once it was answered; what happened is told all the same.
	_, _ = s.publish(context.WithoutCancel(c.Context()), ev, p.id)
}

// event wraps a payload in the platform's envelope.
func (s *Sim) event(topic string, version int, payload json.RawMessage) bff.Event {
	now := s.cfg.Now()
	return bff.Event{
		Envelope: bff.Envelope{
			EventID: bff.NewID(bff.PrefixEvent, now).String(), Subject: topic, Version: version,
			OccurredAt: bff.At(now), PublishedAt: bff.At(now), Producer: "upstream-sim", ProducerInstance: "upstream-sim",
			SchemaURI: "https://schemas.melmastoon.ghasi.io/" + topic + ".json", RetentionClass: bff.RetentionOperational, SamplingRate: 1,
		},
		Payload: payload,
	}
}
