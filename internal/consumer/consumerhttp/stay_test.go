package consumerhttp

import (
	"errors"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"melmastoon.ghasi.io/bff"
	"melmastoon.ghasi.io/bff/internal/web"
)

func refusedFields(err error) map[string]string {
	e, ok := errors.AsType[*bff.Error](err)
	if !ok {
		return nil
	}
	out := map[string]string{}
	for _, f := range e.Fields {
		out[f.Field] = f.Code
	}
	return out
}

func TestReadStay(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		body string
		want map[string]string
	}{
		{`{"checkIn":"2027-05-12","checkOut":"2027-05-15"}`, nil},
		{`{}`, map[string]string{"checkIn": "required", "checkOut": "required"}},
		{`{"checkIn":"2027-05-32","checkOut":null}`, map[string]string{"checkIn": "format", "checkOut": "required"}},
		{`{"checkIn":"2027-05-15","checkOut":"2027-05-12"}`, map[string]string{"checkOut": "order"}},
	} {
		in, err := web.ParseBody(t.Context(), []byte(tt.body))
		if err != nil {
			t.Fatal(err)
		}
		readStay(in)
		if diff := cmp.Diff(tt.want, refusedFields(in.Err())); diff != "" {
			t.Errorf("%s: refused fields (-want +got):\n%s", tt.body, diff)
		}
	}
}

func TestReadStayAhead(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		now  string
		want map[string]string
	}{
		{"2027-05-11T23:59:59Z", nil},
		{"2027-05-12T12:00:00Z", nil},
		{"2027-05-13T23:59:59Z", nil}, // yesterday: it is still that day west of us
		{"2027-05-14T00:00:00Z", map[string]string{"checkIn": "past"}},
		{"2031-01-01T00:00:00Z", map[string]string{"checkIn": "past"}},
	} {
		in, err := web.ParseText(t.Context(), `{"checkIn":"2027-05-12","checkOut":"2027-05-15"}`)
		if err != nil {
			t.Fatal(err)
		}
		now, err := time.Parse(time.RFC3339, tt.now)
		if err != nil {
			t.Fatal(err)
		}
		readStayAhead(in, now)
		if diff := cmp.Diff(tt.want, refusedFields(in.Err())); diff != "" {
			t.Errorf("%s: refused fields (-want +got):\n%s", tt.now, diff)
		}
	}
}

func TestReadOccupancy(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		query    string
		required bool
		want     bff.Occupancy
		wantBad  map[string]string
	}{
		{"adults=2&childrenAges=5,8&children=2&rooms=", false, bff.Occupancy{Adults: 2, Children: 2, Rooms: 1, ChildrenAges: []int{5, 8}}, nil},
		{"", false, bff.DefaultOccupancy(), nil},
		{"children=0", true, bff.DefaultOccupancy(), map[string]string{"adults": "required", "rooms": "required"}},
		{
			"adults=1&rooms=1&children=1&childrenAges=5,8", true,
			bff.Occupancy{Adults: 1, Children: 1, Rooms: 1, ChildrenAges: []int{5, 8}},
			map[string]string{"childrenAges": "count"},
		},
	} {
		in := web.ReadQuery(httptest.NewRequestWithContext(t.Context(), "GET", "/?"+tt.query, nil))
		if diff := cmp.Diff(tt.want, readOccupancy(in, tt.required)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", tt.query, diff)
		}
		if diff := cmp.Diff(tt.wantBad, refusedFields(in.Err())); diff != "" {
			t.Errorf("%s: refused fields (-want +got):\n%s", tt.query, diff)
		}
	}
}

func TestLoneUnsupportedKeepsItsCode(t *testing.T) {
	t.Parallel()
	for body, want := range map[string]bff.Code{
		`{"locale":"fr"}`:                    bff.CodeLocaleNotSupported,
		`{"currency":"XXX"}`:                 bff.CodeCurrencyNotSupported,
		`{"locale":"fr","currency":"XXX"}`:   bff.CodeValidationFailed,
		`{"locale":1}`:                       bff.CodeValidationFailed,
		`{"locale":"ps-AF","currency":"AF"}`: bff.CodeCurrencyNotSupported,
	} {
		in, err := web.ParseBody(t.Context(), []byte(body))
		if err != nil {
			t.Fatal(err)
		}
		in.Locale("locale")
		readCurrency(in)
		if got := Codes().Classify(t.Context(), in.Err()).Code; got != want {
			t.Errorf("%s: got %s, want %s", body, got, want)
		}
	}
}

func FuzzReadStay(f *testing.F) {
	f.Add([]byte(`{"checkIn":"2026-01-01","checkOut":"2026-01-02","adults":1,"rooms":1,"children":1,"childrenAges":[3]}`))
	f.Add([]byte(`{"checkIn":[],"adults":1e309,"childrenAges":{}}`))
	f.Fuzz(func(t *testing.T, body []byte) {
		in, err := web.ParseBody(t.Context(), body)
		if err != nil {
			return
		}
		stay, party := readStay(in), readOccupancy(in, true)
		readCurrency(in)
		if in.Err() == nil && (len(stay.Validate()) > 0 || len(party.ChildrenAges) > bff.MaxChildren) {
			t.Errorf("accepted %s", body)
		}
	})
}
