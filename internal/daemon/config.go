package daemon

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"reflect"
	"strings"
	"time"

	"github.com/alecthomas/kong"
)

// Settings are what every process of the house needs. A service embeds them in
// its own configuration.
type Settings struct {
	Environment string `name:"environment" env:"MELMASTOON_ENV" help:"Name of this environment; first part of every Redis key. Outside dev, local and test (or test-…) unsafe settings are refused."`
	Region      string `name:"region" env:"MELMASTOON_REGION" help:"The platform's region that this deployment serves from, such as asia-south1."`
	Instance    string `name:"instance" env:"MELMASTOON_INSTANCE" help:"Name of this process in events and logs (default: host name and pid)."`

	LogLevel  slog.Level `name:"log-level" env:"MELMASTOON_LOG_LEVEL" default:"info" help:"debug, info, warn or error."`
	LogFormat string     `name:"log-format" env:"MELMASTOON_LOG_FORMAT" default:"json" enum:"json,text" help:"json or text."`

	DrainDelay  time.Duration `name:"drain-delay" env:"MELMASTOON_DRAIN_DELAY" default:"5s" help:"How long to answer 'not ready' and close each connection after its answer before the listeners close, so that load balancers notice."`
	DrainBudget time.Duration `name:"drain-budget" env:"MELMASTOON_DRAIN_BUDGET" default:"20s" help:"How long a stop may take in all."`

	NoFastPath     bool `name:"no-fast-path" env:"MELMASTOON_NO_FAST_PATH" help:"Serve every request with net/http alone: slower, for fault-finding."`
	MaxConnections int  `name:"max-connections" env:"MELMASTOON_MAX_CONNECTIONS" default:"10000" help:"Open connections per listener; further ones are closed at once."`

	TraceSampling float64 `name:"trace-sampling" env:"MELMASTOON_TRACE_SAMPLING" default:"0.01" help:"Share of requests and deliveries that are recorded as traces when OTEL_EXPORTER_OTLP_ENDPOINT is set, whatever a caller's traceparent says; 0 = none."`
}

// Validate reports every bad setting.
func (s Settings) Validate() error {
	var errs []error
	if s.Environment == "" || strings.ContainsAny(s.Environment, ":{} ") {
		errs = append(errs, errors.New("environment (MELMASTOON_ENV): must be a word without colons, braces or spaces"))
	}
	if s.DrainBudget <= 0 || s.DrainDelay < 0 || s.DrainDelay >= s.DrainBudget {
		errs = append(errs, errors.New("drain-budget: must be positive and longer than drain-delay"))
	}
	if s.MaxConnections < 0 {
		errs = append(errs, errors.New("max-connections: must be positive, or 0 for the default"))
	}
	if s.TraceSampling < 0 || s.TraceSampling > 1 {
		errs = append(errs, errors.New("trace-sampling: must lie between 0 and 1"))
	}
	return errors.Join(errs...)
}

// Development reports whether unsafe settings are accepted. The environment has no
// default: a deployment that forgets to name it does not start.
func (s Settings) Development() bool {
	switch s.Environment {
	case "dev", "local", "test":
		return true
	}
	return strings.HasPrefix(s.Environment, "test-")
}

// InstanceName is how this process calls itself in events and logs.
func (s Settings) InstanceName(service string) string {
	if s.Instance != "" {
		return s.Instance
	}
	host, err := os.Hostname()
	if err != nil {
		host = "unknown"
	}
	return fmt.Sprintf("%s-%s-%d", service, host, os.Getpid())
}

// Secret is a setting that must not be seen: every way of printing it shows
// only that it is there.
type Secret string

const redacted = "[redacted]"

// Reveal returns the value, for the one place that needs it.
func (s Secret) Reveal() string { return string(s) }

func (s Secret) String() string {
	if s == "" {
		return ""
	}
	return redacted
}

// GoString keeps %#v from printing the value.
func (s Secret) GoString() string { return s.String() }

// Format keeps every fmt verb from printing the value.
func (s Secret) Format(f fmt.State, _ rune) { _, _ = io.WriteString(f, s.String()) }

// LogValue keeps slog from printing the value.
func (s Secret) LogValue() slog.Value { return slog.StringValue(s.String()) }

// MarshalJSON keeps encoders from printing the value.
func (s Secret) MarshalJSON() ([]byte, error) { return []byte(`"` + s.String() + `"`), nil }

// UnmarshalText reads the value from a flag or the environment.
func (s *Secret) UnmarshalText(b []byte) error {
	*s = Secret(b)
	return nil
}

// Command is one parsed command line, ready to run.
type Command struct{ *kong.Context }

// Parse reads flags and environment into cli, a struct with kong tags whose
// commands have Run methods. Every unreadable environment variable is reported
// at once, together with what is wrong on the command line; values are never
// part of the message, because some of them are secrets.
func Parse(cli any, name, description string, args []string, options ...kong.Option) (*Command, error) {
	parser, err := kong.New(cli, append(options, kong.Name(name), kong.Description(description), kong.UsageOnError(),
		kong.ConfigureHelp(kong.HelpOptions{Compact: true}))...)
	if err != nil {
		return nil, fmt.Errorf("configuration of %s: %w", name, err)
	}
	bad := badEnvironment(parser.Model.Node)
	if len(bad) > 0 {
		return nil, errors.Join(bad...)
	}
	kctx, err := parser.Parse(args)
	if err != nil {
		return nil, fmt.Errorf("command line: %w", err)
	}
	return &Command{kctx}, nil
}

// Run executes the chosen command. Its Run method may take a context.Context.
func (c *Command) Run(ctx context.Context) error {
	c.BindTo(ctx, (*context.Context)(nil))
	return c.Context.Run()
}

func badEnvironment(node *kong.Node) []error {
	var errs []error
	seen := map[string]bool{}
	var walk func(n *kong.Node)
	walk = func(n *kong.Node) {
		for _, f := range n.Flags {
			for _, env := range f.Envs {
				value, set := os.LookupEnv(env)
				if !set || seen[env] {
					continue
				}
				seen[env] = true
				target := reflect.New(f.Target.Type()).Elem()
				if err := f.Parse(kong.ScanFromTokens(kong.Token{Type: kong.FlagValueToken, Value: value}), target); err != nil {
					errs = append(errs, fmt.Errorf("environment variable %s: not a valid %s", env, f.Target.Type()))
					continue
				}
				if f.Enum != "" && !contains(f.EnumSlice(), value) {
					errs = append(errs, fmt.Errorf("environment variable %s: must be one of %s", env, f.Enum))
				}
			}
		}
		for _, child := range n.Children {
			walk(child)
		}
	}
	walk(node)
	return errs
}

func contains(list []string, s string) bool {
	for _, v := range list {
		if strings.TrimSpace(v) == s {
			return true
		}
	}
	return false
}
