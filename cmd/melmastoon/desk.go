package main

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"text/tabwriter"
	"time"

	"melmastoon.ghasi.io/bff/internal/daemon"
	staff "melmastoon.ghasi.io/bff/internal/desk"
	"melmastoon.ghasi.io/bff/internal/local/sim"
	"melmastoon.ghasi.io/bff/internal/world"
)

const (
	// deskDir is where devices are kept, below the platform's home.
	deskDir = "desk"
	// defaultOperator is at the front desk.
	defaultOperator = "parwana"
	deskTimeout     = time.Minute
	// maxDeskBody is more than the service takes.
	maxDeskBody = 4 << 20
)

type desk struct {
	Device        string `default:"desk" help:"Which of this user's computers; each has a key and a sign-in of its own."`
	Dir           string `env:"MELMASTOON_DESK_DIR" help:"Where computers are kept (default: beside the platform's data)."`
	Data          string `env:"MELMASTOON_HOME" help:"Where the running platform has its data."`
	BackofficeURL string `env:"MELMASTOON_BACKOFFICE_URL" help:"The staff service (default: that of the running platform)."`
	SimURL        string `env:"MELMASTOON_SIM_URL" help:"The simulated upstreams, among them iam (default: those of the running platform)."`
	AppVersion    string `default:"1.0.0" help:"Version of the desktop app that is reported."`

	Operators deskOperators `cmd:"" help:"List the operators that can sign in by name."`
	SignIn    deskSignIn    `cmd:"" help:"Sign an operator in."`
	Get       deskGet       `cmd:"" help:"GET a path, such as /session."`
	Post      deskPost      `cmd:"" help:"POST to a path."`
	Put       deskPut       `cmd:"" help:"PUT to a path."`
	Follow    deskFollow    `cmd:"" help:"Print the events of a stream as they come."`
	StepUp    deskStepUp    `cmd:"" help:"Prove the second factor; prints the attestation for -H 'X-Mfa-Attestation: …'."`
	SignOut   deskSignOut   `cmd:"" help:"Close the session. The computer keeps its key."`
}

