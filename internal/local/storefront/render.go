package storefront

import (
	"bytes"
	_ "embed"
	"encoding/json"
	"html/template"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/text/feature/plural"
	"golang.org/x/text/language"

	"melmastoon.ghasi.io/bff"
	"melmastoon.ghasi.io/bff/internal/local/pages"
)

//go:embed shell.html
var shellHTML string

// shell has the elements and the classes that web/storefront draws, so that nothing moves
// when the script takes over.
var shell = template.Must(template.New("shell").Parse(shellHTML))

// view is what shell.html shows.
type view struct {
	search
	*bff.LocaleInfo
	texts map[string]string
	query url.Values

	Path         string
	Saver, Found bool
	Session      struct{ Currency bff.Currency }
	Result       struct {
		Results []hotel
		Page    struct{ Total int }
	}
}

type hotel struct {
	PropertyID string
	Name       bff.LocalizedString
	CityLabel  string
	Thumbnail  struct{ URL string }
	StarRating float64
	RateState  string
	Rate       *struct {
		Total struct {
			Minor    string
			Currency bff.Currency
		}
	} `json:"rateSnapshot"`
}

func render(r *http.Request, l bff.Locale, data begun) (pages.View, error) {
	q := r.URL.Query()
	v := view{search: readSearch(q, l, time.Now()), LocaleInfo: l.Info(), query: q, Path: r.URL.Path, Saver: data.Saver, Found: data.Search != nil}
	var err error
	if v.texts, err = pages.Messages("storefront", l); err != nil {
		return pages.View{}, err
	}
	_ = json.Unmarshal(data.Session, &v.Session) // without one no currency is chosen
	if c, err := bff.ParseCurrency(v.Currency); err == nil {
		v.Session.Currency = c
	}
	if v.Found {
		if err := json.Unmarshal(data.Search.Answer, &v.Result); err != nil {
			return pages.View{}, err
		}
	}
	var b bytes.Buffer
	err = shell.Execute(&b, v)
	body := template.HTML(b.String()) //nolint:gosec // html/template has escaped it
	return pages.View{Title: v.Say("title") + " · " + v.Say("brand"), Description: v.Say("where.hint"), Body: body, Data: data}, err
}

// Say is a text of the page, with values by their names.
func (v view) Say(key string, values ...string) string {
	text := v.texts[key]
	for i := 0; i+1 < len(values); i += 2 {
		text = strings.ReplaceAll(text, "{"+values[i]+"}", "\u2068"+values[i+1]+"\u2069")
	}
	return text
}

// SayN is a text that a count chooses: {n, plural, one {# night} other {# nights}}.
func (v view) SayN(key string, n int) string {
	form := plural.Cardinal.MatchPlural(language.Make(string(v.LocaleInfo.Locale)), n, 0, 0, 0, 0)
	name := []string{"other", "zero", "one", "two", "few", "many"}[form]
	_, rest, _ := strings.Cut(v.texts[key], name+" {")
	text, _, _ := strings.Cut(rest, "}")
	return strings.ReplaceAll(text, "#", "\u2068"+v.Number(n)+"\u2069")
}

// Place is where the guest looks, by the name that the hotels there have for it.
func (v view) Place() string {
	if v.Where == "" && len(v.Result.Results) > 0 {
		return v.Result.Results[0].CityLabel
	}
	if v.Where == "" {
		return usualCity
	}
	return v.Where
}

// Named is a name in the reader's language, or as it was written first.
func (v view) Named(s bff.LocalizedString) string {
	tag := string(v.LocaleInfo.Locale)
	language, _, _ := strings.Cut(tag, "-")
	for _, name := range []string{s.Localized[tag], s.Localized[language]} {
		if name != "" {
			return name
		}
	}
	return s.Default
}

// Amount is the price of the stay.
func (v view) Amount(h hotel) (string, error) {
	m, err := bff.ParseMinor(h.Rate.Total.Minor, h.Rate.Total.Currency)
	return v.FormatMoney(m), err
}

// Stay is the days as readers count them; their month once where they share it.
func (v view) Stay() string {
	day := func(d bff.Date) []string {
		return strings.Fields(v.FormatDate(d, v.LocaleInfo.Dates.Day, v.Calendars[0]))
	}
	from, to := day(v.search.Dates.CheckIn), day(v.search.Dates.CheckOut)
	both := slices.Clone(to)
	for i := range min(len(from), len(to)) {
		if from[i] != to[i] {
			both[i] = from[i] + "–" + to[i]
		}
	}
	if said := strings.Join(both, " "); len(from) == len(to) && strings.Count(said, "–") == 1 && v.search.Dates.Nights() < 28 {
		return said
	}
	return strings.Join(from, " ") + " – " + strings.Join(to, " ")
}

func (v view) Nights() string          { return v.SayN("nights", v.search.Dates.Nights()) }
func (v view) Number(n int) string     { return v.FormatNumber(strconv.Itoa(n)) }
func (v view) Stars(n float64) string  { return strings.Repeat("★", min(5, int(n+.5))) }
func (v view) Chosen(code string) bool { return slices.Contains(words(v.query["f"]), code) }
func (v view) Tag() bff.Locale         { return v.LocaleInfo.Locale }
func (v view) Link(id string) string   { return "/hotels/" + id + "?" + v.query.Encode() }
func (v view) Locales() []bff.Locale   { return bff.Locales() }
func (v view) All() []bff.Currency     { return bff.Currencies() }
func (v view) First() []string {
	return strings.Fields("prayer-room women-only-floor generator-power wheelchair-access")
}
func (v view) CheckIn() bff.Date  { return v.search.Dates.CheckIn }
func (v view) CheckOut() bff.Date { return v.search.Dates.CheckOut }
func (v view) Adults() any        { return v.Occupancy["adults"] }
func (v view) Numbers(from int) []int {
	return []int{0, 1, 2, 3, 4, 5, 6, 7, 8}[from:]
}
