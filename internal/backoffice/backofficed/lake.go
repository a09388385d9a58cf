package backofficed

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"strings"

	"melmastoon.ghasi.io/bff/internal/backoffice"
	"melmastoon.ghasi.io/bff/internal/backoffice/audit"
	"melmastoon.ghasi.io/bff/internal/backoffice/backofficelake"
	"melmastoon.ghasi.io/bff/internal/backoffice/backofficewarehouse"
	"melmastoon.ghasi.io/bff/internal/daemon"
	"melmastoon.ghasi.io/bff/internal/outbox"
	"melmastoon.ghasi.io/bff/internal/secrets"
	"melmastoon.ghasi.io/bff/internal/secrets/secretmanager"
	"melmastoon.ghasi.io/bff/internal/service"
)

// LakeSettings say where the audit lake is and which keys sign the chains.
type LakeSettings struct {
	LakeURL         string          `name:"lake-url" env:"BFF_BACKOFFICE_LAKE_URL" help:"Bucket of the audit lake: gs://bucket, or file:///directory."`
	WarehouseURL    string          `name:"warehouse-url" env:"BFF_BACKOFFICE_WAREHOUSE_URL" help:"Dataset that exported files are loaded into: bigquery://project/dataset, with ?location= outside of the US and the EU. It needs a lake at gs://; without, files are loaded nowhere."`
	AuditKeys       []daemon.Secret `name:"audit-keys" env:"BFF_BACKOFFICE_AUDIT_KEYS" help:"Keys that sign the heads of the audit chains, the newest first: id:base64 of an Ed25519 seed; id:public:base64 only verifies."`
	AuditKeysFile   string          `name:"audit-keys-file" env:"BFF_BACKOFFICE_AUDIT_KEYS_FILE" help:"File with such keys, one a line, read at each run." type:"path"`
	AuditKeysSecret string          `name:"audit-keys-secret" env:"BFF_BACKOFFICE_AUDIT_KEYS_SECRET" help:"The same as a secret: projects/…/secrets/…/versions/latest."`
}

// validate reports what a deployment must not leave out: rows that are never exported
// are never pruned, and what is not sealed can be changed unnoticed.
func (s *LakeSettings) validate() []error {
	var errs []error
	if s.LakeURL == "" {
		errs = append(errs, errors.New("lake-url: is required"))
	}
	if u, err := url.Parse(s.LakeURL); err == nil && u.Query().Has("endpoint") {
		errs = append(errs, errors.New("lake-url: endpoint is for tests, the bucket is written there without credentials"))
	}
	given := 0
	for _, g := range []bool{len(s.AuditKeys) > 0, s.AuditKeysFile != "", s.AuditKeysSecret != ""} {
		if g {
			given++
		}
	}
	if given != 1 {
		errs = append(errs, errors.New("audit-keys, audit-keys-file or audit-keys-secret: exactly one is required"))
	}
	return errs
}

// inline are the keys that are given in the environment.
func (s *LakeSettings) inline() []string {
	var lines []string
	for _, k := range s.AuditKeys {
		lines = append(lines, k.Reveal())
	}
	return lines
}

// seeds are the secrets of keys.
func seeds(lines []string) []daemon.Secret {
	var seeds []daemon.Secret
	for _, line := range lines {
		_, text, _ := strings.Cut(line, ":")
		if seed, err := base64.StdEncoding.DecodeString(text); err == nil { // one that only verifies is no secret
			seeds = append(seeds, daemon.Secret(seed))
		}
	}
	return seeds
}

// keys reads the keys as they are now: one that was added needs no restart.
func (s *LakeSettings) keys(ctx context.Context) (*audit.Keys, error) {
	lines, err := s.keyLines(ctx)
	if err != nil {
		return nil, err
	}
	keys, err := audit.ParseAuditKeys(lines)
	if err != nil {
		return nil, fmt.Errorf("audit-keys: %w", err)
	}
	return keys, nil
}

func (s *LakeSettings) keyLines(ctx context.Context) (_ []string, err error) {
	var source secrets.Source
	switch {
	case s.AuditKeysFile != "":
		source = secrets.File(s.AuditKeysFile)
	case s.AuditKeysSecret != "":
		secret, err := secretmanager.Open(ctx, s.AuditKeysSecret)
		if err != nil {
			return nil, err
		}
		defer func() { err = errors.Join(err, secret.Close()) }()
		source = secret
	}
	if source != nil {
		b, err := source.Load(ctx)
		if err != nil {
			return nil, fmt.Errorf("audit keys: %w", err)
		}
		return strings.Fields(string(b)), nil
	}
	return s.inline(), nil
}

// warehouse opens what loads exported files; nil for none.
func (s *LakeSettings) warehouse() (backofficelake.Loader, error) {
	return backofficewarehouse.OpenLoader(s.LakeURL, s.WarehouseURL)
}

// lake opens the jobs of the audit lake. What is missing is reported by their runs.
func (s *LakeSettings) lake(table *outbox.Table, log *slog.Logger, instance string) (*backofficelake.Lake, error) {
	loader, err := s.warehouse()
	if err != nil {
		return nil, err
	}
	cfg := s.unloaded(table, log, instance)
	cfg.Loader = loader
	return backofficelake.New(cfg), nil
}

// unloaded is the lake without a warehouse.
func (s *LakeSettings) unloaded(table *outbox.Table, log *slog.Logger, instance string) backofficelake.Config {
	return backofficelake.Config{
		Outbox: table, News: backoffice.NewEnvelopes(instance), Log: log, Keys: s.keys,
		Bucket: func(ctx context.Context) (backofficelake.Bucket, error) {
			return backofficewarehouse.OpenBucket(ctx, s.LakeURL)
		},
	}
}

// jobsCommand runs jobs with the settings of the lake.
type jobsCommand struct {
	service.Jobs
	LakeSettings
}

// Run runs the named job.
func (j *jobsCommand) Run(ctx context.Context, id service.Identity) error {
	lake, err := j.lake(id.Outbox, slog.Default(), "jobs")
	if err != nil {
		return err
	}
	id.Jobs = jobs(id.Outbox, nil, lake)
	return j.Jobs.Run(ctx, id)
}
