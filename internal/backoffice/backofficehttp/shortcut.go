package backofficehttp

import (
	"encoding/json"
	"net/http"

	"melmastoon.ghasi.io/bff/internal/backoffice/device"
)

// shortcuts lists what keys do, with the operator's own choices.
func (a *API) shortcuts(w http.ResponseWriter, r *http.Request) error {
	v := visitOf(r)
	m, err := a.cfg.Shortcuts.FindShortcuts(r.Context(), v.Session.Tenant)
	if err != nil {
		return err
	}
	out := struct {
		device.ShortcutMap

		Degraded []Missing `json:"degraded"`
	}{m, []Missing{}}
	own, err := a.cfg.Settings.FindPreferences(r.Context(), device.PreferencesOwner{Tenant: v.Session.Tenant, Operator: v.Session.Operator})
	if err == nil {
		out.Shortcuts = device.Customise(m.Shortcuts, own.Payload)
	}
	switch {
	case r.Context().Err() != nil:
		return err
	case err != nil: // the app is usable with the keys that it came with
		out.Degraded = append(out.Degraded, Missing{Part: MissingPreferences, Reason: UpstreamAway})
	case own.Stale:
		out.Degraded = append(out.Degraded, Missing{Part: MissingPreferences, Reason: ShownStale})
	}
	body, err := json.Marshal(out)
	if err != nil {
		return err
	}
	return answerTagged(w, r, tagOf(v, body), body)
}
