package bff_test

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"

	bff "melmastoon.ghasi.io/bff"
)

func TestOccupancy(t *testing.T) {
	t.Parallel()
	ages := func(n, age int) []int {
		a := make([]int, n)
		for i := range a {
			a[i] = age
		}
		return a
	}
	tests := []struct {
		name string
		in   bff.Occupancy
		want []string
	}{
		{"default", bff.DefaultOccupancy(), nil},
		{"smallest", bff.Occupancy{Adults: 1, Rooms: 1}, nil},
		{"largest", bff.Occupancy{Adults: 30, Children: 20, Rooms: 15, ChildrenAges: ages(20, 17)}, nil},
		{"children without ages", bff.Occupancy{Adults: 1, Children: 2, Rooms: 1}, nil},
		{"infants", bff.Occupancy{Adults: 1, Children: 2, Rooms: 1, ChildrenAges: ages(2, 0)}, nil},
		{"no children, no ages", bff.Occupancy{Adults: 1, Rooms: 1, ChildrenAges: []int{}}, nil},
		{"zero", bff.Occupancy{}, []string{"adults range", "rooms range"}},
		{"negative", bff.Occupancy{Adults: -1, Children: -1, Rooms: -1}, []string{"adults range", "children range", "rooms range"}},
		{"an army", bff.Occupancy{Adults: 31, Children: 21, Rooms: 16}, []string{"adults range", "children range", "rooms range"}},
		{"too few ages", bff.Occupancy{Adults: 1, Children: 2, Rooms: 1, ChildrenAges: ages(1, 5)}, []string{"childrenAges count"}},
		{"too many ages", bff.Occupancy{Adults: 1, Children: 1, Rooms: 1, ChildrenAges: ages(2, 5)}, []string{"childrenAges count"}},
		{"empty ages", bff.Occupancy{Adults: 1, Children: 1, Rooms: 1, ChildrenAges: []int{}}, []string{"childrenAges count"}},
		{"a grown-up child", bff.Occupancy{Adults: 1, Children: 2, Rooms: 1, ChildrenAges: []int{17, 18}}, []string{"childrenAges[1] range"}},
		{"an unborn child", bff.Occupancy{Adults: 1, Children: 1, Rooms: 1, ChildrenAges: []int{-1}}, []string{"childrenAges[0] range"}},
		{"more rooms than adults", bff.Occupancy{Adults: 1, Rooms: 2}, nil},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			var got []string
			for _, f := range tt.in.Validate() {
				got = append(got, f.Field+" "+f.Code)
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
	// A hostile list must not make an answer as long as itself.
	hostile := bff.Occupancy{Adults: 1, Children: 1, Rooms: 1, ChildrenAges: ages(100_000, 99)}
	if got := len(hostile.Validate()); got > bff.MaxChildren+1 {
		t.Error(fmt.Sprint(got) + " field errors for one hostile list")
	}
}
