package daemon

import (
	"cmp"
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
	LogSettings

	DrainDelay  time.Duration `name:"drain-delay" env:"MELMASTOON_DRAIN_DELAY" default:"5s" help:"How long to answer 'not ready' and close each connection after its answer before the listeners close, so that load balancers notice."`
	DrainBudget time.Duration `name:"drain-budget" env:"MELMASTOON_DRAIN_BUDGET" default:"20s" help:"How long a stop may take in all."`

	NoFastPath     bool `name:"no-fast-path" env:"MELMASTOON_NO_FAST_PATH" help:"Serve every request with net/http alone: slower, for fault-finding."`
	MaxConnections int  `name:"max-connections" env:"MELMASTOON_MAX_CONNECTIONS" default:"10000" help:"Open connections per listener; further ones are closed at once."`

	MaxConnectionsPerAddress int `name:"max-connections-per-address" env:"MELMASTOON_MAX_CONNECTIONS_PER_ADDRESS" default:"0" help:"Open connections per listener of one address (of one /64 with IPv6) that is no trusted proxy; 0 = a tenth of max-connections."`

	Profiles bool `name:"profiles" env:"MELMASTOON_PROFILES" help:"Show profiles on the admin listener, to callers on the machine. Behind a mesh's sidecar every caller is one. Development always does."`

	TraceSampling float64 `name:"trace-sampling" env:"MELMASTOON_TRACE_SAMPLING" default:"0.01" help:"Share of requests and deliveries that are recorded as traces when OTEL_EXPORTER_OTLP_ENDPOINT is set, whatever a caller's traceparent says; 0 = none."`
	TraceDetail   bool    `name:"trace-detail" env:"MELMASTOON_TRACE_DETAIL" help:"Spans hold ids of requests and callers, targets, short bodies and cache keys, for melmastoon why; in development alone."`
}

// LogSettings are all that a command needs which only logs and ends.
type LogSettings struct {
	Instance  string     `name:"instance" env:"MELMASTOON_INSTANCE" help:"Name of this process in events and logs (default: host name and pid)."`
	LogLevel  slog.Level `name:"log-level" env:"MELMASTOON_LOG_LEVEL" default:"info" help:"debug, info, warn or error."`
	LogFormat string     `name:"log-format" env:"MELMASTOON_LOG_FORMAT" default:"json" enum:"json,text" help:"json or text."`
}

// Validate reports every bad setting.
func (s Settings) Validate() error {
	var errs []error
	if s.Environment == "" {
		errs = append(errs, errors.New("environment: is required"))
	} else if strings.ContainsAny(s.Environment, ":{} ") {
		errs = append(errs, errors.New("environment: must be a word without colons, braces or spaces"))
	}
	if s.DrainBudget <= 0 || s.DrainDelay < 0 || s.DrainDelay >= s.DrainBudget {
		errs = append(errs, errors.New("drain-budget: must be positive and longer than drain-delay"))
	}
	if s.MaxConnections < 0 {
		errs = append(errs, errors.New("max-connections: must be positive, or 0 for the default"))
	}
	if s.MaxConnectionsPerAddress < 0 {
		errs = append(errs, errors.New("max-connections-per-address: must be positive, or 0 for a tenth of max-connections"))
	}
	if s.TraceSampling < 0 || s.TraceSampling > 1 {
		errs = append(errs, errors.New("trace-sampling: must lie between 0 and 1"))
	}
	if s.TraceDetail && !s.Development() {
		errs = append(errs, errors.New("trace-detail: spans would hold ids and what guests type"))
	}
	if _, err := spanProtocol(); err != nil {
		errs = append(errs, err)
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
func (s LogSettings) InstanceName(service string) string {
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
// commands have Run methods. Everything that is wrong with the settings of the
// chosen command is reported at once, by variable; values are never part of the
// message, because some of them are secrets. A command that is an [Examiner] is
// returned in spite of it.
func Parse(cli any, name, description string, args []string, options ...kong.Option) (*Command, error) {
	env, help := new(Environment), plainHelp{}
	parser, err := kong.New(cli, append(options, kong.Name(name), kong.Description(description), kong.UsageOnError(),
		kong.ConfigureHelp(kong.HelpOptions{Compact: true}), kong.Bind(env), kong.Embed(new(asked)), kong.PostBuild(help.take))...)
	if err != nil {
		return nil, fmt.Errorf("configuration of %s: %w", name, err)
	}
	help.putBack()
	if traced, err := kong.Trace(parser, args); err == nil && traced.Error == nil {
		*env = *newEnvironment(parser.Model, cmp.Or(traced.Selected(), parser.Model.Node))
	}
	kctx, err := parser.Parse(args)
	failed, refused := errors.AsType[*kong.ParseError](err)
	switch {
	case err == nil && len(env.bad) == 0:
		return &Command{kctx}, nil
	case err == nil: // the rest is right
		err = joined(env.bad)
	case !refused || failed.Context == nil || failed.Context.Error != nil || len(env.names) == 0:
		return nil, fmt.Errorf("command line: %w", err)
	default:
		kctx, err = failed.Context, joined(env.Problems(settingsError(failed)))
	}
	if _, ok := examiner(kctx.Selected()); ok {
		return &Command{kctx}, nil
	}
	return nil, err
}

// plainHelp holds the help texts without variables while the parser is made: kong looks
// for variables in each text of each command with a slow regular expression, which took
// most of the time of reading the settings.
type plainHelp map[*kong.Value]string

func (h plainHelp) take(k *kong.Kong) error {
	return kong.Visit(k.Model, func(node kong.Visitable, next kong.Next) error {
		if v, ok := node.(*kong.Value); ok && v.Help != "" && !strings.Contains(v.Help, "$") {
			h[v], v.Help = v.Help, ""
		}
		return next(nil)
	})
}

func (h plainHelp) putBack() {
	for v, text := range h {
		v.Help = text
	}
}

// settingsError is what a command's Validate has returned, without the command's
// name before it.
func settingsError(failed *kong.ParseError) error {
	err := failed.Unwrap()
	if inner := errors.Unwrap(err); inner != nil && failed.Context.Selected() != nil && strings.HasPrefix(err.Error(), failed.Context.Selected().Path()+": ") {
		return inner
	}
	return err
}

func examiner(node *kong.Node) (Examiner, bool) {
	if node == nil || !node.Target.CanAddr() {
		return nil, false
	}
	return reflect.TypeAssert[Examiner](node.Target.Addr())
}

// Run executes the chosen command. Its Run method may take a context.Context.
func (c *Command) Run(ctx context.Context) error {
	c.BindTo(ctx, (*context.Context)(nil))
	return c.Context.Run()
}
