// Package probe attacks a deployment of either service, with the settings and rights of
// its serving processes: tenants that no hotel can be, rows in transactions that are
// undone, and rows and keys that are removed at the end. No program that serves links it.
package probe

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"os"
	"sync"
	"time"

	"melmastoon.ghasi.io/bff"
	"melmastoon.ghasi.io/bff/internal/backoffice/backofficed"
	"melmastoon.ghasi.io/bff/internal/consumer/consumerd"
	"melmastoon.ghasi.io/bff/internal/consumer/consumerstore"
	"melmastoon.ghasi.io/bff/internal/doctor"
	"melmastoon.ghasi.io/bff/internal/service"
)

// Main attacks the service that the first argument names and returns the exit status.
func Main(args []string) int {
	if len(args) > 0 {
		switch args[0] {
		case "bff-consumer":
			return service.Main(consumerd.Identity(), new(consumerProbe), args[1:])
		case "bff-backoffice":
			return service.Main(backofficed.Identity(), new(backofficeProbe), args[1:])
		}
	}
	fmt.Fprintln(os.Stderr, "melmastoon probe: which service? bff-consumer or bff-backoffice, and then settings of its command serve")
	return 2
}

// consumerProbe has the settings of the guests' service. The examination's are no part of
// the command, which would then run with wrong settings.
type consumerProbe struct {
	consumerd.Config
	Doctor doctor.Settings `embed:""`
}

// Run attacks and says what was let through.
func (p *consumerProbe) Run(ctx context.Context, id service.Identity) error {
	return p.examination(id).Run(ctx, os.Stdout)
}

func (p *consumerProbe) examination(id service.Identity) *doctor.Examination {
	x := doctor.NewExamination(id, &p.Settings, p.Doctor)
	open := x.Postgres()
	x.Add(doctor.Check{Area: "hand-off", Name: "used twice", Run: func(ctx context.Context) ([]doctor.Finding, error) {
		db, err := open()
		if err != nil {
			return nil, err
		}
		return attackLedger(ctx, consumerstore.New(consumerstore.Config{DB: db}))
	}}, doctor.Check{Area: "signatures", Name: "keyrings", Run: func(ctx context.Context) ([]doctor.Finding, error) {
		tokens, cards, err := p.Keyrings(ctx)
		if err != nil {
			return nil, err
		}
		onTokens, err1 := attackToken(tokens)
		onCards, err2 := attackCard(cards)
		return append(onTokens, onCards...), errors.Join(err1, err2)
	}})
	return x
}

// backofficeProbe has the settings of the staff service.
type backofficeProbe struct {
	backofficed.Config
	Doctor doctor.Settings `embed:""`
}

// Run attacks and says what was let through.
func (p *backofficeProbe) Run(ctx context.Context, id service.Identity) error {
	return p.examination(id).Run(ctx, os.Stdout)
}

// tablesTimeouts is how many times a server's time the attack on all tables together
// has: there may be many.
const tablesTimeouts = 24

func (p *backofficeProbe) examination(id service.Identity) *doctor.Examination {
	x := doctor.NewExamination(id, &p.Settings, p.Doctor)
	open, sessions := x.Postgres(), x.Redis("session", p.RedisSessionURL)
	victim, attacker := tenants()
	x.Add(doctor.Check{Area: "tenants", Name: "rows of another tenant", Timeout: tablesTimeouts * p.Doctor.Timeout, Run: func(ctx context.Context) ([]doctor.Finding, error) {
		db, err := open()
		if err != nil {
			return nil, err
		}
		return attackTenants(ctx, db, id.Schema.Schema, victim, attacker)
	}}, doctor.Check{Area: "tenants", Name: "a tenant left on a connection", Run: func(ctx context.Context) ([]doctor.Finding, error) {
		return attackPool(ctx, x.PostgresConfig(), victim)
	}}, doctor.Check{Area: "guard", Name: "requests", Run: func(ctx context.Context) ([]doctor.Finding, error) {
		client, err := sessions()
		if err != nil {
			return nil, err
		}
		store := p.sessions(client, x.Keys())
		return p.attackGuard(ctx, target{sessions: store, store: store})
	}}, doctor.Check{Area: "second factor", Name: "attestation", Run: func(ctx context.Context) ([]doctor.Finding, error) {
		client, err := sessions()
		if err != nil {
			return nil, err
		}
		store := p.sessions(client, x.Keys())
		return attackAttestation(ctx, store, store)
	}})
	return x
}

// tenants of the attacks: no hotel's id is of the first millisecond of 1970.
func tenants() (victim, attacker bff.ID) {
	victim = doctor.Tenant()
	other := victim.Bytes()
	other[15]++
	return victim, bff.IDFromBytes(bff.PrefixTenant, other)
}

const (
	rivals  = 8 // attempts at once, of which one may succeed
	cleanUp = 5 * time.Second
)

// onlyOne judges attempts to use one thing several times at once.
func onlyOne(advice string, attempt func(i int) error) doctor.Finding {
	errs := make([]error, rivals)
	var wg sync.WaitGroup
	for i := range errs {
		wg.Go(func() { errs[i] = attempt(i) })
	}
	wg.Wait()
	won := 0
	for _, err := range errs {
		if err == nil {
			won++
		}
	}
	f := doctor.Finding{Check: "used by several at once", Verdict: doctor.OK, Found: fmt.Sprintf("one of %d was let through", rivals)}
	if won != 1 {
		f.Verdict, f.Found, f.Advice = doctor.Wrong, fmt.Sprintf("%d of %d were let through, want one", won, rivals), advice
	}
	return f
}

// refusal judges an attempt by the error that it ought to end with; without a code, any
// will do.
func refusal(name string, err error, want bff.Code, advice string) doctor.Finding {
	f := doctor.Finding{Check: name, Verdict: doctor.OK, Found: "refused"}
	switch {
	case err == nil:
		f.Verdict, f.Found, f.Advice = doctor.Wrong, "was accepted", advice
	case want != "" && bff.CodeOf(err) != want:
		f.Verdict, f.Found = doctor.Warning, "could not be tried: "+string(bff.CodeOf(err))
	}
	return f
}

// tampered turns every bit of a signed text around, one at a time.
func tampered(name, text string, verify func(string) error, advice string) doctor.Finding {
	f := doctor.Finding{Check: name, Verdict: doctor.OK}
	raw, err := base64.RawURLEncoding.DecodeString(text)
	if err != nil {
		f.Verdict, f.Found = doctor.Warning, "could not be tried: it is no base64url"
		return f
	}
	for i := range 8 * len(raw) {
		raw[i/8] ^= 1 << (i % 8)
		if verify(base64.RawURLEncoding.EncodeToString(raw)) == nil {
			f.Verdict, f.Found, f.Advice = doctor.Wrong, fmt.Sprintf("was accepted with another bit %d", i), advice
			return f
		}
		raw[i/8] ^= 1 << (i % 8)
	}
	f.Found = fmt.Sprintf("refused with each of its %d bits changed", 8*len(raw))
	return f
}
