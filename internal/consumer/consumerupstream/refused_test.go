package consumerupstream_test

import (
	"net/http"
	"testing"
	"time"

	"melmastoon.ghasi.io/bff"
	"melmastoon.ghasi.io/bff/internal/consumer"
)

// TestRefusedIsNoOutage has search-aggregation refuse a query as malformed: that
// is an error of the request, and not of the service.
func TestRefusedIsNoOutage(t *testing.T) {
	t.Parallel()
	for status, want := range map[int]bff.Code{
		http.StatusBadRequest: bff.CodeValidationFailed, http.StatusInternalServerError: bff.CodeUpstreamUnavailable,
	} {
		f := finderOn(t, inMemory{http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(status)
			_, _ = w.Write([]byte(`{"error":{"code":"INVALID_ARGUMENT","fields":[{"field":"geo.city","code":"required"}]}}`))
		})})
		if _, err := f.Find(t.Context(), consumer.SearchQuery{}, time.Time{}); bff.CodeOf(err) != want {
			t.Errorf("%d: %v, want %s", status, err, want)
		}
	}
}
