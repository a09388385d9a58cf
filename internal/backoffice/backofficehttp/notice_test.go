package backofficehttp_test

import (
	"net/http"
	"strings"
	"testing"

	"melmastoon.ghasi.io/bff/internal/http1"
)

// What an operator changes is told to the streams that show it, with the mark by which
// the sender drops its own echo.
func TestChangesAreTold(t *testing.T) {
	t.Parallel()
	f := newFront(t, frontConfig{})
	url := f.listen(0, http1.Options{})
	here, there := f.sender("opt_parwana"), f.sender("opt_parwana")
	own, other := here.stream(url, ""), there.stream(url, "")
	own.until("ready")
	other.until("ready")

	w := f.send(0, here.putPreferences(f.version(), `{"payload":{}}`))
	if w.Code != http.StatusOK {
		t.Fatalf("%d %s", w.Code, w.Body)
	}
	mark := `"causedBy":"req_` + w.Header().Get("X-Request-Id") + `"`
	for _, l := range []*listener{own, other} {
		if e := l.next(); e.name != "session" || !strings.Contains(e.data, `"preferences.updated"`) || !strings.Contains(e.data, mark) {
			t.Errorf("%+v, want the mark %s", e, mark)
		}
	}
	w = f.send(0, here.keyed(base+"/sync/cursor", here.nextMove()))
	if w.Code != http.StatusOK {
		t.Fatalf("%d %s", w.Code, w.Body)
	}
	mark = `"causedBy":"req_` + w.Header().Get("X-Request-Id") + `"`
	if e := own.next(); e.name != "sync" || !strings.Contains(e.data, `"cursor.advanced"`) || !strings.Contains(e.data, mark) {
		t.Errorf("%+v, want the mark %s", e, mark)
	}
	here.session() // neither a refusal nor a read is told
	f.send(0, here.keyed(base+"/sync/cursor", `{"expectedVersion":9999,"pullCursor":"x"}`))
	f.streams[0].Shed(2)
	for _, l := range []*listener{own, other} {
		if e := l.next(); e.name != "drain" {
			t.Errorf("%+v", e)
		}
	}
}
