package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"melmastoon.ghasi.io/bff/internal/local/sim"
)

type trigger struct {
	terminal
	Event    string            `arg:"" optional:"" help:"Name of an event that either service listens to, such as tenant.suspended."`
	List     bool              `help:"List these events."`
	Tenant   string            `help:"Slug, name or id of the tenant (default: that of the operator; to suspend, one where no named operator works)."`
	Hotel    string            `help:"Name or id of the hotel (default: one of the tenant's)."`
	Operator string            `default:"parwana" help:"User name or id of the operator."`
	Set      map[string]string `placeholder:"MEMBER=VALUE" help:"A member of the payload: JSON, or a text. May be repeated."`
	DryRun   bool              `help:"Print the payload and publish nothing."`
}

// usualOperator is who an event is about unless another is named.
const usualOperator = "parwana"

// Run publishes an event as its producer would: the simulated platform acts by it and
// then tells it through Pub/Sub.
func (t trigger) Run(ctx context.Context) error {
	known, err := receivedEvents()
	if err != nil {
		return err
	}
	if t.List {
		out := tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', 0)
		for _, e := range known {
			_, _ = fmt.Fprintf(out, "%s\t%s\n", e.short(), e.title)
		}
		return out.Flush()
	}
	if t.Event == "" {
		return errors.New("which event? 'melmastoon trigger --list' lists them")
	}
	e, err := findEvent(known, t.Event)
	if err != nil {
		return err
	}
	w, err := t.find()
	if err != nil {
		return err
	}
	done, err := t.publish(ctx, w.Environment["MELMASTOON_SIM_URL"], e)
	if err != nil {
		return err
	}
	if t.DryRun {
		fmt.Printf("%s\n  %s\n", e.topic, done.payload)
		return nil
	}
	fmt.Printf("published %s as %s\n  %s\n", e.topic, done.EventID, done.payload)
	if e.short() == suspended {
		fmt.Printf("undo: melmastoon trigger tenant.reinstated --tenant %s\n", done.tenant.Slug)
	}
	return nil
}

// published is an event that the platform has reported.
type published struct {
	*scene
	EventID string
	payload []byte // as it is shown
}

// publish has the platform at base report an event.
func (t trigger) publish(ctx context.Context, base string, e receivedEvent) (done published, err error) {
	if done.scene, err = t.scene(ctx, base, e.short()); err != nil {
		return done, err
	}
	payload := done.scene.payload(e, time.Now())
	for name, value := range t.Set {
		payload[name] = member(value)
	}
	if done.payload, err = json.MarshalIndent(payload, "  ", "  "); err != nil {
		return done, err
	}
	if err := e.check(done.payload); err != nil {
		return done, fmt.Errorf("%s: %w", e.topic, err)
	}
	if t.DryRun {
		return done, nil
	}
	return done, ask(ctx, http.MethodPost, base+"/_sim/events", map[string]any{"topic": e.topic, "payload": payload}, &done)
}

// member reads a value of the command line: JSON where it is some, a text otherwise.
func member(value string) any {
	var v any
	if json.Unmarshal([]byte(value), &v) != nil {
		return value
	}
	return v
}

// findEvent finds an event by its topic, with or without the platform's name before it
// and the version behind.
func findEvent(known []receivedEvent, name string) (receivedEvent, error) {
	var near []string
	for _, e := range known {
		if name == e.topic || name == e.short() || name == strings.TrimPrefix(e.topic, platformName) {
			return e, nil
		}
		if strings.Contains(e.short(), name) || strings.HasPrefix(name, strings.SplitN(e.short(), ".", 2)[0]+".") {
			near = append(near, e.short())
		}
	}
	if len(near) == 0 {
		return receivedEvent{}, fmt.Errorf("neither service listens to %q: 'melmastoon trigger --list' lists what they listen to", name)
	}
	return receivedEvent{}, fmt.Errorf("neither service listens to %q: want one of\n  %s", name, strings.Join(near, "\n  "))
}

// scene is what an event is about.
type scene struct {
	tenant   sim.CatalogTenant
	property sim.CatalogProperty
	operator sim.CatalogOperator
}

