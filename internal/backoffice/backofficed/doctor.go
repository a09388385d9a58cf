package backofficed

import (
	"context"
	"maps"
	"os"
	"slices"
	"strings"

	"melmastoon.ghasi.io/bff/internal/backoffice/audit"
	"melmastoon.ghasi.io/bff/internal/backoffice/backofficeupstream"
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

// places examines the keys and whether the upstreams answer.
func (c *Config) places(x *doctor.Examination) {
	x.Add(doctor.Check{Area: "keys", Name: "nonce-keys, sync-keys and pepper", Run: c.distinct})
	if len(c.AuditKeys) > 0 || c.AuditKeysFile != "" || c.AuditKeysSecret != "" {
		x.Add(doctor.Check{Area: "keys", Name: "audit keys", Run: c.auditKeys})
	}
	x.Issuer("keys", "issuer of access tokens", c.jwksURL())
	urls := c.urls()
	for _, name := range slices.Sorted(maps.Keys(urls)) {
		x.Upstream(string(name), urls[name], backofficeupstream.Probe(name, doctor.Tenant()))
	}
}

// distinct looks for secrets that are given twice: one that leaks from
// its one place would open the other too. Lengths are a matter of the settings.
func (c *Config) distinct(context.Context) ([]doctor.Finding, error) {
	if len(c.NonceKeys) == 0 || len(c.SyncKeys) == 0 || c.Pepper == "" {
		return nil, doctor.ErrUnset
	}
	names := map[string]string{}
	var found []doctor.Finding
	for _, ring := range []struct {
		name string
		keys []daemon.Secret
	}{{"BFF_BACKOFFICE_NONCE_KEYS", c.NonceKeys}, {"BFF_BACKOFFICE_SYNC_KEYS", c.SyncKeys}, {"BFF_BACKOFFICE_PEPPER", []daemon.Secret{c.Pepper}}} {
		for _, key := range ring.keys {
			switch other, used := names[key.Reveal()]; {
			case used && other == ring.name:
				found = append(found, doctor.Doubtful(
					"put the new key first and the old one behind it", "%s: the same key stands there twice, so that nothing was rotated", ring.name,
				)...)
			case used:
				found = append(found, doctor.Doubtful("give each a secret of its own", "%s and %s share a secret", other, ring.name)...)
			}
			names[key.Reveal()] = ring.name
		}
	}
	if len(found) > 0 {
		return found, nil
	}
	return doctor.Good("%d nonce keys and %d sync keys, the first of which is in use; all are distinct", len(c.NonceKeys), len(c.SyncKeys)), nil
}

// auditKeys looks at the keys that sign the audit, wherever they are kept.
func (c *Config) auditKeys(ctx context.Context) ([]doctor.Finding, error) {
	lines, err := c.keyLines(ctx)
	if err != nil {
		return nil, err
	}
	if _, err := audit.ParseAuditKeys(lines); err != nil {
		return doctor.Bad("make one with `echo \"audit-2026-11:$(openssl rand -base64 32)\"`", "%s", err), nil
	}
	if len(service.Guessable("", seeds(lines)...)) > 0 {
		return doctor.Bad("replace it, and see whether heads were signed with it", "a key can be guessed, and a changed audit signed with it"), nil
	}
	return doctor.Good("%d, the first of which signs", len(lines)), nil
}

func (c *Config) jwksURL() string {
	return strings.TrimSuffix(c.IAMURL, "/") + "/.well-known/jwks.json"
}
