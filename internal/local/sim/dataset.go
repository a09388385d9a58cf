package sim

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"melmastoon.ghasi.io/bff"
)

// dataset is everything that never changes while the simulator runs.
type dataset struct {
	seed       uint64
	countries  map[string]*country
	cities     []city
	amenities  []amenity
	types      []propertyType
	words      []Names
	texts      folder // while the data set is built
	tenants    []*tenant
	cast       cast
	properties []*property // in the order of recommendation

	tenantByID   map[string]*tenant
	propertyByID map[string]*property
	byIndex      []*property
	byCity       map[string][]*property // by folded name in any language, in the order of recommendation
	byRegion     map[string][]*property
	places       []*suggestion
	listed       Catalog // without its tenants, whose status changes
}

type tenant struct {
	id, slug   string
	names      Names
	country    *country
	color      string
	version    string
	properties []*property
	operators  []*operator
	operator   map[string]*operator
}

type operator struct {
	id            string
	displayName   string
	roles         []string
	propertyScope []string
}

type property struct {
	index         int
	seed          uint64
	id            string
	tenant        *tenant
	city          *city
	country       *country
	names         Names
	neighbourhood Names
	geo           Point
	cell          string
	kind          int // index of propertyTypes
	stars         int // 0: none
	ratingTenths  int // 0: none
	ratingCount   int
	amenities     uint32 // bit per amenity
	cancellation  int    // index of cancellations
	sharia        bool
	listedAt      time.Time
	baseCents     int64
	rooms         int
	roomTypes     int
	score         int
	ratePlanID    string
	regionKeys    []string
	hoodKeys      []string
}

// brandColors all stand out on white.
var brandColors = [...]string{
	"#1a7f5a", "#0f5e9c", "#8a1c3b", "#6b3fa0", "#b3541e", "#2d6a4f", "#7a5c00", "#14746f",
	"#a4243b", "#31572c", "#3d348b", "#9c27b0", "#005f73", "#7f4f24", "#455a64", "#c2185b",
}

// built are the data sets of this process by what they follow from: simulators only
// read them, and a test process has many.
var built sync.Map // of origin → func() (*dataset, error)

type origin struct {
	seed  uint64
	today bff.Date
}

func sharedData(seed uint64, today bff.Date) (*dataset, error) {
	data, _ := built.LoadOrStore(origin{seed, today}, sync.OnceValues(func() (*dataset, error) { return build(seed, today) }))
	return data.(func() (*dataset, error))() //nolint:forcetypeassert // ours
}

// build makes the data set. It reads the clock only to date the youngest
// listings: ids, names, places and prices are the same on any day.
func build(seed uint64, today bff.Date) (*dataset, error) {
	ds := &dataset{
		seed: seed, cities: cities(), amenities: amenities(), types: propertyTypes(), words: brandWords(), texts: folder{},
		countries: map[string]*country{}, tenantByID: map[string]*tenant{}, propertyByID: map[string]*property{},
		byCity: map[string][]*property{}, byRegion: map[string][]*property{},
	}
	all := countries()
	for i := range all {
		ds.countries[all[i].code] = &all[i]
	}
	for i := range all {
		ds.addCountry(&all[i], i, today)
	}
	for i, p := range ds.properties {
		if ds.propertyByID[p.id] != nil {
			return nil, errors.New("build data set: two properties with one id")
		}
		ds.propertyByID[p.id] = p
		p.index = i
	}
	ds.byIndex = slices.Clone(ds.properties)
	for _, t := range ds.tenants {
		if ds.tenantByID[t.id] != nil {
			return nil, errors.New("build data set: two tenants with one id")
		}
		ds.tenantByID[t.id] = t
		ds.addOperators(t)
	}
	ds.castOperators()
	slices.SortFunc(ds.properties, func(a, b *property) int {
		return cmp.Or(cmp.Compare(b.score, a.score), cmp.Compare(a.id, b.id))
	})
	ds.index()
	ds.list()
	return ds, nil
}

// addCountry lays out a country's houses and cuts them into tenants: a third
// of them belong to chains that span cities, the rest to small owners.
func (ds *dataset) addCountry(c *country, number int, today bff.Date) {
	var slots []*property
	for ci := range ds.cities {
		if ds.cities[ci].country != c.code {
			continue
		}
		used := map[string]bool{}
		for n := range ds.cities[ci].properties {
			slots = append(slots, ds.newProperty(c, ci, n, used, today))
		}
	}
	chained := slices.Clone(slots)
	rnd := stream{mix(ds.seed, kindShuffle, uint64(number))} //nolint:gosec // a small index
	for i := len(chained) - 1; i > 0; i-- {
		j := rnd.below(i + 1)
		chained[i], chained[j] = chained[j], chained[i]
	}
	chained = chained[:len(chained)*35/100]
	for len(chained) > 0 {
		size := rnd.between(8, 18)
		if rnd.chance(25) {
			size = rnd.between(24, 40)
		}
		size = min(size, len(chained))
		ds.addTenant(c, number, &rnd, chained[:size])
		chained = chained[size:]
	}
	var run []*property
	want := rnd.between(1, 5)
	for _, p := range slots {
		if p.tenant != nil {
			continue
		}
		if len(run) > 0 && (len(run) == want || run[0].city != p.city) {
			ds.addTenant(c, number, &rnd, run)
			run, want = nil, rnd.between(1, 5)
		}
		run = append(run, p)
	}
	if len(run) > 0 {
		ds.addTenant(c, number, &rnd, run)
	}
	ds.properties = append(ds.properties, slots...)
}

