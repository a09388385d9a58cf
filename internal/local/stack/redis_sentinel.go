package stack

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"slices"
)

const (
	masterSet = "melmastoon"
	sentinels = 3
)

// RedisSentinels is a server with a replica, and sentinels that put the replica into its
// place when it is gone.
type RedisSentinels struct {
	Servers   []*Redis // the first begins as the master
	Sentinels []*Redis
}

// StartRedisSentinels starts them, and waits until each sentinel knows all others.
func StartRedisSentinels(ctx context.Context) (*RedisSentinels, error) {
	s := new(RedisSentinels)
	password := newPassword()
	add := func(to *[]*Redis, cfg RedisConfig) error {
		cfg.password = password
		r, err := StartRedis(ctx, cfg)
		if err == nil {
			*to = append(*to, r)
		}
		return err
	}
	err := add(&s.Servers, RedisConfig{})
	if err == nil {
		err = add(&s.Servers, RedisConfig{replicaOf: s.Servers[0]})
	}
	for range sentinels {
		if err == nil {
			err = add(&s.Sentinels, RedisConfig{sentinelOf: s.Servers[0]})
		}
	}
	if err == nil {
		err = s.acquainted(ctx)
	}
	if err != nil {
		return nil, fmt.Errorf("start redis sentinels: %w", errors.Join(err, s.Close()))
	}
	return s, nil
}

// acquainted waits until each sentinel knows the replica and the other sentinels:
// before, it takes part in no vote.
func (s *RedisSentinels) acquainted(ctx context.Context) error {
	ctx, cancel := startContext(ctx, "redis sentinels")
	defer cancel()
	for _, sentinel := range s.Sentinels {
		client, err := sentinel.single()
		if err != nil {
			return err
		}
		err = until(ctx, func() (bool, error) {
			known, err := client.Do(ctx, client.B().Arbitrary("SENTINEL", "MASTER", masterSet).Build()).AsStrMap()
			return known["num-slaves"] == "1" && known["num-other-sentinels"] == fmt.Sprint(sentinels-1), err
		})
		client.Close()
		if err != nil {
			return err
		}
	}
	return nil
}

// URL names the sentinels, who say which server is the master.
func (s *RedisSentinels) URL() string {
	q := url.Values{"master_set": {masterSet}}
	for _, sentinel := range s.Sentinels[1:] {
		q.Add("addr", sentinel.Addr())
	}
	return s.Sentinels[0].URL() + "?" + q.Encode()
}

// Close stops all of them and removes their directories.
func (s *RedisSentinels) Close() error {
	var errs []error
	for _, r := range slices.Concat(s.Sentinels, s.Servers) {
		errs = append(errs, r.Close())
	}
	return errors.Join(errs...)
}
