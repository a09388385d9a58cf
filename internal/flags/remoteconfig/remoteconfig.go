// Package remoteconfig reads flags from Firebase Remote Config, from the
// project's server template. It links the Firebase SDK, so only programs that
// run in the cloud import it.
package remoteconfig

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	firebase "firebase.google.com/go/v4"
	rc "firebase.google.com/go/v4/remoteconfig"
	"google.golang.org/api/option"
)

// Config of the source.
type Config struct {
	Project string
	// Flags to ask for; Remote Config's clients cannot list what there is.
	Flags []string
	// Randomization is what percentage conditions are drawn from: the same
	// text always falls on the same side. An instance's name makes it per
	// instance.
	Randomization string
	// Every is how old the template may be: the service has a quota. 0 means a
	// minute.
	Every time.Duration
	// Options reach the SDK: credentials, in tests an endpoint.
	Options []option.ClientOption
}

// Source is a flags.Source.
type Source struct {
	cfg      Config
	template *rc.ServerTemplate
	loaded   time.Time
	last     map[string]string
}

// New returns the source; it does not call out yet.
func New(ctx context.Context, cfg Config) (*Source, error) {
	if cfg.Project == "" || len(cfg.Flags) == 0 {
		return nil, errors.New("remote config: project and flags are needed")
	}
	if cfg.Every == 0 {
		cfg.Every = time.Minute
	}
	app, err := firebase.NewApp(ctx, &firebase.Config{ProjectID: cfg.Project}, cfg.Options...)
	if err != nil {
		return nil, fmt.Errorf("remote config: %w", err)
	}
	client, err := app.RemoteConfig(ctx)
	if err != nil {
		return nil, fmt.Errorf("remote config: %w", err)
	}
	template, err := client.InitServerTemplate(nil, "")
	if err != nil {
		return nil, fmt.Errorf("remote config: %w", err)
	}
	return &Source{cfg: cfg, template: template}, nil
}

// Name is "remoteconfig".
func (*Source) Name() string { return "remoteconfig" }

// Load returns the flags whose parameters have a value, from a template that
// is at most Every old.
func (s *Source) Load(ctx context.Context) (map[string]string, error) {
	if s.last != nil && time.Since(s.loaded) < s.cfg.Every {
		return s.last, nil
	}
	if err := s.template.Load(ctx); err != nil {
		return nil, err
	}
	config, err := s.template.Evaluate(map[string]any{"randomizationID": s.cfg.Randomization})
	if err != nil {
		return nil, err
	}
	values := map[string]string{}
	for _, flag := range s.cfg.Flags {
		if p := Parameter(flag); config.GetValueSource(p) == rc.Remote {
			values[flag] = config.GetString(p)
		}
	}
	s.last, s.loaded = values, time.Now()
	return values, nil
}

// Parameter is the name of a flag's parameter: Remote Config allows letters,
// digits and underscores only.
func Parameter(flag string) string {
	return strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r == '_' {
			return r
		}
		return '_'
	}, flag)
}
