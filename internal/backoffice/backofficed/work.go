package backofficed

import (
	"context"
	"errors"
	"time"

	"melmastoon.ghasi.io/bff/internal/backoffice"
	"melmastoon.ghasi.io/bff/internal/backoffice/backofficecache"
	"melmastoon.ghasi.io/bff/internal/backoffice/backofficestore"
	"melmastoon.ghasi.io/bff/internal/backoffice/backofficeupstream"
	"melmastoon.ghasi.io/bff/internal/backoffice/stream"
	"melmastoon.ghasi.io/bff/internal/daemon"
	"melmastoon.ghasi.io/bff/internal/redis"
	"melmastoon.ghasi.io/bff/internal/service"
)

// work is the command that publishes events and runs the jobs, and serves nothing. It has the role of jobs, the keys that sign the audit
// and the lake's account. Processes that serve requests then need none of them: what breaks into one of those can not sign a changed audit.
type work struct {
	service.WorkSettings
	LakeSettings

	RedisSessionURL daemon.Secret `name:"redis-session-url" env:"BFF_BACKOFFICE_REDIS_SESSION_URL" help:"Redis of sessions and limits (noeviction)."`
	TenantURL       string        `name:"tenant-url" env:"BFF_BACKOFFICE_TENANT_URL" help:"tenant-service."`
	LockURL         string        `name:"lock-url" env:"BFF_BACKOFFICE_LOCK_URL" help:"lock-integration-service."`
}

func (w *work) urls() map[backoffice.Upstream]string {
	return map[backoffice.Upstream]string{backoffice.UpstreamTenant: w.TenantURL, backoffice.UpstreamLock: w.LockURL}
}

// Validate reports everything that is missing or wrong, and shows no values.
func (w *work) Validate() error {
	errs := []error{w.WorkSettings.Validate()}
	if !redis.ValidURL(w.RedisSessionURL.Reveal()) {
		errs = append(errs, errors.New("redis-session-url: must be a URL such as redis://host:6379 or rediss://user:password@host:6379"))
	}
	for name, v := range w.urls() {
		errs = append(errs, service.HTTPURL(string(name)+"-url", v))
		if !w.Development() {
			errs = append(errs, w.PlainURL(service.PlainUpstreams, string(name)+"-url", v)...)
		}
	}
	if _, err := w.warehouse(); err != nil {
		errs = append(errs, err)
	}
	if !w.Development() {
		errs = append(errs, w.PlainTier("redis-session-url", w.RedisSessionURL)...)
		errs = append(errs, w.LakeSettings.validate()...)
	}
	return errors.Join(errs...)
}

// Run works until the process is told to stop.
func (w *work) Run(ctx context.Context, id service.Identity) error {
	p := service.NewProcess(id, w.Settings, w.AdminSettings)
	if err := w.assemble(ctx, p); err != nil {
		return err
	}
	return p.Run(ctx)
}

func (w *work) assemble(ctx context.Context, p *service.Process) error {
	db, err := p.Worker(ctx, &w.WorkSettings)
	if err != nil {
		return err
	}
	client, err := p.Redis("session", w.RedisSessionURL)
	if err != nil {
		return err
	}
	p.AddCheck("redis session", redis.Ping(client)) // without it open streams are not told
	urls := w.urls()
	upstreams, err := backofficeupstream.New(backofficeupstream.Config{
		URLs: urls, Only: []backoffice.Upstream{backoffice.UpstreamTenant, backoffice.UpstreamLock},
		Metrics: p.Metrics, Namespace: p.Namespace, Log: p.Log, Header: service.Propagate,
	})
	if err != nil {
		return err
	}
	sessions := backofficestore.NewSessions(backofficestore.SessionsConfig{Client: client, Keys: backofficestore.NewKeys(p.Keys())})
	notices := stream.NewNotifier(sessions, backofficecache.NewMembers(upstreams.Tenant, time.Now), backofficestore.NewStreamLog(sessions))
	own, err := addJobs(p, &w.LakeSettings, notices, upstreams.Lock)
	if err != nil {
		return err
	}
	p.Metrics.MustRegister(newDeviceCount(db, p.Namespace))
	p.ScheduleAll(db, own)
	return nil
}
