package consumerd

import (
	"context"
	"os"
	"time"

	"melmastoon.ghasi.io/bff"
	"melmastoon.ghasi.io/bff/handoff"
	"melmastoon.ghasi.io/bff/internal/consumer"
	"melmastoon.ghasi.io/bff/internal/consumer/consumerupstream"
	"melmastoon.ghasi.io/bff/internal/daemon"
	"melmastoon.ghasi.io/bff/internal/doctor"
	"melmastoon.ghasi.io/bff/internal/service"
)

// doctorCommand examines what the service stands on.
type doctorCommand struct {
	Config
	doctor.Settings
}

// Run examines everything and says what is wrong.
func (d *doctorCommand) Run(ctx context.Context, id service.Identity, env *daemon.Environment) error {
	return doctor.ExamineAll(id, env, d.Settings, d.subject()).Run(ctx, os.Stdout)
}

// check examines settings and connections.
type check struct {
	Config
	doctor.Settings
}

// Run says what is wrong, and changes nothing.
func (c *check) Run(ctx context.Context, id service.Identity, env *daemon.Environment) error {
	return doctor.ExamineConnections(id, env, c.Settings, c.subject()).Run(ctx, os.Stdout)
}

func (c *Config) subject() doctor.Subject {
	return doctor.Subject{Settings: &c.Settings, Wrong: c.Validate(), Unsafe: append(c.Unsafe(), c.unsafe()...), FlagsFile: c.FlagsFile, Places: c.places}
}

// places examines the keyrings and whether the upstreams answer.
func (c *Config) places(x *doctor.Examination) {
	x.Add(
		doctor.Check{Area: "keys", Name: "keyring of the hand-off", Run: keyring(c.handoffKeys(), handoff.Lifetime, x.Now)},
		doctor.Check{Area: "keys", Name: "keyring of the cards", Run: keyring(c.cardKeys(), consumer.CardLifetime, x.Now)},
	)
	probes := consumerupstream.Probes(doctor.Tenant(), bff.DateOf(time.Now()))
	for _, u := range []struct{ name, setting string }{
		{"search-aggregation", "search-url"}, {"pricing", "pricing-url"}, {"property", "property-url"}, {"theme-config", "theme-url"}, {"tenant", "tenant-url"},
	} {
		x.Upstream(u.name, c.urls()[u.setting], probes[u.setting])
	}
}

// keyring examines a ring of keys: that it can be read, that one key signs, and that
// a key which was replaced stays as long as what it has signed.
func keyring(from keySource, life time.Duration, now func() time.Time) func(context.Context) ([]doctor.Finding, error) {
	return func(ctx context.Context) ([]doctor.Finding, error) {
		if from.validate() != nil {
			return nil, doctor.ErrUnset
		}
		ring, err := from.read(ctx)
		if err != nil {
			return nil, err
		}
		return judgeRing(ring.KeySet(), life, now()), nil
	}
}

// keyOld is when a key is due for rotation.
const keyOld = 366 * 24 * time.Hour

func judgeRing(set *handoff.KeySet, life time.Duration, now time.Time) []doctor.Finding {
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
		return doctor.Bad("add one with the command keys", "no key signs")
	case age < -time.Minute:
		return doctor.Bad(
			"see whether this machine's clock is right", "the active key %s signs since %s, which is in the future", active.ID(), bff.At(active.ActivatedAt()),
		)
	case age < life && len(set.Keys()) > 1 && count[handoff.Grace] == 0:
		return doctor.Doubtful("keep a replaced key in grace for that long: keys retire does, unless keys revoke was meant",
			"the key %s signs since %s, and what the one before has signed may live for %s: it is refused already", active.ID(), bff.At(active.ActivatedAt()), life)
	case age > keyOld:
		return doctor.Doubtful("rotate: keys add, deploy, keys promote", "the active key %s is older than a year", active.ID())
	}
	return doctor.Good("%s signs since %s, %d in grace, %d pending", active.ID(), bff.At(active.ActivatedAt()), count[handoff.Grace], count[handoff.Pending])
}
