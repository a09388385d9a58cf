package board

import (
	"context"
	"fmt"
	"sort"
	"strings"
	"time"
	_ "time/tzdata" // the image that is shipped has no zones of its own

	"melmastoon.ghasi.io/bff"
)

// DaySource says who knows the time zone of a property.
type DaySource string

// The sources there are.
const (
	DayOfProperty DaySource = "property" // property-service names the zone
	DayOfCountry  DaySource = "country"  // it names the country alone
)

// Zone is the time zone of a property. The zero Zone is none: nothing is ever taken to
// be UTC because a zone is unknown.
type Zone struct {
	location *time.Location
	source   DaySource
}

// Day is a day of a property as its own clocks have it: "today" in Kabul begins four and
// a half hours before that of UTC.
type Day struct {
	Date     bff.Date      `json:"date"`
	TimeZone string        `json:"timeZone"`
	EndsAt   bff.Timestamp `json:"endsAt"`
	Source   DaySource     `json:"source"`
}

// ReadZone reads a property's IANA time zone; where that is missing or unknown, the zone
// of its country stands in. Without either there is no zone.
func ReadZone(timeZone, country string) (Zone, error) {
	// "Local" is the zone of whatever machine this is, and an empty name means UTC.
	if timeZone != "" && !strings.EqualFold(timeZone, "Local") {
		if l, err := time.LoadLocation(timeZone); err == nil {
			return Zone{l, DayOfProperty}, nil
		}
	}
	if name, ok := zoneOfCountry[country]; ok {
		l, err := time.LoadLocation(name)
		return Zone{l, DayOfCountry}, err
	}
	return Zone{}, fmt.Errorf("no time zone is known of a property with the zone %.64q in the country %.8q", timeZone, country)
}

// MarshalText writes the zone for a cache.
func (z Zone) MarshalText() ([]byte, error) {
	if z.IsZero() {
		return nil, nil
	}
	return []byte(string(z.source) + " " + z.location.String()), nil
}

// UnmarshalText reads it back.
func (z *Zone) UnmarshalText(b []byte) error {
	*z = Zone{}
	source, name, ok := strings.Cut(string(b), " ")
	if !ok {
		return nil
	}
	l, err := time.LoadLocation(name)
	*z = Zone{l, DaySource(source)}
	return err
}

// Name is the zone's of IANA; empty if it is unknown.
func (z Zone) Name() string {
	if z.IsZero() {
		return ""
	}
	return z.location.String()
}

// IsZero reports whether the zone is unknown.
func (z Zone) IsZero() bool { return z.location == nil }

// Today is the day that the property's clocks show.
func (z Zone) Today(now time.Time) Day { return z.On(z.dateOf(now)) }

// On is the property's day of a date.
func (z Zone) On(date bff.Date) Day {
	return Day{Date: date, TimeZone: z.location.String(), EndsAt: bff.At(z.begin(date + 1)), Source: z.source}
}

func (z Zone) dateOf(t time.Time) bff.Date {
	y, m, d := t.In(z.location).Date()
	return bff.DateOf(time.Date(y, m, d, 0, 0, 0, 0, time.UTC))
}

// begin is the first second of a date. Where clocks change at midnight, a day begins at
// one o'clock, or its midnight comes twice: then it is searched for.
func (z Zone) begin(date bff.Date) time.Time {
	y, m, d := date.Time().Date()
	if t := time.Date(y, m, d, 0, 0, 0, 0, z.location); z.dateOf(t) == date && z.dateOf(t.Add(-time.Second)) < date {
		return t.UTC()
	}
	const reach = 26 * 60 * 60 // no zone is further from UTC
	first := date.Time().Unix() - reach
	n := sort.Search(2*reach, func(s int) bool { return z.dateOf(time.Unix(first+int64(s), 0)) >= date })
	return time.Unix(first+int64(n), 0).UTC()
}

// Calendar tells the days of properties.
type Calendar struct {
	properties Properties
	ahead      time.Duration
}

