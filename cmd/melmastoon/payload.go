package main

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"go.yaml.in/yaml/v3"

	"melmastoon.ghasi.io/bff"
	"melmastoon.ghasi.io/bff/contracts"
)

const platformName = "melmastoon."

// receivedEvent is an event that a service listens to, and what the service reads of
// its payload.
type receivedEvent struct {
	topic, title string
	schemas      []*jsonschema.Schema // of each service that listens to it
	members      []string
}

// short is the topic without the platform's name and the first version.
func (e receivedEvent) short() string {
	return strings.TrimSuffix(strings.TrimPrefix(e.topic, platformName), ".v1")
}

// check holds a payload to what the services want of it.
func (e receivedEvent) check(encoded []byte) error {
	payload, err := jsonschema.UnmarshalJSON(bytes.NewReader(encoded))
	errs := []error{err}
	for _, s := range e.schemas {
		errs = append(errs, s.Validate(payload))
	}
	return errors.Join(errs...)
}

// learn collects the members that a schema names.
func (e *receivedEvent) learn(s *jsonschema.Schema) {
	if s.Ref != nil {
		e.learn(s.Ref)
	}
	for _, part := range s.AllOf {
		e.learn(part)
	}
	for name := range s.Properties {
		if !slices.Contains(e.members, name) {
			e.members = append(e.members, name)
		}
	}
}

// receivedEvents are the events that the services listen to, from their AsyncAPI documents.
func receivedEvents() ([]receivedEvent, error) {
	topics := received()
	byTopic := map[string]*receivedEvent{}
	for _, service := range []string{"consumer", "backoffice"} {
		if err := readEvents(service, topics, byTopic); err != nil {
			return nil, fmt.Errorf("events of the %s service: %w", service, err)
		}
	}
	out := make([]receivedEvent, 0, len(topics))
	for _, topic := range topics {
		e := byTopic[topic]
		if e == nil {
			return nil, fmt.Errorf("%s is not described", topic)
		}
		out = append(out, *e)
	}
	return out, nil
}

// message is a message of an AsyncAPI document, as far as it is needed.
type message struct {
	Name    string `yaml:"name"`
	Title   string `yaml:"title"`
	Payload struct {
		Properties map[string]any `yaml:"properties"`
	} `yaml:"payload"`
}

func readEvents(service string, topics []string, into map[string]*receivedEvent) error {
	raw := contracts.AsyncAPI(service)
	var doc struct {
		Components struct{ Messages map[string]message }
	}
	var whole any
	if err := errors.Join(yaml.Unmarshal(raw, &doc), yaml.Unmarshal(raw, &whole)); err != nil {
		return err
	}
	c := jsonschema.NewCompiler()
	c.DefaultDraft(jsonschema.Draft2020)
	url := contracts.SchemaBase + "asyncapi/" + service + ".json"
	if err := c.AddResource(url, whole); err != nil {
		return err
	}
	for key, m := range doc.Components.Messages {
		if !slices.Contains(topics, m.Name) {
			continue // one that it publishes
		}
		at := url + "#/components/messages/" + key + "/payload"
		if _, enveloped := m.Payload.Properties["payload"]; enveloped {
			at += "/properties/payload"
		}
		schema, err := c.Compile(at)
		if err != nil {
			return err
		}
		e := into[m.Name]
		if e == nil {
			e = &receivedEvent{topic: m.Name, title: m.Title}
			into[m.Name] = e
		}
		e.schemas = append(e.schemas, schema)
		e.learn(schema)
	}
	return nil
}

// payload says of an event what its services read, about this tenant, hotel and operator.
func (s *scene) payload(e receivedEvent, now time.Time) map[string]any {
	p := map[string]any{}
	about := func(part string) bool { return strings.HasPrefix(e.short(), part) }
	put := func(name string, value any) {
		if slices.Contains(e.members, name) {
			p[name] = value
		}
	}
	put("tenantId", s.tenant.TenantID)
	put("propertyId", s.property.PropertyID)
	if about("iam.") || about("tenant.membership.") {
		put("operatorId", s.operator.OperatorID)
	}
	if about("iam.device.") {
		put("deviceId", bff.NewID(bff.PrefixDevice, now).String())
	}
	if !about("iam.device.trusted") {
		put("reason", "triggered by hand")
	}
	at := now.UTC().Format(time.RFC3339)
	for _, name := range []string{"publishedAt", "indexedAt", "suspendedAt", "reinstatedAt", "raisedAt"} {
		put(name, at)
	}
	put("expiresAt", now.Add(time.Hour).UTC().Format(time.RFC3339))
	put("alertId", "alr_"+bff.NewID(bff.PrefixEvent, now).ULID())
	for _, name := range []string{"credentialId", "suggestionId"} { // their producers' own
		put(name, "by-hand-"+bff.NewID(bff.PrefixEvent, now).ULID())
	}
	put("reservationId", bff.NewID(bff.PrefixReservation, now).String())
	put("publishedVersion", bff.NewID(bff.PrefixThemeVersion, now).String())
	put("themeId", bff.NewID(bff.PrefixTheme, now).String())
	switch { // what the simulated platform needs to act by it, too
	case about("tenant.membership.added"), about("tenant.membership.changed"):
		p["displayName"], p["roles"], p["propertyScope"] = s.operator.DisplayName, s.operator.Roles, s.operator.PropertyScope
	case about("tenant.feature_flag."):
		p["flag"], p["enabled"] = "beta_dashboard", true
	}
	return p
}
