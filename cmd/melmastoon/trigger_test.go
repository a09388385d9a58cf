package main

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"time"

	"melmastoon.ghasi.io/bff"
	"melmastoon.ghasi.io/bff/internal/local/sim"
)

// TestEveryReceivedEventCanBeTriggered: what a service listens to is described, and what
// is made up without a word of the user is what the service wants.
func TestEveryReceivedEventCanBeTriggered(t *testing.T) {
	t.Parallel()
	upstreams, err := sim.New(sim.Config{})
	if err != nil {
		t.Fatal(err)
	}
	s, err := trigger{Operator: defaultOperator}.choose(upstreams.Catalog(), upstreams.Cast())
	if err != nil {
		t.Fatal(err)
	}
	if !slices.Contains(s.operator.PropertyScope, s.property.PropertyID) {
		t.Errorf("the default hotel %s is none of the operator's: %v", s.property.PropertyID, s.operator.PropertyScope)
	}
	known, err := receivedEvents()
	if err != nil {
		t.Fatal(err)
	}
	if len(known) != len(received()) || len(known) < 40 {
		t.Errorf("%d events", len(known))
	}
	for _, e := range known {
		payload := s.payload(e, time.Now())
		b, err := json.Marshal(payload)
		if err != nil {
			t.Fatal(err)
		}
		if err := e.check(b); err != nil {
			t.Errorf("%s: %v\n%s", e.topic, err, b)
		}
		if _, err := bff.ParseID(bff.PrefixTenant, payload["tenantId"].(string)); err != nil {
			t.Errorf("%s: %v", e.topic, err)
		}
		if strings.HasPrefix(e.short(), "iam.user.") && payload["operatorId"] == "" {
			t.Errorf("%s without an operator", e.topic)
		}
		for _, name := range []string{e.topic, e.short()} {
			if found, err := findEvent(known, name); err != nil || found.topic != e.topic {
				t.Errorf("%s: found %s, %v", name, found.topic, err)
			}
		}
		delete(payload, "tenantId")
		delete(payload, "propertyId")
		if b, _ = json.Marshal(payload); e.check(b) == nil {
			t.Errorf("%s: accepted without what it is about: %s", e.topic, b)
		}
	}
	for name, want := range map[string]string{"tenant.deleted": "tenant.suspended", "tea": "trigger --list"} {
		if _, err := findEvent(known, name); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want a hint to %s", name, err, want)
		}
	}
}

func TestTriggerChooses(t *testing.T) {
	t.Parallel()
	upstreams, err := sim.New(sim.Config{})
	if err != nil {
		t.Fatal(err)
	}
	all, cast := upstreams.Catalog(), upstreams.Cast()
	hotel := all.Properties[len(all.Properties)-1]
	other := all.Tenants[0]
	for _, tc := range []struct {
		name                     string
		trigger                  trigger
		wantTenant, wantProperty string // ids; empty = any
		wantErr                  string
	}{
		{"hotel by name", trigger{Hotel: strings.ToUpper(hotel.Name)}, "", "", ""},
		{"hotel by id", trigger{Hotel: hotel.PropertyID}, hotel.TenantID, hotel.PropertyID, ""},
		{"tenant by slug", trigger{Tenant: other.Slug}, other.TenantID, "", ""},
		{"tenant by id, operator of another", trigger{Tenant: other.TenantID, Operator: "laila"}, other.TenantID, "", ""},
		{"unknown hotel", trigger{Hotel: "tea house"}, "", "", "--hotel"},
		{"unknown tenant", trigger{Tenant: "tea house"}, "", "", "--tenant"},
		{"hotel of another tenant", trigger{Tenant: other.Slug, Hotel: hotel.PropertyID}, "", "", "is not one of"},
		{"operator that works nowhere", trigger{Operator: "opt_none"}, other.TenantID, "", ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			s, err := tc.trigger.choose(all, cast)
			if tc.wantErr != "" {
				if err == nil || !strings.Contains(err.Error(), tc.wantErr) {
					t.Errorf("%v, want %s", err, tc.wantErr)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if tc.wantTenant != "" && s.tenant.TenantID != tc.wantTenant || tc.wantProperty != "" && s.property.PropertyID != tc.wantProperty {
				t.Errorf("tenant %s, hotel %s", s.tenant.TenantID, s.property.PropertyID)
			}
			if s.property.TenantID != s.tenant.TenantID || s.operator.TenantID != s.tenant.TenantID {
				t.Errorf("not of one tenant: %+v", s)
			}
		})
	}
}
