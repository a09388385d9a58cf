package main

import (
	"io"
	"net/url"
	"os"
	"text/template"
	"time"
)

var welcomeText = template.Must(template.New("welcome").Parse(`
Melmastoon is up ({{.Took}}). Look at {{.Env.MELMASTOON_PAGES_URL}}
The API: {{.Env.MELMASTOON_PAGES_URL}}/reference

  bff-consumer    {{.Env.MELMASTOON_CONSUMER_URL}}    admin {{.Env.MELMASTOON_CONSUMER_ADMIN_URL}}
  bff-backoffice  {{.Env.MELMASTOON_BACKOFFICE_URL}}    admin {{.Env.MELMASTOON_BACKOFFICE_ADMIN_URL}}
  upstreams       {{.Env.MELMASTOON_SIM_URL}}   simulated; hotels at /_sim/catalog
  hand-offs       {{.Env.MELMASTOON_PAGES_URL}}/booking/…   arrive at a booking page
  Postgres        {{.Postgres}}
  Redis           {{.Redis}}
  Pub/Sub         {{.Env.PUBSUB_EMULATOR_HOST}}
  logs            {{.Logs}}

{{if .Lan}}Phones on this network use {{.Env.MELMASTOON_CONSUMER_URL}}, over plain http. So can everything else on it: stop when you are done.

{{end}}Try:

  curl -s {{.Env.MELMASTOON_CONSUMER_URL}}/bff/consumer/v1/search -H 'Content-Type: application/json' -d '{"geo":{"mode":"city","city":"Kabul"},"dates":{"checkIn":"{{.CheckIn}}","checkOut":"{{.CheckOut}}"},"occupancy":{"adults":2,"children":0,"rooms":1}}'
  curl -si {{.Env.MELMASTOON_CONSUMER_URL}}/bff/consumer/v1/session
  curl -s {{.Env.MELMASTOON_CONSUMER_ADMIN_URL}}/metrics | grep bff_consumer_request_total

In a second terminal ({{.Self}} --help lists more):

  {{.Self}} status
  {{.Self}} desk get /session
  {{.Self}} tail
  {{.Self}} trigger tenant.suspended

Ctrl-C stops everything.
`))

// welcome tells a newcomer what runs where and what to try.
func welcome(out io.Writer, lan bool, env map[string]string, took time.Duration, logs string) error {
	host := func(key string) string {
		u, err := url.Parse(env[key])
		if err != nil {
			return ""
		}
		return u.Host // without the password
	}
	now := time.Now()
	return welcomeText.Execute(out, map[string]any{
		"Self": os.Args[0], "Env": env, "Lan": lan, "Took": took.Round(10 * time.Millisecond), "Logs": logs,
		"Postgres": host("MELMASTOON_POSTGRES_URL"), "Redis": host("MELMASTOON_REDIS_URL"),
		"CheckIn": now.AddDate(0, 0, 14).Format(time.DateOnly), "CheckOut": now.AddDate(0, 0, 17).Format(time.DateOnly),
	})
}
