package backofficeupstream

import (
	"encoding/json"
	"maps"
	"slices"

	"melmastoon.ghasi.io/bff"
	"melmastoon.ghasi.io/bff/internal/backoffice"
	"melmastoon.ghasi.io/bff/internal/backoffice/board"
	"melmastoon.ghasi.io/bff/internal/upstream"
)

// dialect is how an upstream is spoken to: their teams have not agreed on the name
// of the tenant's header, nor on that of idempotency keys, nor on the form of ids.
type dialect struct {
	tenant string // the header
	key    string // the header of idempotency keys
	uuid   bool   // ids and keys are UUIDs of the same bits
}

func dialectOf(u backoffice.Upstream) dialect {
	switch u {
	case backoffice.UpstreamBilling:
		return dialect{tenant: "X-Billing-Tenant", key: "X-Idempotency-Key", uuid: true}
	case backoffice.UpstreamMaintenance:
		return dialect{tenant: "X-Tenant", key: "Idempotency-Key", uuid: true}
	case backoffice.UpstreamLock:
		return dialect{tenant: "X-Lock-Tenant", key: "X-Request-Key", uuid: true}
	case backoffice.UpstreamAnalytics:
		return dialect{tenant: "X-Org-Id", uuid: true}
	case backoffice.UpstreamSync:
		return dialect{tenant: "X-Tenant-Id", key: "X-Idempotency-Key", uuid: true}
	}
	return dialect{tenant: "X-Tenant-Id", key: "Idempotency-Key"}
}

// of says for which tenant the upstream is called.
func (d dialect) of(tenant bff.ID) upstream.Option { return upstream.Header(d.tenant, d.write(tenant)) }

// once names a mutation: the client's key, a ULID, in the form that the upstream reads.
func (d dialect) once(key string) upstream.Option {
	if d.uuid {
		if id, err := bff.ParseID(bff.PrefixRequest, string(bff.PrefixRequest)+"_"+key); err == nil {
			key = id.UUID()
		}
	}
	return upstream.Header(d.key, key)
}

// write writes an id as the upstream wants it.
func (d dialect) write(id bff.ID) string {
	if d.uuid {
		return id.UUID()
	}
	return id.String()
}

// read returns an id of the upstream in the platform's form. What it cannot read is
// left as it is: it is shown, not acted on.
func (d dialect) read(p bff.Prefix, s string) string {
	if !d.uuid {
		return s
	}
	id, err := bff.IDFromUUID(p, s)
	if err != nil {
		return s
	}
	return id.String()
}

// minorUnits is money as billing writes it.
type minorUnits struct {
	AmountMinor int64        `json:"amountMinor"`
	Currency    bff.Currency `json:"currency"`
}

func (m minorUnits) amount() board.Amount {
	return board.AmountOf(bff.Money{Minor: m.AmountMinor, Currency: m.Currency})
}

// majorUnits is money as analytics writes it: a number, whose currency stands
// elsewhere.
func majorUnits(n json.Number, c bff.Currency) (board.Amount, error) {
	m, err := bff.ParseMajor(n.String(), c)
	return board.AmountOf(m), err
}

// micros is money as pricing writes it.
func micros(s string) (board.Amount, error) {
	m, err := bff.ParseMicros(s)
	return board.AmountOf(m), err
}

// text is localised text as the platform's services write it: the default is a language.
type text struct {
	Default string            `json:"default"`
	Values  map[string]string `json:"values"`
}

// localized is what front ends read: the default text itself, and the others. A default
// that names no value: any is better than none.
func (t text) localized() bff.LocalizedString {
	var out bff.LocalizedString
	for _, locale := range append([]string{t.Default, "en", "fa", "ps"}, slices.Sorted(maps.Keys(t.Values))...) {
		if out.Default = t.Values[locale]; out.Default != "" {
			out.Localized = maps.Clone(t.Values)
			delete(out.Localized, locale)
			break
		}
	}
	return out
}

// named is a name that may be missing.
func (t *text) named() *bff.LocalizedString {
	if t == nil || len(t.Values) == 0 {
		return nil
	}
	name := t.localized()
	return &name
}
