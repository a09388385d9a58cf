package stack

import (
	"context"
	"log/slog"
)

var promtool = program{
	names: []string{"promtool"}, pkg: "prometheus",
	help: `no promtool was found, with which the alert rules are tested. Install it with
  Debian, Ubuntu:  sudo apt-get install -y --no-install-recommends prometheus
  Fedora:          sudo dnf install -y golang-github-prometheus
  macOS:           brew install prometheus`,
}

// Promtool returns the path of Prometheus's tool that checks and tests alert
// rules. It is installed where it is missing, unless noInstall forbids that; no
// Prometheus is started.
func Promtool(ctx context.Context, noInstall bool, log *slog.Logger) (string, error) {
	return promtool.find(ctx, noInstall, orSilent(log))
}