// client opens the computer.
func (d *desk) client() (*staff.Client, error) {
	home, err := world.Home(d.Data)
	if err != nil {
		return nil, err
	}
	if d.BackofficeURL == "" || d.SimURL == "" {
		at, err := world.Find(home)
		if err != nil {
			return nil, err
		}
		d.BackofficeURL = cmp.Or(d.BackofficeURL, at.Environment["MELMASTOON_BACKOFFICE_URL"])
		d.SimURL = cmp.Or(d.SimURL, at.Environment["MELMASTOON_SIM_URL"])
	}
	if d.Device == "" || strings.ContainsAny(d.Device, `/\`) {
		return nil, errors.New("--device: want a name without slashes")
	}
	path := filepath.Join(cmp.Or(d.Dir, filepath.Join(home, deskDir)), d.Device+".json")
	return staff.Open(path, staff.Config{BackofficeURL: d.BackofficeURL, IAMURL: d.SimURL + "/iam", AppVersion: d.AppVersion})
}

// atWork opens the computer with an operator signed in: the one of the last
// time, or the default one, which is said.
func (d *desk) atWork(ctx context.Context) (*staff.Client, error) {
	c, err := d.client()
	if err != nil {
		return nil, err
	}
	now, last := c.SignedIn()
	if now {
		return c, nil
	}
	who := last
	if who == (staff.Operator{}) {
		who.Username = defaultOperator
	}
	if err := d.signIn(ctx, c, who); err != nil {
		return nil, err
	}
	fmt.Fprintln(os.Stderr, "Another operator: melmastoon desk sign-in NAME; 'melmastoon desk operators' lists them.")
	return c, nil
}

func (d *desk) signIn(ctx context.Context, c *staff.Client, who staff.Operator) error {
	if err := c.SignIn(ctx, who); err != nil {
		return unreachable(err, d.SimURL)
	}
	fmt.Fprintf(os.Stderr, "Signed in as %s on %s.\n", d.describe(ctx, who), c.Device().ID())
	return nil
}

// describe says who an operator is, as far as that can be found out.
func (d *desk) describe(ctx context.Context, who staff.Operator) string {
	cast, err := d.cast(ctx)
	if err != nil {
		return cmp.Or(who.Username, who.OperatorID)
	}
	for _, o := range cast {
		for _, m := range o.Memberships {
			if o.Username == who.Username && (who.TenantID == "" || who.TenantID == m.TenantID) {
				return fmt.Sprintf("%s, %s at %s", o.DisplayName, strings.Join(m.Roles, " and "), m.TenantName)
			}
		}
	}
	return cmp.Or(who.Username, who.OperatorID)
}

// cast asks the simulator for the operators with a name.
func (d *desk) cast(ctx context.Context) ([]sim.CastOperator, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, d.SimURL+"/_sim/operators", nil)
	if err != nil {
		return nil, err
	}
	res, err := (&http.Client{Timeout: deskTimeout}).Do(req)
	if err != nil {
		return nil, unreachable(err, d.SimURL)
	}
	defer func() { _ = res.Body.Close() }()
	var list struct{ Operators []sim.CastOperator }
	if err := json.NewDecoder(io.LimitReader(res.Body, maxDeskBody)).Decode(&list); err != nil {
		return nil, fmt.Errorf("list operators: %w", err)
	}
	return list.Operators, nil
}

// unreachable says what to do when nothing listens there.
func unreachable(err error, url string) error {
	if _, ok := errors.AsType[*net.OpError](err); ok {
		return fmt.Errorf("nothing answers at %s: is 'melmastoon up' still running? %w", url, err)
	}
	return err
}

type deskOperators struct{}

func (deskOperators) Run(ctx context.Context, d *desk) error {
	ctx, cancel := context.WithTimeout(ctx, deskTimeout)
	defer cancel()
	if _, err := d.client(); err != nil { // finds the platform
		return err
	}
	cast, err := d.cast(ctx)
	if err != nil {
		return err
	}
	out := tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', 0)
	_, _ = fmt.Fprintln(out, "NAME\tPERSON\tROLES\tPROPERTIES\tTENANT\t")
	for _, o := range cast {
		for _, m := range o.Memberships {
			scope, note := fmt.Sprint(len(m.PropertyScope)), ""
			if slices.Contains(m.PropertyScope, "*") {
				scope = "all"
			}
			if m.TenantStatus != "active" {
				note = " (" + m.TenantStatus + ")"
			}
			if o.Locked {
				note += " (locked)"
			}
			_, _ = fmt.Fprintf(out, "%s\t%s\t%s\t%s\t%s, %s%s\t\n", o.Username, o.DisplayName, strings.Join(m.Roles, ","), scope, m.TenantName, m.TenantSlug, note)
		}
	}
	return out.Flush()
}

type deskSignIn struct {
	Name   string `arg:"" help:"User name of an operator."`
	Tenant string `help:"Slug or id of the tenant, for an operator who works for several."`
}

func (s deskSignIn) Run(ctx context.Context, d *desk) error {
	ctx, cancel := context.WithTimeout(ctx, deskTimeout)
	defer cancel()
	c, err := d.client()
	if err != nil {
		return err
	}
	cast, err := d.cast(ctx)
	if err != nil {
		return err
	}
	i := slices.IndexFunc(cast, func(o sim.CastOperator) bool { return o.Username == s.Name })
	if i < 0 {
		return fmt.Errorf("no operator is called %q: 'melmastoon desk operators' lists them", s.Name)
	}
	var at []string
	for _, m := range cast[i].Memberships {
		if s.Tenant == m.TenantID || s.Tenant == m.TenantSlug || s.Tenant == "" && len(cast[i].Memberships) == 1 {
			return d.signIn(ctx, c, staff.Operator{Username: s.Name, TenantID: m.TenantID})
		}
		at = append(at, m.TenantSlug)
	}
	return fmt.Errorf("%s works for %s: say which with --tenant", s.Name, strings.Join(at, " and "))
}

// deskCall are the flags of every request.
type deskCall struct {
	Path    string   `arg:"" help:"Path below /bff/backoffice/v1, with its query."`
	Header  []string `short:"H" sep:"none" help:"A further header, 'Name: value'."`
	Include bool     `short:"i" help:"Print the status and the headers of the answer, too."`
}

type deskGet struct{ deskCall }

func (g deskGet) Run(ctx context.Context, d *desk) error { return g.send(ctx, d, http.MethodGet, "") }

type deskChange struct {
	deskCall
	JSON string `arg:"" optional:"" help:"Body; - reads it from standard input."`
	Key  string `help:"Idempotency key, a ULID (default: a fresh one)."`
}

type deskPost struct{ deskChange }

func (p deskPost) Run(ctx context.Context, d *desk) error { return p.change(ctx, d, http.MethodPost) }

type deskPut struct{ deskChange }

func (p deskPut) Run(ctx context.Context, d *desk) error { return p.change(ctx, d, http.MethodPut) }

func (c deskChange) change(ctx context.Context, d *desk, method string) error {
	if c.Key != "" {
		c.Header = append(c.Header, "X-Idempotency-Key: "+c.Key)
	}
	if c.JSON == "-" {
		b, err := io.ReadAll(io.LimitReader(os.Stdin, maxDeskBody))
		if err != nil {
			return err
		}
		c.JSON = string(bytes.TrimSpace(b))
	}
	return c.send(ctx, d, method, c.JSON)
}

// send makes one request and prints its answer as it comes. A refusal is printed
// as well, and the exit status is 1.
func (c deskCall) send(ctx context.Context, d *desk, method, body string) error {
	ctx, cancel := context.WithTimeout(ctx, deskTimeout)
	defer cancel()
	call := staff.Call{Method: method, Path: c.Path, Header: http.Header{}}
	for _, h := range c.Header {
		name, value, ok := strings.Cut(h, ":")
		if !ok {
			return fmt.Errorf("header %q: want 'Name: value'", h)
		}
		call.Header.Add(name, strings.TrimSpace(value))
	}
	if body != "" {
		if !json.Valid([]byte(body)) {
			return errors.New("the body is not JSON")
		}
		call.Body = json.RawMessage(body)
	}
	client, err := d.atWork(ctx)
	if err != nil {
		return err
	}
	res, err := client.Send(ctx, call)
	if err != nil {
		return unreachable(err, d.BackofficeURL)
	}
	defer func() { _ = res.Body.Close() }()
	if c.Include {
		_, _ = fmt.Fprintln(os.Stdout, res.Proto, res.Status)
		if err := res.Header.Write(os.Stdout); err != nil {
			return err
		}
		fmt.Println()
	}
	answer := io.Reader(res.Body)
	if kind := res.Header.Get("Content-Type"); isTerminal(os.Stdout) && (strings.HasPrefix(kind, "application/json") ||
		strings.HasPrefix(kind, "application/problem+json")) {
		b, err := io.ReadAll(io.LimitReader(res.Body, maxAnswer))
		if err != nil {
			return fmt.Errorf("read answer: %w", err)
		}
		var lines bytes.Buffer
		if json.Indent(&lines, b, "", "  ") != nil {
			lines = *bytes.NewBuffer(b)
		}
		answer = &lines
	}
	last := &lastByte{}
	if _, err := io.Copy(io.MultiWriter(os.Stdout, last), answer); err != nil {
		return fmt.Errorf("read answer: %w", err)
	}
	if last.b != 0 && last.b != '\n' {
		fmt.Println()
	}
	if res.StatusCode >= http.StatusBadRequest {
		fmt.Fprintln(os.Stderr, res.Status)
		return &daemon.ExitError{Status: 1}
	}
	return nil
}

// isTerminal reports whether a person reads the output: programs get answers as they came.
func isTerminal(f *os.File) bool {
	info, err := f.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice != 0
}

// lastByte remembers how a text ends.
type lastByte struct{ b byte }

func (l *lastByte) Write(p []byte) (int, error) {
	if len(p) > 0 {
		l.b = p[len(p)-1]
	}
	return len(p), nil
}

type deskFollow struct {
	Path  string `arg:"" default:"/sse/stream" help:"Path of the stream."`
	Pings bool   `help:"Print pings, too."`
}

func (f deskFollow) Run(ctx context.Context, d *desk) error {
	ctx, stop := signal.NotifyContext(ctx, os.Interrupt, syscall.SIGTERM)
	defer stop()
	c, err := d.atWork(ctx)
	if err != nil {
		return err
	}
	err = c.Follow(ctx, f.Path, func(e staff.Event) error {
		if e.Name == "ping" && !f.Pings {
			return nil
		}
		_, err := fmt.Printf("%s %s %s\n", cmp.Or(e.ID, "-"), e.Name, e.Data)
		return err
	})
	if errors.Is(err, context.Canceled) && ctx.Err() != nil {
		return nil
	}
	return unreachable(err, d.BackofficeURL)
}

type deskStepUp struct {
	Scope    string `arg:"" help:"What for: lock.revoke, folio.charge.large or folio.refund."`
	Resource string `help:"Id of the one thing that it is for."`
	Code     string `default:"000000" help:"The one-time code that the operator's phone shows."`
}

func (s deskStepUp) Run(ctx context.Context, d *desk) error {
	ctx, cancel := context.WithTimeout(ctx, deskTimeout)
	defer cancel()
	c, err := d.atWork(ctx)
	if err != nil {
		return err
	}
	id, err := c.StepUp(ctx, s.Scope, s.Resource, s.Code)
	if err != nil {
		return unreachable(err, d.BackofficeURL)
	}
	fmt.Println(id)
	return nil
}

type deskSignOut struct{}

func (deskSignOut) Run(ctx context.Context, d *desk) error {
	ctx, cancel := context.WithTimeout(ctx, deskTimeout)
	defer cancel()
	c, err := d.client()
	if err != nil {
		return err
	}
	if err := c.SignOut(ctx); err != nil {
		return unreachable(err, d.BackofficeURL)
	}
	fmt.Fprintln(os.Stderr, "Signed out.")
	return nil
}
