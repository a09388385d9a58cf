package consumerd

import (
	"context"
	"errors"
	"os"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"melmastoon.ghasi.io/bff"
	"melmastoon.ghasi.io/bff/handoff"
	"melmastoon.ghasi.io/bff/internal/consumer"
	"melmastoon.ghasi.io/bff/internal/consumer/consumerstore"
	"melmastoon.ghasi.io/bff/internal/consumer/consumerupstream"
	"melmastoon.ghasi.io/bff/internal/daemon"
	"melmastoon.ghasi.io/bff/internal/service"
)

// doctor examines what the service stands on, and attacks a tenant of its own.
type doctor struct {
	Config
	service.DoctorSettings
}

// Run examines everything and says what is wrong.
func (d *doctor) Run(ctx context.Context, id service.Identity, env *daemon.Environment) error {
	return d.examination(id, env).Run(ctx, os.Stdout)
}

func (d *doctor) examination(id service.Identity, env *daemon.Environment) *service.Examination {
	x := service.ExamineAll(id, env, d.DoctorSettings, d.subject())
	db := x.Postgres()
	x.Add(
		service.Check{Area: "hand-off", Name: "used twice", Attack: true, Run: d.onLedger(db, attackLedger)},
		service.Check{Area: "hand-off", Name: "token", Attack: true, Run: withRing(d.handoffKeys(), attackToken)},
		service.Check{Area: "card", Name: "planted", Attack: true, Run: withRing(d.cardKeys(), attackCard)},
	)
	return x
}

// check examines settings and connections.
type check struct {
	Config
	service.DoctorSettings
}

// Run says what is wrong, and changes nothing.
func (c *check) Run(ctx context.Context, id service.Identity, env *daemon.Environment) error {
	return service.ExamineConnections(id, env, c.DoctorSettings, c.subject()).Run(ctx, os.Stdout)
}

func (c *Config) subject() service.Subject {
	return service.Subject{Settings: &c.Settings, Wrong: c.Validate(), Unsafe: append(c.Unsafe(), c.unsafe()...), FlagsFile: c.FlagsFile, Places: c.places}
}

// places examines the keyrings and whether the upstreams answer.
func (c *Config) places(x *service.Examination) {
	x.Add(
		service.Check{Area: "keys", Name: "keyring of the hand-off", Run: keyring(c.handoffKeys(), handoff.Lifetime, x.Now)},
		service.Check{Area: "keys", Name: "keyring of the cards", Run: keyring(c.cardKeys(), consumer.CardLifetime, x.Now)},
	)
	tenant, _ := service.Tenants()
	probes := consumerupstream.Probes(tenant, bff.DateOf(time.Now()))
	for _, u := range []struct{ name, setting string }{
		{"search-aggregation", "search-url"}, {"pricing", "pricing-url"}, {"property", "property-url"}, {"theme-config", "theme-url"}, {"tenant", "tenant-url"},
	} {
		x.Upstream(u.name, c.urls()[u.setting], probes[u.setting])
	}
}

// keyring examines a ring of keys: that it can be read, that one key signs, and that
// a key which was replaced stays as long as what it has signed.
func keyring(from keySource, life time.Duration, now func() time.Time) func(context.Context) ([]service.Finding, error) {
	return withRing(from, func(_ context.Context, ring *handoff.Keyring) ([]service.Finding, error) {
		return judgeRing(ring.KeySet(), life, now()), nil
	})
}

// keyOld is when a key is due for rotation.
const keyOld = 366 * 24 * time.Hour

func judgeRing(set *handoff.KeySet, life time.Duration, now time.Time) []service.Finding {
	var (
		active handoff.Key
		count  = map[handoff.State]int{}
	)
	for _, k := range set.Keys() {
		count[k.State()]++
		if k.State() == handoff.Active {
			active = k
		}
	}
	age := now.Sub(active.ActivatedAt())
	switch {
	case count[handoff.Active] != 1:
		return service.Bad("add one with the command keys", "no key signs")
	case age < -time.Minute:
		return service.Bad("see whether this machine's clock is right", "the active key %s signs since %s, which is in the future", active.ID(), bff.At(active.ActivatedAt()))
	case age < life && len(set.Keys()) > 1 && count[handoff.Grace] == 0:
		return service.Doubtful("keep a replaced key in grace for that long: keys retire does, unless keys revoke was meant",
			"the key %s signs since %s, and what the one before has signed may live for %s: it is refused already", active.ID(), bff.At(active.ActivatedAt()), life)
	case age > keyOld:
		return service.Doubtful("rotate: keys add, deploy, keys promote", "the active key %s is older than a year", active.ID())
	}
	return service.Good("%s signs since %s, %d in grace, %d pending", active.ID(), bff.At(active.ActivatedAt()), count[handoff.Grace], count[handoff.Pending])
}

// withRing reads a ring of keys once.
func withRing(from keySource, do func(context.Context, *handoff.Keyring) ([]service.Finding, error)) func(context.Context) ([]service.Finding, error) {
	return func(ctx context.Context) ([]service.Finding, error) {
		if from.validate() != nil {
			return nil, service.ErrUnset
		}
		ring, err := from.read(ctx)
		if err != nil {
			return nil, err
		}
		return do(ctx, ring)
	}
}

// ledger is where hand-offs are used up.
type ledger interface {
	AddHandoff(ctx context.Context, h consumer.Handoff) error
	RemoveHandoff(ctx context.Context, id bff.ID) error
	Consume(ctx context.Context, id bff.ID, instance string, now time.Time) (consumer.Handoff, error)
}

func (d *doctor) onLedger(open func() (*pgxpool.Pool, error), do func(context.Context, ledger) ([]service.Finding, error)) func(context.Context) ([]service.Finding, error) {
	return func(ctx context.Context) ([]service.Finding, error) {
		db, err := open()
		if err != nil {
			return nil, errors.New("the ledger could not be reached: see postgres")
		}
		return do(ctx, consumerstore.New(consumerstore.Config{DB: db}))
	}
}
