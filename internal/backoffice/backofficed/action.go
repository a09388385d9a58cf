package backofficed

import (
	"time"

	"melmastoon.ghasi.io/bff/internal/backoffice/action"
	"melmastoon.ghasi.io/bff/internal/backoffice/backofficehttp"
)

// ActionSettings say what operators need a second factor for.
type ActionSettings struct {
	LargeCharges string `name:"large-charges" env:"BFF_BACKOFFICE_LARGE_CHARGES" default:"AFN=35000,USD=500,EUR=450,GBP=400,AED=1800,PKR=140000,IRR=250000000" help:"Amounts by currency, in major units, above which charges need a second factor: all that an operator charges to one folio in a day, together. A charge in a currency that is not named always does, and so does every refund."`
}

// openActions gives the API what it needs for actions that other services carry out.
func (s *ActionSettings) openActions(api *backofficehttp.Config, on personal) error {
	thresholds, err := action.ReadThresholds(s.LargeCharges)
	api.Proxy = action.NewProxy(action.ProxyConfig{
		Journal: on.ledger, Upstream: on.upstreams.Actions, Mutations: on.ledger, Attestations: api.Attestations, Thresholds: thresholds, Charges: on.ledger,
		Traces: on.ledger, Today: api.Calendar.Date, Notifier: on.notifier, News: on.news, Now: time.Now,
	})
	api.Replays = action.NewReplays(action.ReplaysConfig{Proxy: api.Proxy, Again: api.Access.Again, Traces: on.ledger, Now: time.Now})
	return err
}
