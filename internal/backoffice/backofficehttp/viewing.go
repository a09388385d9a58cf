package backofficehttp

import (
	"context"
	"net/http"

	"melmastoon.ghasi.io/bff/internal/backoffice"
)

// viewed tells after the response what an operator has looked at: a read neither waits
// for it nor fails with it.
func (a *API) viewed(r *http.Request, f backoffice.Fact) {
	v, at := visitOf(r), now(r)
	if !a.cfg.Viewings.Reports(f.Subject(), v) {
		return
	}
	a.cfg.Background.DoFor(r.Context(), func(ctx context.Context) {
		if err := a.cfg.Viewings.Report(ctx, f, v, at); err != nil {
			a.unreported.Inc()
			a.cfg.Log.DebugContext(ctx, "viewing was not recorded", "subject", string(f.Subject()), "error", err.Error())
		}
	})
}
