package sim

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"melmastoon.ghasi.io/bff"
)

// Topics of the staff console's events that services act on.
const (
	TopicDecided      = "melmastoon.bff.backoffice.ai_suggestion.decided.v1"
	TopicAcknowledged = "melmastoon.bff.backoffice.alert.acknowledged.v1"
)

// hearer is a service that listens to a topic.
type hearer struct {
	upstream, route string
	act             func(e bff.Event) error
}

// hear lets a service listen to a topic. It is counted and failed as a route of the
// service whose method is EVENT.
func (s *Sim) hear(upstream, topic string, act func(e bff.Event) error) {
	if s.hearers == nil {
		s.hearers = map[string]hearer{}
	}
	route := "EVENT " + topic
	s.hearers[topic] = hearer{upstream, route, act}
	s.calls.counter(upstream, route)
	s.faults.know(upstream, route)
}

// Topics lists what the simulated services listen to.
func (s *Sim) Topics() []string {
	var out []string
	for topic := range s.hearers {
		out = append(out, topic)
	}
	slices.Sort(out)
	return out
}

// Hear hands an event to the service that listens to its topic. After an error it is
// to be sent again: an outage of the service loses nothing. An event that comes twice
// acts once.
func (s *Sim) Hear(topic string, data []byte) error {
	h, ok := s.hearers[topic]
	if !ok {
		return fmt.Errorf("no service listens to %s", topic)
	}
	if s.faults.down(h.upstream, h.route) {
		return fmt.Errorf("%s is away", h.upstream)
	}
	s.calls.routes[h.upstream][h.route].Add(1)
	var e bff.Event
	if err := json.Unmarshal(data, &e); err != nil {
		return fmt.Errorf("read event: %w", err)
	}
	if e.Envelope.TenantID == nil {
		return errors.New("an event of no tenant")
	}
	return h.act(e)
}

// hearDecided closes a suggestion. What is decided already stays as it is: the first
// decision counts.
func (s *Sim) hearDecided(e bff.Event) error {
	var p struct {
		SuggestionID string `json:"suggestionId"`
		Outcome      string `json:"outcome"`
	}
	if err := json.Unmarshal(e.Payload, &p); err != nil {
		return err
	}
	if !slices.Contains([]string{"accepted", "rejected", "modified"}, p.Outcome) {
		return fmt.Errorf("a decision with outcome %q", p.Outcome)
	}
	return s.settle(p.SuggestionID, p.Outcome, "open")
}

// hearAcknowledged marks an alert.
func (s *Sim) hearAcknowledged(e bff.Event) error {
	var p struct {
		AlertID string `json:"alertId"`
	}
	if err := json.Unmarshal(e.Payload, &p); err != nil {
		return err
	}
	return s.settle(p.AlertID, "acknowledged", "open")
}

// settle moves a thing of an inbox that stands where it may be moved from; elsewhere
// it stays.
func (s *Sim) settle(id, to, from string) error {
	if id == "" {
		return errors.New("an event about nothing")
	}
	if stands := s.staff.stands(id, from); stands.status == from {
		_, err := s.staff.move(id, stands, to, s.cfg.Now(), from)
		return err
	}
	return nil
}
