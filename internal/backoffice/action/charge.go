package action

import (
	"context"
	"time"

	"melmastoon.ghasi.io/bff"
	"melmastoon.ghasi.io/bff/internal/backoffice"
)

// Charged is a charge that an operator makes to a folio.
type Charged struct {
	Tenant   bff.ID
	Operator string
	Folio    bff.ID
	Day      bff.Date // of the house
	Once     backoffice.Once
	Amount   bff.Money
}

// Sums are amounts by currency, in minor units.
type Sums map[bff.Currency]int64

// Charges adds up what operators charge.
type Charges interface {
	// CountCharge adds a charge to what its operator has charged to the folio on the day,
	// if within says that the sum of all of it may be, and reports whether it did. Two
	// that come at once are counted one after the other. A charge that was counted before,
	// by an attempt with the same key, stays counted once. Its mutation has begun.
	CountCharge(ctx context.Context, c Charged, within func(Sums) bool) (bool, error)
	// UncountCharge takes a charge out again that was not made.
	UncountCharge(ctx context.Context, c Charged) error
}

// Within reports whether what an operator charges to a folio in a day needs no second
// factor. Of several currencies the shares of their thresholds are added up.
func (t Thresholds) Within(sums Sums) bool {
	share := 0.0
	for currency, minor := range sums {
		most, ok := t[currency]
		if !ok || minor > most { // what was not decided is not let through
			return false
		}
		if minor > 0 {
			share += float64(minor) / float64(most)
		}
	}
	return share <= 1
}

// charged is what a command charges, for the sum of the day.
func (c *Command) charged(v *backoffice.Visit) Charged {
	return Charged{Tenant: v.Session.Tenant, Operator: v.Session.Operator, Folio: c.ID, Once: c.Once, Amount: c.Posting.Amount}
}

// houseDay is the day of the visit's property. Where it cannot be told it is that of UTC:
// the sum may then be one of two days, which is better than no charge at all.
func (p *Proxy) houseDay(ctx context.Context, v *backoffice.Visit, now time.Time) bff.Date {
	date, err := p.cfg.Today(ctx, v.Session.Tenant, v.Property, now)
	if err != nil {
		return bff.DateOf(now)
	}
	return date
}

// permitCharge counts a charge, with a second factor if the sum of the day needs one.
func (p *Proxy) permitCharge(ctx context.Context, v *backoffice.Visit, c *Command, now time.Time) error {
	charge := c.charged(v)
	charge.Day = p.houseDay(ctx, v, now)
	within, err := p.cfg.Charges.CountCharge(ctx, charge, p.cfg.Thresholds.Within)
	if err != nil || within {
		return err
	}
	if err := p.useFactor(ctx, v, c, now); err != nil {
		return err
	}
	_, err = p.cfg.Charges.CountCharge(ctx, charge, func(Sums) bool { return true })
	return err
}