// suspended is the event that would lock out the operator of the next terminal.
const suspended = "tenant.suspended"

// scene finds tenant, hotel and operator in the data set.
func (t trigger) scene(ctx context.Context, base, event string) (*scene, error) {
	var all sim.Catalog
	if err := ask(ctx, http.MethodGet, base+"/_sim/catalog", nil, &all); err != nil {
		return nil, err
	}
	var cast struct{ Operators []sim.CastOperator }
	if err := ask(ctx, http.MethodGet, base+"/_sim/operators", nil, &cast); err != nil {
		return nil, err
	}
	if event == suspended && t.Tenant == "" && t.Hotel == "" {
		t.Tenant = unmanned(all, cast.Operators)
	}
	return t.choose(all, cast.Operators)
}

// unmanned is an active tenant with a hotel at which none of the operators that sign in
// by name works.
func unmanned(all sim.Catalog, cast []sim.CastOperator) string {
	taken := map[string]bool{}
	for _, o := range cast {
		for _, m := range o.Memberships {
			taken[m.TenantID] = true
		}
	}
	for _, c := range all.Tenants {
		if !taken[c.TenantID] && c.Status == "active" && slices.ContainsFunc(all.Properties, func(p sim.CatalogProperty) bool { return p.TenantID == c.TenantID }) {
			return c.TenantID
		}
	}
	return ""
}

func (t trigger) choose(all sim.Catalog, cast []sim.CastOperator) (*scene, error) {
	s := new(scene)
	if t.Hotel != "" {
		i := slices.IndexFunc(all.Properties, func(p sim.CatalogProperty) bool {
			return p.PropertyID == t.Hotel || strings.EqualFold(p.Name, t.Hotel)
		})
		if i < 0 {
			return nil, fmt.Errorf("--hotel: no hotel is called %q: 'melmastoon open hotels' shows them", t.Hotel)
		}
		s.property = all.Properties[i]
	}
	operator, home := t.Operator, ""
	for _, o := range cast {
		if o.Username == t.Operator {
			operator = o.OperatorID
			for _, m := range o.Memberships {
				home = cmp.Or(home, m.TenantID)
			}
		}
	}
	if home == "" && len(all.Tenants) > 0 { // the operator works nowhere
		home = all.Tenants[0].TenantID
	}
	wanted := cmp.Or(t.Tenant, s.property.TenantID, home)
	i := slices.IndexFunc(all.Tenants, func(c sim.CatalogTenant) bool {
		return c.TenantID == wanted || c.Slug == wanted || strings.EqualFold(c.Name, wanted)
	})
	if i < 0 {
		return nil, fmt.Errorf("--tenant: no tenant is called %q: 'melmastoon open hotels' shows them", wanted)
	}
	s.tenant = all.Tenants[i]
	if s.property.PropertyID != "" && s.property.TenantID != s.tenant.TenantID {
		return nil, fmt.Errorf("--hotel: %s is not one of %s's", s.property.Name, s.tenant.Name)
	}
	// The named operator if it works there, or one that does.
	at := func(o sim.CatalogOperator) bool { return o.TenantID == s.tenant.TenantID }
	i = slices.IndexFunc(all.Operators, func(o sim.CatalogOperator) bool { return at(o) && o.OperatorID == operator })
	if i < 0 {
		i = slices.IndexFunc(all.Operators, at)
	}
	if i >= 0 {
		s.operator = all.Operators[i]
	}
	if s.property.PropertyID == "" {
		s.property = workplace(all.Properties, s.tenant.TenantID, s.operator.PropertyScope)
	}
	return s, nil
}

// workplace is a hotel of the tenant that is in an operator's scope, so that the operator
// hears of it, or any of the tenant's.
func workplace(all []sim.CatalogProperty, tenant string, scope []string) (found sim.CatalogProperty) {
	for _, p := range all {
		if p.TenantID != tenant {
			continue
		}
		if slices.Contains(scope, p.PropertyID) {
			return p
		}
		if found.PropertyID == "" {
			found = p
		}
	}
	return found
}
