package doctor

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"io"
	"maps"
	"net/http"
	"strings"
	"time"

	"github.com/lestrrat-go/jwx/v3/jwk"

	"melmastoon.ghasi.io/bff/internal/service"
	"melmastoon.ghasi.io/bff/internal/upstream"
)

// answerLimit bounds what is read of an answer.
const answerLimit = 256 << 10

// fetched is an answer, read.
type fetched struct {
	status int
	body   []byte
	took   time.Duration
	clock  Finding // on its time; zero if it has none
}

// fetch asks a server. Redirects are not followed: a base URL should not redirect.
func (x *Examination) fetch(ctx context.Context, base string, p upstream.Probe) (f fetched, err error) {
	if service.HTTPURL("", base) != nil {
		return f, ErrUnset
	}
	req, err := http.NewRequestWithContext(ctx, p.Method(), strings.TrimSuffix(base, "/")+p.Path, strings.NewReader(p.Body))
	if err != nil {
		return f, err
	}
	maps.Copy(req.Header, p.Header)
	if p.Body != "" {
		req.Header.Set("Content-Type", "application/json")
	}
	client := &http.Client{
		Transport:     &http.Transport{DisableKeepAlives: true, TLSClientConfig: &tls.Config{MinVersion: tls.VersionTLS12}, Proxy: http.ProxyFromEnvironment},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	sent := x.Now()
	res, err := client.Do(req)
	if err != nil {
		return f, err
	}
	defer func() { _ = res.Body.Close() }()
	got := x.Now()
	f.status, f.took = res.StatusCode, got.Sub(sent)
	f.body, err = io.ReadAll(io.LimitReader(res.Body, answerLimit))
	if at, dateErr := http.ParseTime(res.Header.Get("Date")); dateErr == nil {
		f.clock = x.clock(at.Add(time.Second/2), sent, got, time.Second/2) // it has whole seconds
	}
	return f, err
}

// platformError is the form of errors that all services of the platform have.
type platformError struct {
	Error struct{ Code, Message string }
}

func (f fetched) platformError() (e platformError) {
	if json.Unmarshal(f.body, &e) != nil {
		return platformError{}
	}
	return e
}

// nowhere is a path that no service has.
const nowhere = "/no-such-path-of-any-service"

// Upstream examines whether a service that this one calls can be reached, and is that
// service: a path too much or too little, or the address of another, is the commonest
// mistake of an installation, and answers, too.
func (x *Examination) Upstream(name, url string, p upstream.Probe) {
	x.Add(Check{Area: "upstreams", Name: name, Run: func(ctx context.Context) ([]Finding, error) {
		got, err := x.fetch(ctx, url, p)
		if err != nil {
			return nil, err
		}
		found := Good("answers %s in %s", p.Route, took(got.took))
		refusal := got.platformError()
		known := refusal.Error.Code != "" || got.status < http.StatusMultipleChoices && json.Valid(got.body)
		if got.status == http.StatusNotFound && known { // what is not there, or the path?
			other, err := x.fetch(ctx, url, upstream.Probe{Path: nowhere, Header: p.Header})
			if err != nil {
				return nil, err
			}
			known = other.status != http.StatusNotFound || other.platformError() != refusal
		}
		switch {
		case got.status >= http.StatusInternalServerError && got.status != http.StatusNotImplemented:
			found = Doubtful("see whether it is up", "answers with status %d", got.status)
		case !known:
			found = Bad("see whether its URL has the right path, and is not that of another service",
				"answers, but not as %s: %s %s gets status %d", name, p.Method(), p.Route, got.status)
		}
		if got.clock.Verdict == Warning || got.clock.Verdict == Wrong {
			got.clock.Check = name + " clock"
			found = append(found, got.clock)
		}
		return found, nil
	}})
}

// Issuer examines whether an issuer's keys can be had and used.
func (x *Examination) Issuer(area, name, url string) {
	x.Add(Check{Area: area, Name: name, Run: func(ctx context.Context) ([]Finding, error) {
		got, err := x.fetch(ctx, url, upstream.Probe{})
		if err != nil {
			return nil, err
		}
		set, err := jwk.Parse(got.body)
		if err != nil || got.status != http.StatusOK {
			return Bad( //nolint:nilerr // that is the finding
				"see whether the issuer is up and publishes a key set (RFC 7517) there", "answers with status %d and no keys that can be read", got.status,
			), nil
		}
		named := 0
		for i := range set.Len() {
			if key, ok := set.Key(i); ok {
				if id, ok := key.KeyID(); ok && id != "" {
					named++
				}
			}
		}
		switch {
		case set.Len() == 0:
			return Bad("the issuer must publish the keys that it signs with", "publishes no keys: every token is refused"), nil
		case named < set.Len():
			return Doubtful("the issuer must give each key a kid", "%d of %d keys have no id and verify nothing", set.Len()-named, set.Len()), nil
		}
		return Good("publishes %d keys", set.Len()), nil
	}})
}
