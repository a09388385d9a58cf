// Package deploy holds what a deployment is made of: manifests, dashboards, alert rules.
package deploy

import "embed"

// Files are the dashboards and the rules that they rest on, for programs that show them
// without Grafana.
//
//go:embed grafana/*.json alerts/*-slo.yaml
var Files embed.FS
