// Package service is what every service of the house opens and runs around its
// own domain: Postgres, Redis, Pub/Sub, the outbox, subscriptions, and the
// commands migrate, relay, dlq, events and jobs. A service says who it is with
// an Identity; this package knows none of them.
package service

import (
	"fmt"
	"os"
	"strings"

	"github.com/alecthomas/kong"

	"melmastoon.ghasi.io/bff/internal/daemon"
	"melmastoon.ghasi.io/bff/internal/outbox"
	"melmastoon.ghasi.io/bff/internal/pubsub"
	"melmastoon.ghasi.io/bff/internal/web"
	"melmastoon.ghasi.io/bff/internal/world"
	"melmastoon.ghasi.io/bff/migrations"
)

// Identity is everything that tells one service from another to the commands and
// servers that they share.
type Identity struct {
	Name        string // in logs, traces, Redis keys and the names of connections
	Description string // one line for the help text
	Namespace   string // first part of the metrics' names
	Prefix      string // first part of the names of its settings in the environment

	// Default addresses: public API, calls of other services, health and metrics.
	Listen, InternalListen, AdminListen string

	Codes   web.Codes   // its own codes of failures that any route can meet
	Headers web.Headers // its own headers, for pages of other origins

	Schema migrations.Set
	// Isolated says that requests run under row level security: the role of
	// requests must be bound by it, and relay and jobs need a role of their own.
	Isolated bool

	Outbox    *outbox.Table
	Publishes []string              // subjects; each topic is named by its subject
	Receives  []pubsub.Subscription // of other producers' topics
	// Checked wraps the publisher on an emulator, so that a developer sees at once
	// what subscribers could not read; nil = nothing is checked.
	Checked func(outbox.Publisher) (outbox.Publisher, error)

	Jobs []Job // in the order in which "all" runs them
}

// Main runs a service's command line and returns its exit status. cli is a
// struct with kong tags; settings of this package take the service's prefix and
// its default addresses.
func Main(id Identity, cli any, args []string) int {
	args, err := world.FromArgs(args)
	if err != nil {
		fmt.Fprintf(os.Stderr, "%s: %s\n", id.Name, err)
		return 1
	}
	return daemon.Main(cli, id.Name, id.Description, args, append(id.placed().options(), kong.Embed(new(worldFlag)))...)
}

// worldFlag is in the help text. It is taken out of the command line before that is
// read, because what it brings has to be in the environment by then.
type worldFlag struct {
	World string `placeholder:"DIR" help:"Take what is not set from the platform that 'make run' or 'melmastoon up' runs on this machine: --world, or --world=DIR for the one with its data in DIR."`
}

// Parse reads a service's command line without running it.
func Parse(id Identity, cli any, args []string) (*daemon.Command, error) {
	return daemon.Parse(cli, id.Name, id.Description, args, id.placed().options()...)
}

// portVariable is where Cloud Run and its like say on which port they send requests.
const portVariable = "PORT"

// placed returns the identity with the public address that the platform wants, if it
// wants one. Settings of the service's own go before it.
func (id Identity) placed() Identity {
	if port := os.Getenv(portVariable); port != "" {
		id.Listen = ":" + port
	}
	return id
}

// Describe lists the settings of a service's commands.
func (id Identity) Describe(cli any) ([]*daemon.Setting, error) {
	return daemon.Describe(cli, id.Name, id.options()...)
}

func (id Identity) options() []kong.Option {
	names := make([]string, len(id.Jobs))
	for i, j := range id.Jobs {
		names[i] = j.Name
	}
	own := strings.NewReplacer("${prefix}", id.Prefix, "${listen}", id.Listen, "${internal_listen}", id.InternalListen,
		"${admin_listen}", id.AdminListen, "${jobs}", strings.Join(names, ", "))
	return []kong.Option{kong.Bind(id), kong.PostBuild(func(k *kong.Kong) error { return fill(k, own) })}
}

// fill puts a service's own words into the settings that all services have. Kong's
// variables do the same, but for each setting of each command it looks for further
// variables in all of them, with a slow regular expression.
func fill(k *kong.Kong, own *strings.Replacer) error {
	return kong.Visit(k.Model, func(node kong.Visitable, next kong.Next) error {
		if v, ok := node.(*kong.Value); ok {
			v.Default, v.Help = own.Replace(v.Default), own.Replace(v.Help)
			for i, env := range v.Tag.Envs {
				v.Tag.Envs[i] = own.Replace(env)
			}
		}
		return next(nil)
	})
}
