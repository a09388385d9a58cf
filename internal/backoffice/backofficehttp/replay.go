package backofficehttp

import (
	"encoding/json"
	"net/http"
	"strings"

	"github.com/oklog/ulid/v2"

	"melmastoon.ghasi.io/bff"
	"melmastoon.ghasi.io/bff/internal/backoffice"
	"melmastoon.ghasi.io/bff/internal/backoffice/action"
	"melmastoon.ghasi.io/bff/internal/web"
)

const maxEntryPath = 128

// replay carries out what was taken down at a desk without a line, and answers with a line
// of each entry as it gets its verdict.
func (a *API) replay(w http.ResponseWriter, r *http.Request) error {
	v := visitOf(r)
	if err := ofDevice(r, v); err != nil {
		return err
	}
	if a.cfg.Flags.OffForAll(backoffice.FeatureBlackout) {
		return &bff.Error{Code: bff.CodeServiceUnavailable, Detail: "replays are switched off: nothing was done, keep what is unsent", RetryAfter: retryOff}
	}
	in, err := web.ReadBody(w, r)
	if err != nil {
		return err
	}
	in.Require("entries")
	in.Only("entries")
	var (
		entries []action.Entry
		keys    = map[string]bool{}
	)
	for _, e := range in.Objects("entries", action.MaxEntries) {
		entry, err := readEntry(r, e)
		if err != nil {
			return err
		}
		if entry.Key != "" && keys[entry.Key] {
			e.Refuse("key", bff.FieldConflict)
		}
		keys[entry.Key] = true
		entries = append(entries, entry)
	}
	if err := in.Err(); err != nil {
		return err
	}
	h := w.Header()
	h["Content-Type"] = []string{mediaLines}
	h["Cache-Control"] = []string{private}
	h["X-Content-Type-Options"] = []string{"nosniff"}
	w.WriteHeader(http.StatusOK)
	flush, names := http.NewResponseController(w).Flush, a.names(r)
	send := func(line any) bool {
		text, err := json.Marshal(line)
		if err != nil {
			return false
		}
		_, err = w.Write(append(text, '\n'))
		return err == nil && flush() == nil
	}
	heard := flush() == nil // the desk hears at once that it has begun
	a.cfg.Replays.Run(r.Context(), v, entries, func(line action.Line) bool {
		line.ByName = names[line.By]
		heard = send(line)
		return heard
	})
	if heard {
		send(struct {
			End bool `json:"end"`
		}{true})
	}
	return nil
}

// readEntry reads an entry as its live request would be read.
func readEntry(r *http.Request, in *web.Input) (action.Entry, error) {
	in.Require("key", "path", "pressedAt")
	in.Only("key", "path", "body", "pressedAt")
	v, e := visitOf(r), action.Entry{}
	if text := in.String("key", maxToken); text != "" {
		if id, err := ulid.ParseStrict(text); err == nil {
			e.Key = id.String()
		} else {
			in.Refuse("key", bff.FieldFormat)
		}
	}
	pressed := readMoment(in, "pressedAt")
	e.Command.Once = backoffice.Once{Key: e.Key, Sent: v.Sent}
	e.Command.Pressed = action.PressedAt(pressed, v.Sent, now(r))
	path, body := in.String("path", maxEntryPath), in.Object("body")
	if path == "" {
		return e, nil
	}
	rt, value, ok := routeOf(path)
	switch {
	case !ok && onlineOnly(path):
		e.Alone = true
		return e, nil
	case !ok:
		in.Refuse("path", bff.FieldUnsupported)
		return e, nil
	}
	for _, bad := range rt.readPath(value, &e.Command) {
		in.Refuse("path", bad.Code)
	}
	e.Alone = e.Command.Action.Offline != backoffice.Replayable
	switch read := rt.read(); {
	case read == nil && body != nil:
		in.Refuse("body", bff.FieldUnsupported)
	case read == nil:
	case body == nil:
		in.Require("body")
	default:
		read(body, &e.Command)
	}
	return e, digest(&e.Command, v.Property)
}

// routeOf finds the route of actions that a path is one of, and the values in it.
func routeOf(path string) (rt actionRoute, value func(name string) string, ok bool) {
	for _, rt := range actionRoutes() {
		_, pattern, _ := strings.Cut(rt[0].Pattern(), " ")
		if values, ok := fits(pattern, path); ok {
			return rt, func(name string) string { return values[name] }, true
		}
	}
	return nil, nil, false
}

// onlineOnly reports whether a path is that of a change which is no action in the table: keys
// of rooms, decisions and acknowledgements.
func onlineOnly(path string) bool {
	for _, pattern := range []string{"/locks/{reservationId}/{action}", "/ai/suggestions/{suggestionId}/decide", "/alerts/{alertId}/acknowledge"} {
		if _, ok := fits(pattern, path); ok {
			return true
		}
	}
	return false
}

// fits compares a path with a pattern, and returns its wildcards.
func fits(pattern, path string) (map[string]string, bool) {
	want, have := strings.Split(pattern, "/"), strings.Split(path, "/")
	if len(want) != len(have) {
		return nil, false
	}
	values := map[string]string{}
	for i, segment := range want {
		name, wild := strings.CutPrefix(segment, "{")
		if wild && have[i] != "" {
			values[strings.TrimSuffix(name, "}")] = have[i]
		} else if segment != have[i] {
			return nil, false
		}
	}
	return values, true
}