// geoCell names the square of about 130 m that holds a point in the form of an H3 cell of resolution 10. The consumer service takes a cell's
// name for a tag and never for a place, so the platform's hexagons are not computed.
func geoCell(p Point) string {
	const degrees = 0.0012
	return fmt.Sprintf("h3:8a%05x%05xfff", int((p.Lat+90)/degrees), int((p.Lng+180)/degrees))
}

func (ds *dataset) addTenant(c *country, number int, rnd *stream, houses []*property) {
	n := uint64(len(ds.tenants))
	word := ds.words[rnd.below(len(ds.words))]
	suffix := Names{"House", "کور", "خانه"}
	if len(houses) >= 8 {
		suffix = Names{"Hospitality Group", "مېلمه پالنې ډله", "گروه مهمان\u200cنوازی"}
	}
	t := &tenant{
		id:      derivedID(bff.PrefixTenant, ds.seed, kindTenant, uint64(number), n), //nolint:gosec // a small index
		names:   Names{word.En + " " + suffix.En, word.Ps + " " + suffix.Ps, suffix.Fa + " " + word.Fa},
		country: c,
		color:   brandColors[rnd.below(len(brandColors))],
		version: derivedID(bff.PrefixThemeVersion, ds.seed, kindThemeVersion, n),
		slug:    strings.ReplaceAll(strings.ToLower(word.En), " ", "-") + "-" + strconv.FormatUint(n+100, 36),
	}
	for _, p := range houses {
		p.tenant = t
		if len(houses) >= 8 { // a chain's houses carry its word
			p.rename(word, &ds.types[p.kind])
		}
	}
	t.properties = slices.Clone(houses)
	ds.tenants = append(ds.tenants, t)
}

func (p *property) rename(word Names, typ *propertyType) {
	fa := typ.names.Fa
	if p.country.code == "IR" {
		fa = typ.iran
	}
	p.names = Names{
		En: word.En + " " + typ.names.En + " " + p.neighbourhood.En,
		Ps: word.Ps + " " + typ.names.Ps + " " + p.neighbourhood.Ps,
		Fa: fa + " " + word.Fa + " " + p.neighbourhood.Fa,
	}
}

func (ds *dataset) newProperty(c *country, ci, n int, used map[string]bool, today bff.Date) *property {
	at := &ds.cities[ci]
	// The city's name, not its place in the list, enters the seed: a city
	// added later changes no other house.
	seed := mix(ds.seed, kindProperty, hashString(at.names.En), uint64(n)) //nolint:gosec // a small index
	rnd := stream{seed}
	p := &property{
		seed: seed, city: at, country: c,
		id:         derivedID(bff.PrefixProperty, seed, kindProperty),
		ratePlanID: derivedID(bff.PrefixRatePlan, seed, kindRatePlan),
	}
	hoods := at.neighbourhoods
	if hoods == nil {
		hoods = plainNeighbourhoods()
	}
	p.neighbourhood = hoods[rnd.below(len(hoods))]
	for roll := rnd.next() % 100; ; p.kind++ {
		share := ds.types[p.kind].share
		if roll < share {
			break
		}
		roll -= share
	}
	for {
		p.rename(ds.words[rnd.below(len(ds.words))], &ds.types[p.kind])
		if !used[p.names.En] || len(used) > len(ds.words)*len(hoods)/2 {
			break
		}
	}
	used[p.names.En] = true

	// Houses lie within about 9 km of the centre of a big city, 4 km of a small one.
	radius := 4.0
	if at.properties >= 80 {
		radius = 9
	}
	p.geo = Point{
		Lat: round6(at.centre.Lat + rnd.spread()*radius/kmPerDegree),
		Lng: round6(at.centre.Lng + rnd.spread()*radius/kmPerDegree/math.Cos(at.centre.Lat*math.Pi/180)),
	}
	p.cell = geoCell(p.geo)

	factor := int64(100)
	switch ds.types[p.kind].code {
	case "hotel":
		p.stars = 1 + []int{0, 1, 1, 2, 2, 2, 2, 3, 3, 4}[rnd.below(10)]
		factor = []int64{60, 76, 100, 165, 290}[p.stars-1]
	case "guesthouse":
		factor = 68
	case "apartment":
		factor = 92
	case "hostel":
		factor = 34
	}
	p.baseCents = c.baseCents * factor / 100 * int64(rnd.between(78, 126)) / 100

	isNew := rnd.chance(4)
	age := rnd.between(60, 1000)
	if isNew {
		age = rnd.between(1, 25)
	}
	p.listedAt = (today - bff.Date(age)).Time().Add(time.Duration(rnd.below(86400)) * time.Second) //nolint:gosec // at most 1000 days
	if !isNew || rnd.chance(40) {
		p.ratingTenths = min(98, 58+p.stars*2+rnd.between(0, 32))
		p.ratingCount = rnd.between(3, 900)
		if isNew {
			p.ratingCount = rnd.between(1, 9)
		}
	}
	luxury := uint64(max(0, p.stars-2)) * 14
	for i, a := range ds.amenities {
		share := a.share + luxury
		if c.code == "TR" || c.code == "DE" || c.code == "GB" || c.code == "AT" || c.code == "FR" {
			switch a.category {
			case "faith":
				share /= 2
			case "safety":
				share = 6
			}
		}
		if rnd.chance(min(share, 98)) {
			p.amenities |= 1 << i
		}
	}
	p.cancellation = []int{0, 0, 0, 0, 1, 1, 1, 2, 2, 2}[rnd.below(10)]
	p.sharia = rnd.chance(map[bool]uint64{true: 46, false: 12}[c.fxBarred == ""])
	p.rooms = 6 + rnd.below(20) + p.stars*rnd.between(2, 14)
	p.roomTypes = 3 + rnd.below(2)
	p.score = p.ratingTenths*10 + min(p.ratingCount, 400)/4 + rnd.below(160)
	for _, n := range p.neighbourhood.all() {
		p.hoodKeys = append(p.hoodKeys, ds.texts.key(n))
	}
	return p
}