// NewCalendar returns a Calendar. In development the houses' clocks can be ahead of the
// service's.
func NewCalendar(p Properties, ahead time.Duration) *Calendar { return &Calendar{p, ahead} }

// Today returns a property on the day that its clocks show, and its zone for other days.
func (c *Calendar) Today(ctx context.Context, tenant, property bff.ID, now time.Time) (Place, Zone, error) {
	p, err := c.properties.FindProperty(ctx, tenant, property)
	if err != nil {
		return Place{}, Zone{}, err
	}
	if p.Zone.IsZero() {
		return Place{}, Zone{}, bff.Errorf(bff.CodeUpstreamUnavailable, "the time zone of this property is not known, so its day cannot be told")
	}
	return Place{Tenant: tenant, Property: property, Day: p.Zone.Today(now.Add(c.ahead))}, p.Zone, nil
}

// Date returns the date that the property's clocks show.
func (c *Calendar) Date(ctx context.Context, tenant, property bff.ID, now time.Time) (bff.Date, error) {
	at, _, err := c.Today(ctx, tenant, property, now)
	return at.Date, err
}

// zoneOfCountry has the countries of the platform's market and of its guests' families.
// Of a country with several zones it has the capital's.
var zoneOfCountry = map[string]string{
	"AE": "Asia/Dubai", "AF": "Asia/Kabul", "AM": "Asia/Yerevan", "AT": "Europe/Vienna", "AU": "Australia/Sydney", "AZ": "Asia/Baku",
	"BD": "Asia/Dhaka", "BE": "Europe/Brussels", "BH": "Asia/Bahrain", "BT": "Asia/Thimphu", "CA": "America/Toronto", "CH": "Europe/Zurich",
	"CN": "Asia/Shanghai", "CY": "Asia/Nicosia", "DE": "Europe/Berlin", "DK": "Europe/Copenhagen", "EG": "Africa/Cairo", "ES": "Europe/Madrid",
	"FI": "Europe/Helsinki", "FR": "Europe/Paris", "GB": "Europe/London", "GE": "Asia/Tbilisi", "GR": "Europe/Athens", "ID": "Asia/Jakarta",
	"IE": "Europe/Dublin", "IN": "Asia/Kolkata", "IQ": "Asia/Baghdad", "IR": "Asia/Tehran", "IT": "Europe/Rome", "JO": "Asia/Amman",
	"JP": "Asia/Tokyo", "KG": "Asia/Bishkek", "KW": "Asia/Kuwait", "KZ": "Asia/Almaty", "LB": "Asia/Beirut", "LK": "Asia/Colombo",
	"LU": "Europe/Luxembourg", "MN": "Asia/Ulaanbaatar", "MV": "Indian/Maldives", "MY": "Asia/Kuala_Lumpur", "NL": "Europe/Amsterdam",
	"NO": "Europe/Oslo", "NP": "Asia/Kathmandu", "OM": "Asia/Muscat", "PK": "Asia/Karachi", "PL": "Europe/Warsaw", "PS": "Asia/Hebron",
	"PT": "Europe/Lisbon", "QA": "Asia/Qatar", "RU": "Europe/Moscow", "SA": "Asia/Riyadh", "SE": "Europe/Stockholm", "SG": "Asia/Singapore",
	"SY": "Asia/Damascus", "TH": "Asia/Bangkok", "TJ": "Asia/Dushanbe", "TM": "Asia/Ashgabat", "TR": "Europe/Istanbul", "US": "America/New_York",
	"UZ": "Asia/Tashkent", "YE": "Asia/Aden",
}

// Property is a hotel of a tenant, as property-service has it.
type Property struct {
	ID   bff.ID              `json:"id,omitzero"`
	Name bff.LocalizedString `json:"name"`
	City string              `json:"city"`
	Zone Zone                `json:"zone"` // zero: it cannot be told
}

// Properties knows the properties of tenants.
type Properties interface {
	// FindProperty returns one of the tenant's properties. What is not one of them is
	// [bff.CodeResourceNotFound], whether it exists or not.
	FindProperty(ctx context.Context, tenant, property bff.ID) (Property, error)
}
