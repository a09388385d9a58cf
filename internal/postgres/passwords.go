package postgres

import (
	"errors"
	"net/url"
	"slices"

	"melmastoon.ghasi.io/bff/migrations"
)

// Passwords collects, from the URLs that a service will connect with, the
// passwords of the set's login roles, so that one setting serves both the
// migration that creates a role and the process that logs in as it.
func Passwords(set migrations.Set, urls ...string) (map[string]string, error) {
	out := map[string]string{}
	for _, raw := range urls {
		if raw == "" {
			continue
		}
		u, err := url.Parse(raw)
		if err != nil {
			return nil, errors.New("postgres: the URL cannot be read") // it may hold a password
		}
		if pw, ok := u.User.Password(); ok && slices.Contains(set.Logins, u.User.Username()) {
			out[u.User.Username()] = pw
		}
	}
	return out, nil
}
