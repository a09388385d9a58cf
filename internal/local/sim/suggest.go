package sim

import (
	"cmp"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"melmastoon.ghasi.io/bff"
)

// suggestion is a place or a house that a guest may be typing.
type suggestion struct {
	Kind        string `json:"kind"`
	Label       Text   `json:"label"`
	City        string `json:"city,omitempty"`
	CityNames   *Text  `json:"cityNames,omitempty"`
	Region      string `json:"region,omitempty"`
	RegionNames *Text  `json:"regionNames,omitempty"`
	Country     string `json:"country"`
	Geo         Point  `json:"geo"`
	PropertyID  string `json:"propertyId,omitempty"`

	keys   string // every spelling, folded, without spaces, between newlines
	words  string // the same with a newline before every word
	rank   int    // cities first, houses last
	weight int
	house  *property
}

func newSuggestion(texts folder, kind string, rank, weight int, label Spellings, more ...string) *suggestion {
	sg := &suggestion{Kind: kind, Label: label.text(), rank: rank, weight: weight}
	var keys, words strings.Builder
	for _, n := range slices.Concat(more, label.all()) {
		f := texts.fold(n)
		if f == "" {
			continue // no spelling in this language
		}
		keys.WriteString("\n" + strings.ReplaceAll(f, " ", ""))
		for w := f; w != ""; {
			words.WriteString("\n" + strings.ReplaceAll(w, " ", ""))
			_, w, _ = strings.Cut(w, " ")
		}
	}
	sg.keys, sg.words = keys.String(), words.String()
	return sg
}

// in says where it is.
func (sg *suggestion) in(c *city, at Point) {
	sg.City, sg.CityNames, sg.Region, sg.RegionNames, sg.Country, sg.Geo = c.names.En, &c.texts[0], c.region.En, &c.texts[1], c.country, at
}

func (ds *dataset) suggestions() []*suggestion {
	var out []*suggestion
	regions := map[string]bool{}
	for i := range ds.cities {
		c := &ds.cities[i]
		sg := newSuggestion(ds.texts, "city", 0, c.properties, c.spellings(), c.aliases...)
		sg.in(c, c.centre)
		out = append(out, sg)
		if key := c.country + c.region.En; !regions[key] {
			regions[key] = true
			sg := newSuggestion(ds.texts, "region", 1, c.properties, Spellings{Names: c.region})
			sg.in(c, c.centre)
			sg.City, sg.CityNames = "", nil
			out = append(out, sg)
		}
		for _, l := range c.landmarks {
			sg := newSuggestion(ds.texts, "landmark", 2, c.properties, Spellings{Names: l.names})
			sg.in(c, l.at)
			out = append(out, sg)
		}
	}
	for _, p := range ds.properties {
		sg := newSuggestion(ds.texts, "property", 3, p.score, Spellings{Names: p.names})
		sg.in(p.city, p.geo)
		sg.PropertyID, sg.house = p.id, p
		out = append(out, sg)
	}
	return out
}

// nearness says how well a suggestion fits what was typed: 0 from the start,
// 1 from the start of a word, 2 anywhere, -1 not at all.
func (sg *suggestion) nearness(key, atStart string) int {
	switch {
	case !strings.Contains(sg.keys, key):
		return -1
	case strings.Contains(sg.keys, atStart):
		return 0
	case strings.Contains(sg.words, atStart):
		return 1
	}
	return 2
}

const maxSuggestQuery = 100

func (s *Sim) suggest(c *call) (any, error) {
	var bad bff.FieldErrors
	q := c.URL.Query().Get("q")
	limit := c.number(&bad, "limit", 8, 1, 50)
	key := foldKey(q)
	bad.Check(utf8.RuneCountInString(q) <= maxSuggestQuery, "q", bff.FieldLength)
	bad.Check(q != "", "q", bff.FieldRequired)
	if err := refused(bad); err != nil {
		return nil, err
	}
	type found struct {
		*suggestion
		near int
	}
	var hits []found
	if key != "" {
		hidden := s.hidden(c.now)
		atStart := "\n" + key
		for _, sg := range s.data.places {
			near := sg.nearness(key, atStart)
			if near < 0 || sg.house != nil && slices.Contains(hidden, sg.house.tenant) {
				continue
			}
			hits = append(hits, found{sg, near})
		}
	}
	slices.SortFunc(hits, func(a, b found) int {
		return cmp.Or(
			cmp.Compare(a.near/2, b.near/2), // infix last
			cmp.Compare(a.rank, b.rank), cmp.Compare(a.near, b.near), cmp.Compare(b.weight, a.weight),
			cmp.Compare(a.Label.Values.En, b.Label.Values.En), cmp.Compare(a.PropertyID, b.PropertyID))
	})
	out := struct {
		Suggestions []*suggestion `json:"suggestions"`
	}{Suggestions: []*suggestion{}}
	for _, h := range hits[:min(limit, len(hits))] {
		out.Suggestions = append(out.Suggestions, h.suggestion)
	}
	return out, nil
}

