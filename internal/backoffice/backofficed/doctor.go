package backofficed

import (
	"context"
	"errors"
	"maps"
	"os"
	"slices"
	"strings"

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
	x := service.NewExamination(id, &d.Settings, d.DoctorSettings)
	x.Configuration(env, d.Validate(), append(d.Unsafe(), d.unsafe()...))
	x.Servers()
	x.Add(service.Check{Area: "keys", Name: "nonce-keys, sync-keys and pepper", Run: d.keys})
	x.Issuer("keys", "issuer of access tokens", d.jwksURL())
	urls := d.urls()
	for _, name := range slices.Sorted(maps.Keys(urls)) {
		x.Upstream(string(name), urls[name])
	}
	sessions := x.Redis("session", d.RedisSessionURL)
	x.Add(service.Check{Area: "guard", Name: "requests", Attack: true, Run: func(ctx context.Context) ([]service.Finding, error) {
		client, err := sessions()
		if err != nil {
			return nil, err
		}
		stranger, err := newKeyPair()
		if err != nil {
			return nil, err
		}
		return d.attackGuard(ctx, d.newTarget(client, x.Keys()), stranger)
	}}, service.Check{Area: "second factor", Name: "attestation", Attack: true, Run: func(ctx context.Context) ([]service.Finding, error) {
		client, err := sessions()
		if err != nil {
			return nil, err
		}
		store := d.newTarget(client, x.Keys()).store
		return attackAttestation(ctx, store, store)
	}})
	return x
}

// keys looks for secrets that are given twice: one that leaks from
// its one place would open the other too. Lengths are a matter of the settings.
func (d *doctor) keys(context.Context) ([]service.Finding, error) {
	if len(d.NonceKeys) == 0 || len(d.SyncKeys) == 0 || d.Pepper == "" {
		return nil, errors.New("nonce-keys, sync-keys or pepper: missing")
	}
	names := map[string]string{}
	var found []service.Finding
	for _, ring := range []struct {
		name string
		keys []daemon.Secret
	}{{"BFF_BACKOFFICE_NONCE_KEYS", d.NonceKeys}, {"BFF_BACKOFFICE_SYNC_KEYS", d.SyncKeys}, {"BFF_BACKOFFICE_PEPPER", []daemon.Secret{d.Pepper}}} {
		for _, key := range ring.keys {
			switch other, used := names[key.Reveal()]; {
			case used && other == ring.name:
				found = append(found, service.Doubtful("put the new key first and the old one behind it", "%s: the same key stands there twice, so that nothing was rotated", ring.name)...)
			case used:
				found = append(found, service.Doubtful("give each a secret of its own", "%s and %s share a secret", other, ring.name)...)
			}
			names[key.Reveal()] = ring.name
		}
	}
	if len(found) > 0 {
		return found, nil
	}
	return service.Good("%d nonce keys and %d sync keys, the first of which is in use; all are distinct", len(d.NonceKeys), len(d.SyncKeys)), nil
}

func (c *Config) jwksURL() string {
	return strings.TrimSuffix(c.IAMURL, "/") + "/.well-known/jwks.json"
}
