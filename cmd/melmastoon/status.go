package main

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"text/tabwriter"
	"time"

	"melmastoon.ghasi.io/bff/internal/daemon"
	"melmastoon.ghasi.io/bff/internal/world"
)

type status struct{ terminal }

// part is something that runs, as status shows it.
type part struct {
	name, address, state, more string
}

// Run says what runs where and whether it is ready. The status of the command says
// whether all is well.
func (s status) Run(ctx context.Context) error {
	w, err := s.find()
	if err != nil {
		return err
	}
	since := time.Since(w.Since).Round(time.Second)
	fmt.Printf("Melmastoon runs since %s (%s), process %d, data in %s.\n\n", w.Since.Local().Format("15:04:05"), since, w.PID, w.Home)
	well := true
	out := tabwriter.NewWriter(os.Stdout, 2, 0, 2, ' ', 0)
	for _, p := range examine(ctx, w) {
		well = well && p.state != "not ready" && p.state != "away"
		_, _ = fmt.Fprintf(out, "  %s\t%s\t%s\t%s\n", p.name, p.address, p.state, p.more)
	}
	if err := out.Flush(); err != nil {
		return err
	}
	if !well {
		return &daemon.ExitError{Status: 1}
	}
	return nil
}

func examine(ctx context.Context, w *world.World) []part {
	var parts []part
	for _, svc := range []struct{ name, prefix string }{{"bff-consumer", "MELMASTOON_CONSUMER_"}, {"bff-backoffice", "MELMASTOON_BACKOFFICE_"}} {
		admin := w.Environment[svc.prefix+"ADMIN_URL"]
		p := part{name: svc.name, address: w.Environment[svc.prefix+"URL"], state: "ready"}
		var ready struct {
			Parts map[string]string `json:"parts"`
		}
		err := ask(ctx, http.MethodGet, admin+"/ready", nil, &ready)
		switch {
		case isRefused(err):
			p.state = "not ready"
		case err != nil:
			p.state = "away"
		}
		for name, state := range ready.Parts {
			if state != "up" {
				p.more += name + " " + state + "  "
			}
		}
		p.more += "admin " + admin + "  log " + filepath.Join(w.Logs, svc.name+".log")
		parts = append(parts, p)
	}
	for _, server := range []struct{ name, variable, more string }{
		{"pages", "MELMASTOON_PAGES_URL", "for a browser"},
		{"upstreams", "MELMASTOON_SIM_URL", "simulated"},
		{"Postgres", "MELMASTOON_POSTGRES_URL", ""},
		{"Redis", "MELMASTOON_REDIS_URL", ""},
		{"Pub/Sub", "PUBSUB_EMULATOR_HOST", ""},
	} {
		parts = append(parts, reach(ctx, server.name, w.Environment[server.variable], server.more))
	}
	return parts
}

// reach tries whether anything listens at an address.
func reach(ctx context.Context, name, address, more string) part {
	p := part{name: name, address: address, more: more}
	host := address
	if strings.Contains(address, "://") {
		u, err := url.Parse(address)
		if err != nil {
			p.address, p.state = "", "away"
			return p
		}
		host = u.Host
		if u.User != nil {
			p.address = host // without the password
		}
	}
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	conn, err := new(net.Dialer).DialContext(ctx, "tcp", host)
	if err != nil {
		p.state = "away"
		return p
	}
	_ = conn.Close() // it was reached
	p.state = "up"
	return p
}