// didYouMean finds a city whose name is one or two letters off.
func (s *Sim) didYouMean(name string) string {
	key := []rune(foldKey(name))
	if len(key) < 4 || len(key) > 40 {
		return ""
	}
	best, hint := 3, ""
	for i := range s.data.cities {
		c := &s.data.cities[i]
		for _, n := range c.spellings().all() {
			if d := editDistance(key, []rune(foldKey(n))); d > 0 && d < best {
				best, hint = d, c.names.En
			}
		}
	}
	return hint
}

func editDistance(a, b []rune) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i, ra := range a {
		diagonal := row[0]
		row[0] = i + 1
		for j, rb := range b {
			cost := diagonal
			if ra != rb {
				cost++
			}
			diagonal = row[j+1]
			row[j+1] = min(cost, row[j]+1, row[j+1]+1)
		}
	}
	return row[len(b)]
}

type facet struct {
	Key    string       `json:"key"`
	Label  Text         `json:"label"`
	Values []facetValue `json:"values"`
}

type facetValue struct {
	Value string `json:"value"`
	Label Text   `json:"label"`
	Count int    `json:"count"`
}

// counter counts values in the order in which they are declared.
type counter struct {
	facet
	at map[string]int
}

func newCounter(key string, label Names) *counter {
	return &counter{facet: facet{Key: key, Label: label.text(), Values: []facetValue{}}, at: map[string]int{}}
}

func (c *counter) add(value string, label Names, n int) { c.count(value, Spellings{Names: label}, n) }

func (c *counter) count(value string, label Spellings, n int) {
	i, ok := c.at[value]
	if !ok {
		i = len(c.Values)
		c.at[value] = i
		c.Values = append(c.Values, facetValue{Value: value, Label: label.text()})
	}
	c.Values[i].Count += n
}

func (s *Sim) facets(c *call) (any, error) {
	code, region := strings.ToUpper(c.URL.Query().Get("country")), c.URL.Query().Get("region")
	var bad bff.FieldErrors
	bad.Check(code != "", "country", bff.FieldRequired)
	bad.Check(len(region) <= maxPlaceName, "region", bff.FieldLength)
	if err := refused(bad); err != nil {
		return nil, err
	}
	if s.data.countries[code] == nil {
		return nil, notFound("country")
	}
	key := foldKey(region)
	hidden := s.hidden(c.now)

	kinds := newCounter("propertyType", Names{"Property type", "د ځای ډول", "نوع اقامتگاه"})
	for _, t := range s.data.types {
		kinds.count(t.code, Spellings{t.names, t.more}, 0)
	}
	stars := newCounter("starRating", Names{"Stars", "ستوري", "ستاره"})
	for n := 5; n >= 1; n-- {
		d := strconv.Itoa(n)
		stars.add(d, Names{d + " stars", d + " ستوري", d + " ستاره"}, 0)
	}
	cancel := newCounter("cancellationFlexibility", Names{"Cancellation", "لغوه", "لغو"})
	for i, n := range cancellations() {
		cancel.count(cancellationCodes[i], n, 0)
	}
	offers := newCounter("amenities", Names{"Amenities", "اسانتياوې", "امکانات"})
	for _, a := range s.data.amenities {
		offers.count(a.code, a.names, 0)
	}
	rating := newCounter("guestRatingMin", Names{"Guest rating", "د مېلمنو نمره", "امتیاز مهمانان"})
	for n := 9; n >= 6; n-- {
		d := strconv.Itoa(n)
		rating.add(d, Names{d + "+", d + "+", d + "+"}, 0)
	}
	town := newCounter("city", Names{"City", "ښار", "شهر"})
	hood := newCounter("neighbourhoods", Names{"Neighbourhood", "سيمه", "محله"})
	var names *Text
	for _, p := range s.data.properties {
		if p.country.code != code || key != "" && !slices.Contains(p.regionKeys, key) || slices.Contains(hidden, p.tenant) {
			continue
		}
		if key != "" {
			region, names = p.city.region.En, &p.city.texts[1] // as people write it, however it was asked for
		}
		kinds.add(s.data.types[p.kind].code, Names{}, 1)
		if p.stars > 0 {
			stars.Values[5-p.stars].Count++
		}
		cancel.Values[p.cancellation].Count++
		for i := range s.data.amenities {
			offers.Values[i].Count += int(p.amenities >> i & 1)
		}
		for n := 6; n <= 9 && p.ratingTenths >= n*10; n++ {
			rating.Values[9-n].Count++
		}
		town.count(p.city.names.En, p.city.spellings(), 1)
		hood.add(p.neighbourhood.En, p.neighbourhood, 1)
	}
	for _, byCount := range []*counter{town, hood} {
		slices.SortFunc(byCount.Values, func(a, b facetValue) int {
			return cmp.Or(cmp.Compare(b.Count, a.Count), cmp.Compare(a.Value, b.Value))
		})
	}
	out := struct {
		Country     string  `json:"country"`
		Region      string  `json:"region,omitempty"`
		RegionNames *Text   `json:"regionNames,omitempty"`
		Facets      []facet `json:"facets"`
	}{Country: code, Region: region, RegionNames: names}
	for _, f := range []*counter{kinds, stars, rating, cancel, offers, town, hood} {
		out.Facets = append(out.Facets, f.facet)
	}
	return out, nil
}
