package backofficestore_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"melmastoon.ghasi.io/bff"
)

// The runbook for a mutation that is said to be doubled finds its key in both tables.
func TestKeyIsFoundByHand(t *testing.T) {
	t.Parallel()
	d, u := openDesk(t), &upstream{}
	a := checkIn(id(bff.PrefixTenant), time.Now())
	if _, err := d.attempt(t, u, a, pressed(key, 1), nil); err != nil {
		t.Fatal(err)
	}
	const hash = `encode(sha256(convert_to($1 || '||' || upper($2), 'UTF8')), 'hex')`
	inLedger := `SELECT outcome FROM bff_backoffice.operator_activity WHERE tenant_id = $1::uuid AND key_hash = left(` + hash + `, 32)::uuid`
	if got := d.rows(t, inLedger, a.Tenant.UUID(), key); !cmp.Equal(got, []string{"success"}) {
		t.Errorf("ledger: %v", got)
	}
	kept := `SELECT state FROM bff_backoffice.idempotency WHERE tenant_id = $1::uuid AND idem_key = ` + hash
	if got := d.rows(t, kept, a.Tenant.UUID(), key); !cmp.Equal(got, []string{"done"}) {
		t.Errorf("kept answers: %v", got)
	}
}
