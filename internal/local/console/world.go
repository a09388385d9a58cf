package console

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/url"
	"time"

	"melmastoon.ghasi.io/bff/internal/local/sim"
)

// shownTenants bounds a look, beside those that are suspended.
const shownTenants = 50

// control makes a button whose body is encoded.
func control(name, command, method, path string, body any) Control {
	c := Control{Name: name, Command: command, Method: method, Path: path}
	if body != nil {
		c.Body, _ = json.Marshal(body) // our own types encode
	}
	return c
}

// faultControls are what an upstream can be told to do.
func faultControls(upstream string) []Control {
	fifth := 0.2
	set := func(name, flags string, f sim.Fault) Control {
		f.Upstream = upstream
		return control(name, "melmastoon fault set "+upstream+" "+flags, http.MethodPost, "/_sim/faults", f)
	}
	return []Control{
		set("slow", "--latency 300ms", sim.Fault{LatencyMs: 300}),
		set("fail 20 %", "--rate 0.2", sim.Fault{ErrorRate: &fifth}),
		set("down", "--status 503", sim.Fault{Status: http.StatusServiceUnavailable}),
		set("hang", "--hang", sim.Fault{Hang: true}),
		set("garbage", "--garbage", sim.Fault{Garbage: true}),
		set("act, then fail", "--done --status 503", sim.Fault{Done: true, Status: http.StatusServiceUnavailable}),
	}
}

// breakers are the states of a circuit breaker, as its metric numbers them.
var breakers = []string{"closed", "half-open", "open"}

// world looks at everything that can be changed.
func (c *Console) world(ctx context.Context) (World, error) {
	c.collect()
	w := World{
		At: time.Now().UTC(), Upstreams: c.upstreams(), Events: c.cfg.Events, Tenants: []Tenant{},
		Heal: control("heal all", "melmastoon fault clear", http.MethodDelete, "/_sim/faults", nil),
	}
	for i, t := range c.cfg.Sim.Catalog().Tenants {
		one := Tenant{TenantID: t.TenantID, Slug: t.Slug, Name: t.Name, Suspended: t.Status == "suspended"}
		if i >= shownTenants && !one.Suspended {
			continue
		}
		event, name := "tenant.suspended", "suspend"
		if one.Suspended {
			event, name = "tenant.reinstated", "reinstate"
		}
		one.Control = control(name, "melmastoon trigger "+event+" --tenant "+t.Slug, http.MethodPost, "/_up/trigger", Trigger{Event: event, Tenant: t.Slug})
		w.Tenants = append(w.Tenants, one)
	}
	var errs [3]error
	w.Limits, errs[0] = c.limits(w.At)
	w.Rung, w.Campaign, errs[1] = c.switches(ctx)
	w.Devices, errs[2] = c.devices(ctx)
	return w, errors.Join(errs[:]...)
}

func (c *Console) upstreams() []Upstream {
	rates, p99, open := map[string]float64{}, map[string]float64{}, map[string]map[string]string{}
	for _, svc := range c.cfg.Services {
		for name, v := range c.now("sum by (upstream) (rate(" + svc.Namespace + "_upstream_calls_total[1m]))") {
			rates[name] += v
		}
		for name, v := range c.now("histogram_quantile(0.99, sum by (le, upstream) (rate(" + svc.Namespace + "_upstream_call_duration_seconds_bucket[1m])))") {
			p99[name] = max(p99[name], 1000*v)
		}
		for name, v := range c.now("max by (upstream) (" + svc.Namespace + "_circuit_breaker_state)") {
			if open[name] == nil {
				open[name] = map[string]string{}
			}
			open[name][svc.Name] = breakers[min(max(int(v), 0), len(breakers)-1)]
		}
	}
	calls, out := c.cfg.Sim.Calls(), []Upstream{}
	for _, name := range sim.Upstreams() {
		u := Upstream{Name: name, Rate: rates[name], P99Ms: p99[name], Breakers: open[name], Faults: []Fault{}, Controls: faultControls(name)}
		for _, n := range calls[name] {
			u.Calls += n
		}
		for _, f := range c.cfg.Sim.Faults() {
			if f.Upstream == name || f.Upstream == "*" {
				u.Faults = append(u.Faults, Fault{f, control(
					"clear", "melmastoon fault clear '"+f.Upstream+"'", http.MethodDelete, "/_sim/faults?upstream="+url.QueryEscape(f.Upstream), nil,
				)})
			}
		}
		out = append(out, u)
	}
	return out
}

