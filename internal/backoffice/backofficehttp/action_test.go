package backofficehttp_test

import (
	"net/http"
	"strings"
)

// meetActions meets the answers of actions that other operations do not have.
func meetActions(f *front, s *sender, send func(*request, int)) {
	f.house.change(func(h *houseFake) { h.foreign[foreign] = true })
	n := f.behindUs
	for _, name := range actionNames() {
		key := ""
		with := func(change func(*request), want int) {
			r := s.action(name)
			change(r)
			key = r.header.Get("X-Idempotency-Key")
			send(r, want)
		}
		with(func(r *request) { r.header.Del("X-Idempotency-Key") }, http.StatusPreconditionRequired)
		with(func(r *request) { r.path = strings.Replace(r.path, house, other, 1) }, http.StatusForbidden)
		with(func(r *request) { r.path = strings.Replace(r.path, house, foreign, 1) }, http.StatusNotFound)
		first := s.action(name)
		f.send(0, first)
		key = first.header.Get("X-Idempotency-Key")
		// Another resource or body under the key of the first.
		with(func(r *request) {
			r.body = strings.NewReplacer("seen", "noted", "low", "high").Replace(r.body)
			r.header.Set("X-Idempotency-Key", key)
		}, http.StatusUnprocessableEntity)
		n.with(func() { n.answers[f.tenant.String()+key].running = true })
		again := s.request(first.method, first.path, first.body)
		again.header.Set("X-Idempotency-Key", key)
		send(again, http.StatusConflict)
	}
}
