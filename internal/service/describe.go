package service

import (
	"fmt"
	"strings"

	"melmastoon.ghasi.io/bff/internal/daemon"
)

// DescribeSettings returns a service's settings as the tables of docs/settings.md:
// one per set of commands that read them.
func DescribeSettings(id Identity, cli any) (string, error) {
	all, err := daemon.Describe(cli, id.Name, id.options()...)
	if err != nil {
		return "", err
	}
	var groups []string
	rows := map[string][]*daemon.Setting{}
	for _, s := range all {
		commands := strings.Join(s.Commands, ", ")
		if rows[commands] == nil {
			groups = append(groups, commands)
		}
		rows[commands] = append(rows[commands], s)
	}
	var b strings.Builder
	fmt.Fprintf(&b, "## %s\n", id.Name)
	for _, commands := range groups {
		fmt.Fprintf(&b, "\n### %s\n\n| Variable | Flag | Default | Needed by | Meaning |\n|---|---|---|---|---|\n", commands)
		for _, s := range rows[commands] {
			fmt.Fprintf(&b, "| `%s` | `--%s` | %s | %s | %s |\n", strings.Join(s.Variables, "`, `"), s.Flag, shown(s.Default), needed(s), meaning(s))
		}
	}
	return b.String(), nil
}

func shown(value string) string {
	if value == "" {
		return ""
	}
	return "`" + value + "`"
}

func needed(s *daemon.Setting) string {
	if len(s.Needs) == len(s.Commands) && len(s.Commands) > 1 {
		return "all"
	}
	return strings.Join(s.Needs, ", ")
}

func meaning(s *daemon.Setting) string {
	help := strings.NewReplacer("|", "\\|", "\n", " ").Replace(s.Help)
	if s.Secret {
		help = "**Secret.** " + help
	}
	return help
}
