package backofficehttp

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"net/http"
	"strconv"
	"strings"

	"melmastoon.ghasi.io/bff"
	"melmastoon.ghasi.io/bff/internal/backoffice"
	"melmastoon.ghasi.io/bff/internal/backoffice/device"
	"melmastoon.ghasi.io/bff/internal/idempotency"
	"melmastoon.ghasi.io/bff/internal/web"
)

// preferences shows how the operator has set up the app.
func (a *API) preferences(w http.ResponseWriter, r *http.Request) error {
	owner := preferencesOwner(visitOf(r))
	found, err := a.cfg.Settings.FindPreferences(r.Context(), owner)
	if err != nil {
		return err
	}
	return answerPreferences(w, r, owner, found)
}

// putPreferences replaces them, if the operator has seen the newest version.
func (a *API) putPreferences(w http.ResponseWriter, r *http.Request) error {
	owner := preferencesOwner(visitOf(r))
	once, err := readOnce(r)
	if err != nil {
		return err
	}
	change := device.PreferencesChange{Owner: owner}
	if change.Seen, err = readVersion(r, owner); err != nil {
		return err
	}
	if change.Payload, err = readPayload(w, r); err != nil {
		return err
	}
	once.Digest, err = idempotency.Digest(change.Payload, "PUT /preferences", owner.Operator, owner.Property.String(), strconv.Itoa(change.Seen))
	if err != nil {
		return err
	}
	kept, err := a.cfg.Settings.ReplacePreferences(r.Context(), visitOf(r), change, once, now(r))
	if err != nil {
		return err
	}
	return answerPreferences(w, r, owner, kept)
}

// preferencesOwner is the operator, at the property that the query names.
func preferencesOwner(v *backoffice.Visit) device.PreferencesOwner {
	return device.PreferencesOwner{Tenant: v.Session.Tenant, Operator: v.Session.Operator, Property: v.Property}
}

// readPayload reads the new preferences, which are an object of the app's own.
func readPayload(w http.ResponseWriter, r *http.Request) (json.RawMessage, error) {
	in, err := web.ReadBody(w, r)
	if err != nil {
		return nil, err
	}
	in.Require("payload")
	in.Only("payload")
	members := in.Free("payload", web.Free{Depth: device.MaxPreferencesDepth, Values: device.MaxPreferencesValues})
	in.RefuseAll(device.CheckPreferences(members))
	if err := in.Err(); err != nil {
		return nil, err
	}
	return json.Marshal(members)
}

// A tag of preferences is "version-owner": the version is all that a change has to
// name, and the owner keeps one operator's tag from meaning another's preferences.

func preferencesTag(o device.PreferencesOwner, p device.Preferences) string {
	tag := strconv.Itoa(p.Version) + "-" + ownerMark(o)
	if p.Stale {
		tag += "-stale" // the body says so as well, and is another one thereby
	}
	return `"` + tag + `"`
}

func ownerMark(o device.PreferencesOwner) string {
	sum := sha256.Sum256([]byte(o.Tenant.String() + " " + o.Property.String() + " " + o.Operator))
	return hex.EncodeToString(sum[:8])
}

// readVersion reads the version that the operator has seen, of If-Match: a tag of ours
// or a bare version in quotes.
func readVersion(r *http.Request, o device.PreferencesOwner) (int, error) {
	values := r.Header["If-Match"]
	if len(values) == 0 {
		return 0, bff.Errorf(bff.CodePreferencesVersionRequired, "send If-Match with the ETag of the version you edited")
	}
	malformed := bff.FieldErrors{{Field: "If-Match", Code: bff.FieldFormat}}.Err()
	tag, opened := strings.CutPrefix(strings.TrimSpace(values[0]), `"`)
	tag, closed := strings.CutSuffix(tag, `"`)
	if !opened || !closed || len(values) > 1 {
		return 0, malformed
	}
	number, mark, ours := strings.Cut(tag, "-")
	version, err := strconv.ParseInt(number, 10, 32)
	if err != nil || version < 1 {
		return 0, malformed
	}
	if ours && strings.TrimSuffix(mark, "-stale") != ownerMark(o) {
		return 0, bff.Errorf(bff.CodePreferencesVersionConflict, "If-Match is the ETag of other preferences: read these first")
	}
	return int(version), nil
}

func answerPreferences(w http.ResponseWriter, r *http.Request, o device.PreferencesOwner, p device.Preferences) error {
	body, err := json.Marshal(p)
	if err != nil {
		return err
	}
	return answerTagged(w, r, preferencesTag(o, p), body)
}
