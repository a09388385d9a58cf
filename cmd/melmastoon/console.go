package main

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"net/http"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"time"

	"melmastoon.ghasi.io/bff/deploy"
	"melmastoon.ghasi.io/bff/internal/backoffice"
	"melmastoon.ghasi.io/bff/internal/backoffice/backofficecache"
	"melmastoon.ghasi.io/bff/internal/backoffice/backofficeevents"
	"melmastoon.ghasi.io/bff/internal/backoffice/backofficestore"
	"melmastoon.ghasi.io/bff/internal/consumer"
	"melmastoon.ghasi.io/bff/internal/consumer/consumerd"
	"melmastoon.ghasi.io/bff/internal/consumer/consumerevents"
	"melmastoon.ghasi.io/bff/internal/consumer/consumerstore"
	"melmastoon.ghasi.io/bff/internal/consumer/discovery"
	"melmastoon.ghasi.io/bff/internal/daemon"
	"melmastoon.ghasi.io/bff/internal/local/console"
	"melmastoon.ghasi.io/bff/internal/local/platform"
	"melmastoon.ghasi.io/bff/internal/pubsub"
	"melmastoon.ghasi.io/bff/internal/redis"
	"melmastoon.ghasi.io/bff/internal/world"
)

// names are texts of a kind, as texts.
func names[T ~string](list []T) (out []string) {
	for _, one := range list {
		out = append(out, string(one))
	}
	return out
}

func topicsOf(subs []pubsub.Subscription) (out []string) {
	for _, s := range subs {
		out = append(out, s.Topic)
	}
	return out
}

// newConsole tells the console what the services alone know.
func newConsole(ctx context.Context, w world.World, sim *platform.Upstreams, watch bool) (*console.Console, error) {
	env := w.Environment
	keys := func(service string) redis.Keys { return redis.NewKeys(env["MELMASTOON_ENV"], service) }
	events, err := receivedEvents()
	if err != nil {
		return nil, err
	}
	var buttons []console.Control
	for _, e := range events {
		body, err := json.Marshal(console.Trigger{Event: e.short()})
		if err != nil {
			return nil, err
		}
		buttons = append(buttons, console.Control{
			Name: e.title, Command: "melmastoon trigger " + e.short(), Method: http.MethodPost, Path: "/_up/trigger", Body: body,
		})
	}
	var rungs []string
	for r := discovery.RungNone; r <= discovery.RungListPrice; r++ {
		rungs = append(rungs, r.String())
	}
	return console.New(ctx, console.Config{
		Sim: sim, Environment: env, Events: buttons, Files: deploy.Files, Watch: watch,
		Services: []console.Service{
			{
				Name: "bff-consumer", Namespace: "bff_consumer", Metrics: env["MELMASTOON_CONSUMER_ADMIN_URL"] + "/metrics",
				Flags: keys("bff-consumer").Key("flags"), Outbox: consumerstore.OutboxTable(),
				Publishes: names(consumer.Subjects()), Receives: topicsOf(consumerevents.Subscriptions()),
			},
			{
				Name: "bff-backoffice", Namespace: "bff_backoffice", Metrics: env["MELMASTOON_BACKOFFICE_ADMIN_URL"] + "/metrics",
				Flags: backofficecache.FlagsKey(keys("bff-backoffice")), Streams: keys("bff-backoffice").Key("sse:bus", ""), Outbox: backofficestore.OutboxTable(),
				Publishes: names(backoffice.Subjects()), Receives: topicsOf(backofficeevents.Subscriptions()),
			},
		},
		Trigger: func(ctx context.Context, wanted console.Trigger) error {
			e, err := findEvent(events, wanted.Event)
			if err != nil {
				return err
			}
			_, err = trigger{Event: wanted.Event, Tenant: wanted.Tenant, Operator: cmp.Or(wanted.Operator, usualOperator), Set: wanted.Set}.publish(ctx, env["MELMASTOON_SIM_URL"], e)
			return err
		},
		Rungs: rungs, RungFlag: console.Flag{Service: "bff-consumer", Name: consumerd.FlagBrownout},
		CampaignFlag: console.Flag{Service: "bff-consumer", Name: consumerd.FlagCampaign},
		State:        func(ctx context.Context) (console.State, error) { return stateOf(ctx, &w) },
	})
}

// doctorTimeout is how long an examination may take; it is shorter than the console's
// patience.
const doctorTimeout = 8 * time.Second

// stateOf is what status and both doctors say.
func stateOf(ctx context.Context, w *world.World) (console.State, error) {
	build := daemon.ThisBuild()
	s := console.State{
		Since: w.Since, Home: w.Home, Parts: []console.Part{}, Findings: []console.Finding{},
		Versions: []console.Version{{Name: "melmastoon", Version: build.Version + " " + build.Revision}, {Name: "Go", Version: build.Go}},
	}
	for _, p := range examine(ctx, w) {
		s.Parts = append(s.Parts, console.Part{Name: p.name, Address: p.address, State: p.state, More: p.more})
	}
	ctx, cancel := context.WithTimeout(ctx, doctorTimeout)
	defer cancel()
	var wg sync.WaitGroup
	found := make([][]console.Finding, 2)
	for i, name := range []string{"bff-consumer", "bff-backoffice"} {
		wg.Go(func() { found[i] = examination(ctx, name, w.Environment) })
	}
	wg.Wait()
	s.Findings = slices.Concat(found...)
	for _, f := range s.Findings { // what a doctor found at its servers
		_, said, versioned := strings.Cut(f.Found, "version ")
		if name, _, _ := strings.Cut(f.Area, " "); versioned && f.Check == "server" {
			version, _, _ := strings.Cut(said, " ")
			if one := (console.Version{Name: name, Version: version}); !slices.Contains(s.Versions, one) {
				s.Versions = append(s.Versions, one)
			}
		}
	}
	return s, nil
}

// examination runs a service's doctor, as anyone would.
func examination(ctx context.Context, service string, env map[string]string) []console.Finding {
	var said struct{ Findings []console.Finding }
	exe, err := os.Executable()
	if err == nil {
		cmd := exec.CommandContext(ctx, exe, service, "doctor", "--json") //nolint:gosec // this program
		cmd.Env = append(os.Environ(), platform.Pairs(env)...)
		var out bytes.Buffer
		cmd.Stdout = &out
		err = cmd.Run() // fails if something is wrong, which its findings say
		if json.Unmarshal(out.Bytes(), &said) == nil && len(said.Findings) > 0 {
			for i := range said.Findings {
				said.Findings[i].Service = service
			}
			return said.Findings
		}
	}
	f := console.Finding{Service: service}
	f.Check, f.Verdict, f.Found = "doctor", "warning", "it did not answer in time"
	if err != nil && ctx.Err() == nil {
		f.Found = err.Error()
	}
	return []console.Finding{f}
}
