// Package stack gives a process real servers on one machine: Postgres,
// Redis and Pub/Sub. A server that the caller names is used as it is;
// otherwise the programs are found, or installed where that needs no
// password, and run privately: on free loopback ports, behind random
// passwords, and no longer than the process that asked for them.
//
// It knows nothing of schemas, keys or topics, and prints nothing. It runs on
// Linux and macOS.
package stack

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"sync"
	"time"
)

const (
	// startTimeout bounds one server's start, installation not counted.
	startTimeout = 3 * time.Minute
	// stopTimeout bounds a stop that the caller gave no deadline.
	stopTimeout = 20 * time.Second
	// pollEvery is how often a condition outside this process is looked at.
	pollEvery = 10 * time.Millisecond
)

// Config describes a whole stack. The zero value is a throw-away stack.
type Config struct {
	// DataDir keeps the data of Postgres between starts, see
	// [PostgresConfig.DataDir]. Redis and Pub/Sub never outlive the stack.
	DataDir string
	// NoInstall forbids installing missing programs.
	NoInstall bool
	// Logger hears about progress; nil is silence.
	Logger *slog.Logger

	Postgres PostgresConfig
	Redis    RedisConfig
	PubSub   PubSubConfig
}

// Stack is a running Postgres, Redis and Pub/Sub.
type Stack struct {
	Postgres *Postgres
	Redis    *Redis
	PubSub   *PubSub
}

// Start brings up the three servers side by side. The context bounds the
// start alone: the servers run until [Stack.Stop], or until this process ends.
func Start(ctx context.Context, cfg Config) (*Stack, error) {
	logger := orSilent(cfg.Logger)
	postgres, redis, pubsub := cfg.Postgres, cfg.Redis, cfg.PubSub
	if cfg.DataDir != "" && postgres.DataDir == "" {
		postgres.DataDir = filepath.Join(cfg.DataDir, "postgres")
	}
	postgres.NoInstall = postgres.NoInstall || cfg.NoInstall
	redis.NoInstall = redis.NoInstall || cfg.NoInstall
	if postgres.Logger == nil {
		postgres.Logger = logger
	}
	if redis.Logger == nil {
		redis.Logger = logger
	}
	if pubsub.Logger == nil {
		pubsub.Logger = logger
	}

	s := &Stack{}
	begin := time.Now()
	var errs [3]error // every server's: two missing programs are one trip to the package manager
	var wg sync.WaitGroup
	wg.Go(func() { s.Postgres, errs[0] = StartPostgres(ctx, postgres) })
	wg.Go(func() { s.Redis, errs[1] = StartRedis(ctx, redis) })
	wg.Go(func() { s.PubSub, errs[2] = StartPubSub(ctx, pubsub) })
	wg.Wait()
	if err := errors.Join(errs[:]...); err != nil {
		return nil, errors.Join(err, s.Stop())
	}
	logger.InfoContext(ctx, "local servers ready", "took", time.Since(begin))
	return s, nil
}

// Stop ends every server that this stack started and removes what was
// throw-away. Servers that the caller named are left alone.
func (s *Stack) Stop() error {
	var errs []error
	if s.PubSub != nil {
		errs = append(errs, s.PubSub.Close())
	}
	if s.Redis != nil {
		errs = append(errs, s.Redis.Close())
	}
	if s.Postgres != nil {
		errs = append(errs, s.Postgres.Close())
	}
	return errors.Join(errs...)
}

func orSilent(l *slog.Logger) *slog.Logger {
	if l == nil {
		return slog.New(slog.DiscardHandler)
	}
	return l
}

// until polls ready until it says yes or fails, or the context ends.
func until(ctx context.Context, ready func() (bool, error)) error {
	tick := time.NewTicker(pollEvery)
	defer tick.Stop()
	for {
		if ok, err := ready(); ok || err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-tick.C:
		}
	}
}

// newPassword has 128 random bits and no character that a URL, a SQL literal
// or a configuration file would have to quote.
func newPassword() string { return rand.Text() }

func startContext(ctx context.Context, what string) (context.Context, context.CancelFunc) {
	return context.WithTimeoutCause(ctx, startTimeout, fmt.Errorf("%s did not start within %v", what, startTimeout))
}