// roles of the staff service, in the order in which a tenant hires.
var roles = [...]string{
	"owner", "general_manager", "front_desk", "housekeeping_lead", "housekeeper", "maintenance", "fnb_manager", "finance",
}

func (ds *dataset) addOperators(t *tenant) {
	names := people()
	rnd := stream{mix(ds.seed, kindStaff, hashString(t.id))}
	t.operator = map[string]*operator{}
	add := func(scope []string, roles ...string) {
		t.hire(&operator{
			id:          derivedID(bff.PrefixOperator, ds.seed, kindOperator, hashString(t.id), uint64(len(t.operators))),
			displayName: names[rnd.below(len(names))], roles: roles, propertyScope: scope,
		})
	}
	for i, role := range roles {
		switch role {
		case "owner", "general_manager", "finance":
			add([]string{"*"}, role)
		default:
			add([]string{t.properties[i%len(t.properties)].id}, role)
		}
	}
	if len(t.properties) >= 3 { // one who covers two houses and two jobs
		add([]string{t.properties[0].id, t.properties[1].id}, "front_desk", "housekeeping_lead")
	}
}

// index fills the lookups that make a search cost microseconds.
func (ds *dataset) index() {
	keys := map[*city][]string{}
	regions := map[*city][]string{}
	for i := range ds.cities {
		c := &ds.cities[i]
		for _, n := range slices.Concat(c.aliases, c.spellings().all()) {
			if k := foldKey(n); !slices.Contains(keys[c], k) {
				keys[c] = append(keys[c], k)
			}
		}
		for _, n := range c.region.all() {
			if k := foldKey(n); !slices.Contains(regions[c], k) {
				regions[c] = append(regions[c], k)
			}
		}
	}
	for _, p := range ds.properties {
		p.regionKeys = regions[p.city]
		for _, k := range keys[p.city] {
			ds.byCity[k] = append(ds.byCity[k], p)
		}
		for _, k := range regions[p.city] {
			ds.byRegion[k] = append(ds.byRegion[k], p)
		}
	}
	ds.places = ds.suggestions()
	ds.texts = nil
}

func hashString(s string) uint64 {
	h := uint64(14695981039346656037) // FNV-1a
	for i := range len(s) {
		h = (h ^ uint64(s[i])) * 1099511628211
	}
	return h
}

func round6(f float64) float64 { return math.Round(f*1e6) / 1e6 }

const (
	earthKm     = 6371.0088
	kmPerDegree = 111.195
)

// distanceKm is the great-circle distance.
func distanceKm(a, b Point) float64 {
	const rad = math.Pi / 180
	sLat, sLng := math.Sin((b.Lat-a.Lat)*rad/2), math.Sin((b.Lng-a.Lng)*rad/2)
	h := sLat*sLat + math.Cos(a.Lat*rad)*math.Cos(b.Lat*rad)*sLng*sLng
	return 2 * earthKm * math.Asin(math.Min(1, math.Sqrt(h)))
}
