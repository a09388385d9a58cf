package backofficed

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"time"

	"melmastoon.ghasi.io/bff"
	"melmastoon.ghasi.io/bff/internal/backoffice/audit"
	"melmastoon.ghasi.io/bff/internal/backoffice/backofficelake"
	"melmastoon.ghasi.io/bff/internal/backoffice/backofficewarehouse"
	"melmastoon.ghasi.io/bff/internal/service"
)

// auditCommand looks at the sealed audit.
type auditCommand struct {
	Verify auditVerify `cmd:"" help:"Find rows that were changed, removed, inserted or reordered after they were sealed."`
	Keys   auditKeys   `cmd:"" help:"Show the public keys, for those who verify."`

	Refused auditRefused `cmd:"" help:"List the exports that the warehouse has refused for good, have them tried again or give one up."`
}

// auditVerify holds the database and an export to the signed heads.
type auditVerify struct {
	service.Database
	LakeSettings
	Tenant     string   `name:"tenant" help:"Only this tenant (tnt_…)."`
	Export     string   `name:"export" help:"Bucket with an export to verify as well; rows that were pruned are verified there."`
	OnlyExport bool     `name:"only-export" help:"Verify the export alone, without a database."`
	FromHead   []string `name:"from-head" type:"path" help:"Files with heads that were kept elsewhere: exported heads or published events, one or many to a file. They pin the chain against those who can rewrite the database and the bucket."`
}

// Validate accepts what is enough to verify.
func (a *auditVerify) Validate() error {
	if a.OnlyExport {
		if a.Export == "" {
			return errors.New("only-export: needs export")
		}
		a.Without()
		return nil
	}
	return a.Database.Validate()
}

// errTampered makes the command fail.
var errTampered = errors.New("the audit does not hold")

// Run prints what was verified and every finding; any finding is a failure.
func (a *auditVerify) Run(ctx context.Context, id service.Identity) (err error) {
	v := &backofficelake.Verifier{Now: time.Now()}
	if v.Keys, err = a.keys(ctx); err != nil {
		return err
	}
	if a.Tenant != "" {
		if v.Tenant, err = bff.ParseID(bff.PrefixTenant, a.Tenant); err != nil {
			return fmt.Errorf("tenant: %w", err)
		}
	}
	for _, path := range a.FromHead {
		b, err := os.ReadFile(path) //nolint:gosec // named on the command line
		if err != nil {
			return err
		}
		heads, err := audit.ReadAuditHeads(b)
		if err != nil {
			return fmt.Errorf("%s: %w", path, err)
		}
		v.Heads = append(v.Heads, heads...)
	}
	if a.Export != "" {
		if v.Bucket, err = backofficewarehouse.OpenBucket(ctx, a.Export); err != nil {
			return err
		}
		defer func() { err = errors.Join(err, v.Bucket.Close()) }()
	}
	if !a.OnlyExport {
		if v.DB, err = a.Open(ctx, id); err != nil {
			return err
		}
		defer v.DB.Close()
	}
	report, err := v.Verify(ctx)
	if err != nil {
		return err
	}
	return printReport(os.Stdout, report, v.Bucket != nil)
}

// printReport shows what was verified; it fails if anything was found. A terminal that
// cannot be written to has nowhere to say so.
func printReport(w io.Writer, r backofficelake.Report, export bool) error {
	for _, t := range r.Tenants {
		_, _ = fmt.Fprintf(w, "%s: %d entries, signed up to %d; %d rows as they were sealed, %d in the export", t.Tenant, t.Entries, t.Signed, t.Rows, t.Exported)
		if t.Pruned > 0 {
			_, _ = fmt.Fprintf(w, "; %d pruned", t.Pruned)
			if !export {
				_, _ = fmt.Fprint(w, ", which only --export can verify")
			}
		}
		if t.Unverified > 0 {
			_, _ = fmt.Fprintf(w, "; %d rows have their entries in the export alone: give it as --export", t.Unverified)
		}
		if t.Unsealed > 0 {
			_, _ = fmt.Fprintf(w, "; %d not sealed yet, the oldest %s old", t.Unsealed, t.OldestUnsealed.Round(time.Second))
		}
		_, _ = fmt.Fprintln(w)
	}
	for _, f := range r.Findings {
		_, _ = fmt.Fprintln(w, f)
	}
	if len(r.Findings) > 0 {
		return errTampered
	}
	_, _ = fmt.Fprintln(w, "nothing was changed, removed, inserted or reordered")
	return nil
}

// auditKeys shows public keys.
type auditKeys struct{ LakeSettings }

// Run prints the keys, one a line.
func (a *auditKeys) Run(ctx context.Context) error {
	keys, err := a.keys(ctx)
	if err != nil {
		return err
	}
	for _, line := range keys.Public() {
		if _, err := fmt.Fprintln(os.Stdout, line); err != nil {
			return err
		}
	}
	return nil
}

// auditRefused deals with exports that the warehouse has refused for good.
type auditRefused struct {
	service.Database
	Retry bool   `name:"retry" help:"Have the next runs load them again."`
	Waive string `name:"waive" placeholder:"TABLE/FIRST" help:"Never load this one: its rows are pruned as if it had been loaded."`
}

// Validate accepts one thing at a time.
func (a *auditRefused) Validate() error {
	if a.Retry && a.Waive != "" {
		return errors.New("retry, waive: only one of them")
	}
	return a.Database.Validate()
}

// Run does what was asked for, and lists what is refused after that.
func (a *auditRefused) Run(ctx context.Context, id service.Identity) error {
	db, err := a.Open(ctx, id)
	if err != nil {
		return err
	}
	defer db.Close()
	switch {
	case a.Retry:
		err = backofficelake.RetryRefused(ctx, db)
	case a.Waive != "":
		table, text, _ := strings.Cut(a.Waive, "/")
		first, bad := strconv.ParseInt(text, 10, 64)
		if bad != nil {
			return errors.New("waive: want table/first, as the list has it")
		}
		err = backofficelake.WaiveRefused(ctx, db, table, first)
	}
	if err != nil {
		return err
	}
	all, err := backofficelake.Refused(ctx, db)
	if err != nil {
		return err
	}
	for _, r := range all {
		if _, err := fmt.Fprintf(os.Stdout, "%s/%d: %d rows, refused at %s: %s\n", r.Table, r.First, r.Rows, bff.At(r.At), r.Detail); err != nil {
			return err
		}
	}
	return nil
}
