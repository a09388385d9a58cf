package sim

import (
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"melmastoon.ghasi.io/bff"
)

func TestDatasetInvariants(t *testing.T) {
	t.Parallel()
	s := newFixture(t)
	ds := s.data
	if len(ds.tenants) < 300 || len(ds.properties) < 3000 {
		t.Fatalf("%d tenants, %d properties", len(ds.tenants), len(ds.properties))
	}
	if n := len(ds.byCity["kabul"]); n < 150 {
		t.Errorf("Kabul has %d properties", n)
	}
	small, largest := 0, 0
	slugs := map[string]bool{}
	for _, tn := range ds.tenants {
		largest = max(largest, len(tn.properties))
		if len(tn.properties) <= 5 {
			small++
		}
		if slugs[tn.slug] || len(tn.slug) > 40 {
			t.Errorf("slug %q twice or too long", tn.slug)
		}
		slugs[tn.slug] = true
		held := map[string]bool{}
		for _, o := range tn.operators {
			for _, r := range o.roles {
				held[r] = true
			}
			for _, p := range o.propertyScope {
				if p != "*" && ds.propertyByID[p].tenant != tn {
					t.Errorf("operator %s reaches into another tenant", o.id)
				}
			}
		}
		if len(held) != len(roles) {
			t.Errorf("tenant %s has roles %v", tn.id, held)
		}
	}
	if largest < 20 || largest > 40 || small*2 < len(ds.tenants) {
		t.Errorf("largest chain %d, small tenants %d of %d", largest, small, len(ds.tenants))
	}
	for _, p := range ds.properties {
		for _, n := range append(p.names.text().Values.sliced(), p.city.names.sliced()...) {
			if strings.TrimSpace(n) == "" {
				t.Fatalf("property %s lacks a name", p.id)
			}
		}
		if d := distanceKm(p.geo, p.city.centre); d > 16 {
			t.Errorf("%s lies %.1f km from %s", p.id, d, p.city.names.En)
		}
		if p.tenant == nil || p.tenant.country != p.country {
			t.Errorf("%s has no tenant of its country", p.id)
		}
		if _, err := bff.ParseID(bff.PrefixProperty, p.id); err != nil {
			t.Error(err)
		}
	}
	suspended := 0
	for _, tn := range s.Catalog().Tenants {
		if tn.Status == "suspended" {
			suspended++
		}
	}
	if suspended < 1 || suspended > 2 {
		t.Errorf("%d tenants start suspended", suspended)
	}
}

func (n Names) sliced() []string { a := n.all(); return a[:] }

func TestDatasetIsStable(t *testing.T) {
	t.Parallel()
	a := newFixture(t)
	b := newFixture(t, func(c *Config) { c.Now = func() time.Time { return testNow.AddDate(1, 2, 3) } })
	if !reflect.DeepEqual(a.Catalog(), b.Catalog()) { // cmp.Diff takes seconds for it
		t.Error("another day changes the catalog")
	}
	other := newFixture(t, func(c *Config) { c.Seed = 2 })
	if a.Catalog().Tenants[0].TenantID == other.Catalog().Tenants[0].TenantID {
		t.Error("another seed keeps the ids")
	}
	var got []string
	for _, tn := range a.data.tenants[:2] {
		got = append(got, tn.id+" "+tn.slug+" "+tn.properties[0].id+" "+tn.operators[0].id)
	}
	for _, p := range a.data.byCity["kabul"][:2] {
		got = append(got, fmt.Sprint(p.id, " ", p.names.En, " ", p.geo, " ", p.cell, " ", p.nightCents(20000, bff.DefaultOccupancy())))
	}
	want := []string{
		"tnt_01HDFRC5K84DK4RFPZG78JEGWR melma-2s ppt_01HB9TWQYR9878TW58J5VZ5M5K opt_01H38CJQQGXAB7ANXS38Q6B3QK",
		"tnt_01JT58B1X8R8MVDQ5TKRVT85K1 anar-2t ppt_01JVNVMA40N7KH5WK73RQ00VMG opt_01GP144RSRQMQP9WWXN3ZMPY4V",
		"ppt_01JXG9KMGRC638MD0V7C0ZPD0W Nasim Hotel Wazir Akbar Khan {34.470704 69.183653} h3:8a1952d32b25fff 5528",
		"ppt_01HC67M030CPTMJD5ZJVWCKS3C Ariana Hotel Makroyan {34.459622 69.129893} h3:8a1952432af8fff 5245",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("the data set moved (-want +got):\n%s", diff)
	}
}

func TestDatasetPricesAreWholeMinorUnits(t *testing.T) {
	t.Parallel()
	s := newFixture(t)
	party := bff.Occupancy{Adults: bff.MaxAdults, Children: bff.MaxChildren, Rooms: bff.MaxRooms}
	for _, p := range s.data.properties {
		for _, cur := range bff.Currencies() {
			m := convert(p.nightCents(20600, party), cur)
			got, err := bff.ParseMicros(micros(m))
			if err != nil || got != m || m.Minor <= 0 {
				t.Fatalf("%s %s: %v %v %v", p.id, cur, m, got, err)
			}
		}
	}
}

func TestFold(t *testing.T) {
	t.Parallel()
	for _, same := range [][]string{
		{"مزارشريف", "مزار شریف", "مزارشریف", "مَزار\u200cشَریف"},
		{"كابل", "کابل", "کـابل"},
		{"ګردېز", "گردیز", "گرديز"},
		{"جلال\u200cآباد", "جلال آباد", "جلال اباد", "جلالآباد"},
		{"Mazar-i-Sharif", "mazar i sharif", "MAZAR I SHARIF", "Mazār-i-Sharīf"},
		{"F-7", "f ۷", "F٧"},
		{"İstanbul", "istanbul"},
	} {
		for _, s := range same {
			if foldKey(s) != foldKey(same[0]) {
				t.Errorf("%q folds to %q, %q to %q", s, foldKey(s), same[0], foldKey(same[0]))
			}
		}
	}
	for _, s := range []string{"Mazar-i-Sharif  Hotel", " ولایت\u200c بلخ ۱۲ ", "- x -", ""} {
		if got := (folder{}).fold(s); got != fold(s) {
			t.Errorf("word by word %q folds to %q, not %q", s, got, fold(s))
		}
	}
	// The edge folds what a guest types before it asks: that must not hide a place.
	for _, c := range cities() {
		for _, n := range append(c.spellings().all(), c.region.sliced()...) {
			if foldKey(bff.FoldPlace(n)) != foldKey(n) {
				t.Errorf("%q is not found once the edge has folded it", n)
			}
		}
	}
}

func FuzzFold(f *testing.F) {
	f.Add("مزار\u200cشریف ۱۲ İstanbul-ﷺ")
	f.Fuzz(func(t *testing.T, s string) {
		once := fold(s)
		if twice := fold(once); strings.ReplaceAll(twice, " ", "") != strings.ReplaceAll(once, " ", "") {
			t.Errorf("fold(%q) = %q, again %q", s, once, twice)
		}
	})
}