// switches are the brownout ladder and campaign mode.
func (c *Console) switches(ctx context.Context) (Rung, []Control, error) {
	set, err := c.redis.Do(ctx, c.redis.B().Hgetall().Key(c.flagsOf(c.cfg.RungFlag.Service)).Build()).AsStrMap()
	if err != nil {
		return Rung{}, nil, err
	}
	flag := func(name, value string, f Flag) Control {
		f.Value = value
		command := "melmastoon flag set " + f.Name + " " + value
		if value == "" {
			command = "melmastoon flag clear " + f.Name
		}
		b := control(name, command, http.MethodPost, "/_up/flags", f)
		b.On = set[f.Name] == value
		return b
	}
	campaign := []Control{flag("on", "true", c.cfg.CampaignFlag), flag("off", "", c.cfg.CampaignFlag)}
	r := Rung{Held: set[c.cfg.RungFlag.Name], Controls: []Control{flag("let go", "", c.cfg.RungFlag)}}
	for _, name := range c.cfg.Rungs {
		r.Controls = append(r.Controls, flag(name, name, c.cfg.RungFlag))
	}
	// What the ladder does by itself shows in answers alone.
	r.Now = r.Held
	for _, last := range c.requests.newest(1) {
		if r.Now == "" && time.Since(last.At) < time.Minute {
			r.Now = last.Shed
		}
	}
	if r.Now == "" {
		r.Now = c.cfg.Rungs[0]
		if campaign[0].On {
			r.Now = c.cfg.Rungs[1]
		}
	}
	return r, campaign, nil
}

func (c *Console) flagsOf(service string) string {
	for _, svc := range c.cfg.Services {
		if svc.Name == service {
			return svc.Flags
		}
	}
	return ""
}

// maxFlag bounds a flag's name and value.
const maxFlag = 256

// setFlag writes a flag where the service reads it, and says that it has changed.
func (c *Console) setFlag(w http.ResponseWriter, r *http.Request) {
	var f Flag
	if !read(w, r, &f) {
		return
	}
	key := c.flagsOf(f.Service)
	if key == "" || f.Name == "" || len(f.Name) > maxFlag || len(f.Value) > maxFlag {
		refuse(w, http.StatusBadRequest, "INVALID_ARGUMENT", "want a service (bff-consumer or bff-backoffice), a name and a value of at most 256 bytes")
		return
	}
	b := c.redis.B()
	change := b.Hset().Key(key).FieldValue().FieldValue(f.Name, f.Value).Build()
	if f.Value == "" {
		change = b.Hdel().Key(key).Field(f.Name).Build()
	}
	ctx, cancel := context.WithTimeout(r.Context(), askTimeout)
	defer cancel()
	for _, done := range c.redis.DoMulti(ctx, change, b.Publish().Channel(key).Message(f.Name).Build()) {
		if err := done.Error(); err != nil {
			refuse(w, http.StatusServiceUnavailable, "UNAVAILABLE", "Redis does not take it: "+err.Error())
			return
		}
	}
	answer(w, http.StatusOK, f)
}

// trigger has the platform report something.
func (c *Console) trigger(w http.ResponseWriter, r *http.Request) {
	var t Trigger
	if !read(w, r, &t) {
		return
	}
	ctx, cancel := context.WithTimeout(r.Context(), actTimeout)
	defer cancel()
	if err := c.cfg.Trigger(ctx, t); err != nil {
		refuse(w, http.StatusBadRequest, "INVALID_ARGUMENT", err.Error())
		return
	}
	answer(w, http.StatusOK, t)
}
