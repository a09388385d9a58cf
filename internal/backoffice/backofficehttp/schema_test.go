package backofficehttp_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io/fs"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/santhosh-tekuri/jsonschema/v6"

	"melmastoon.ghasi.io/bff"
	"melmastoon.ghasi.io/bff/contracts"
	"melmastoon.ghasi.io/bff/internal/backoffice"
	"melmastoon.ghasi.io/bff/internal/backoffice/audit"
	"melmastoon.ghasi.io/bff/internal/backoffice/device"
	"melmastoon.ghasi.io/bff/internal/backoffice/identity"
	"melmastoon.ghasi.io/bff/internal/testkit"
)

// schemas are the published ones, by their ids.
var schemas = sync.OnceValues(func() (map[string]*jsonschema.Schema, error) {
	c := jsonschema.NewCompiler()
	c.DefaultDraft(jsonschema.Draft2020)
	var uris []string
	err := fs.WalkDir(contracts.Events(), ".", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		b, err := fs.ReadFile(contracts.Events(), path)
		if err != nil {
			return err
		}
		doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(b))
		if err != nil {
			return err
		}
		uris = append(uris, contracts.SchemaBase+path)
		return c.AddResource(contracts.SchemaBase+path, doc)
	})
	all := map[string]*jsonschema.Schema{}
	for _, uri := range uris {
		if err == nil {
			all[uri], err = c.Compile(uri)
		}
	}
	return all, err
})

// checkEvent holds an event to its schema.
func checkEvent(e bff.Event) error {
	all, err := schemas()
	if err != nil {
		return err
	}
	e.Envelope.PublishedAt = bff.At(time.Now()) // the relay's part
	b, err := json.Marshal(e)
	if err != nil {
		return err
	}
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(b))
	if err != nil {
		return err
	}
	schema := all[e.Envelope.SchemaURI]
	if schema == nil {
		return fmt.Errorf("there is no schema %s", e.Envelope.SchemaURI)
	}
	if err := schema.Validate(doc); err != nil {
		return fmt.Errorf("%s: %w", b, err)
	}
	return nil
}

// Every event that the service publishes is made once, and follows its schema: the
// outbox of these tests takes no other.
func TestEventsFollowTheirSchemas(t *testing.T) {
	t.Parallel()
	f := newFront(t, frontConfig{})
	f.employ("opt_karim", backoffice.Maintenance)
	a := f.sender("opt_parwana")
	a.session()
	f.advance(time.Minute)
	b := f.senderAt("opt_karim", a.device)
	r := b.request("GET", base+"/session", "")
	f.send(0, r)
	f.send(0, r) // a replay
	b.from(0, "POST", "/auth/mfa/step-up", `{"scope":"lock.revoke","code":"000000","resourceId":"rsv_1"}`)
	preferences := b.putPreferences(1, `{"payload":{}}`)
	preferences.path += "?propertyId=" + house
	f.send(0, preferences)
	f.devices.lose(b.caller().Device)
	beat := b.request("POST", base+"/devices/"+b.device.ID()+"/heartbeat", goodHeartbeat)
	beat.header.Set("X-Request-Id", sampledRequest)
	f.send(0, beat)
	for _, view := range []string{"/dashboard", "/arrivals"} {
		look := b.request("GET", base+view+"?propertyId="+house, "")
		look.header.Set("X-Request-Id", sampledRequest)
		f.send(0, look)
	}
	f.send(0, f.sender("opt_parwana").lock("issue", ""))
	f.furnish()
	for _, name := range []string{string(backoffice.WorkOrderOpen), "decide", "acknowledge"} {
		f.send(0, b.action(name))
	}
	b.from(0, "POST", "/sync/handshake", "")
	f.send(0, b.keyed(base+"/sync/cursor", b.nextMove()))
	lost, err := device.LostDevice{Tenant: f.tenant, Device: b.caller().Device, LastHeartbeat: f.clock()}.Event(backoffice.NewEnvelopes("test"), f.clock())
	if err != nil {
		t.Fatal(err)
	}
	if err := f.outbox.Record(testkit.Context(t), nil, lost, sealedEvent(t, f)); err != nil {
		t.Fatal(err)
	}
	if err := f.accesses[0].Revoke(testkit.Context(t), identity.Revocation{
		Tenant: f.tenant, Reason: "test", At: f.clock(),
	}, backoffice.Occasion{Causation: "x"}, f.clock()); err != nil {
		t.Fatal(err)
	}
	var want []string
	for _, s := range backoffice.Subjects() {
		want = append(want, string(s))
	}
	slices.Sort(want)
	seen := func() []string {
		f.outbox.mu.Lock()
		defer f.outbox.mu.Unlock()
		var out []string
		for _, e := range f.outbox.events {
			out = append(out, e.Envelope.Subject)
		}
		slices.Sort(out)
		return slices.Compact(out)
	}
	f.finish() // the replay is reported after its response
	if diff := cmp.Diff(want, seen()); diff != "" {
		t.Error(diff)
	}
}

// sealedEvent is that of a signed audit chain.
func sealedEvent(t *testing.T, f *front) bff.Event {
	t.Helper()
	keys, err := audit.ParseAuditKeys([]string{"k1:" + strings.Repeat("A", 43) + "="})
	if err != nil {
		t.Fatal(err)
	}
	head, err := keys.Sign(f.tenant, 3, audit.Digest{1}, f.clock())
	if err != nil {
		t.Fatal(err)
	}
	e, err := head.Event(backoffice.NewEnvelopes("test"), 2, f.clock())
	if err != nil {
		t.Fatal(err)
	}
	return e
}
