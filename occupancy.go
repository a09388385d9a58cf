package bff

import "strconv"

// Bounds of a party. They are generous for guests and small enough that one
// request cannot make an upstream price an army.
const (
	MaxAdults   = 30
	MaxChildren = 20
	MaxRooms    = 15
	MaxChildAge = 17
)

// Occupancy is who travels.
type Occupancy struct {
	Adults       int   `json:"adults"`
	Children     int   `json:"children"`
	Rooms        int   `json:"rooms"`
	ChildrenAges []int `json:"childrenAges,omitempty"`
}

// DefaultOccupancy is what a page shows before a guest has chosen.
func DefaultOccupancy() Occupancy { return Occupancy{Adults: 2, Rooms: 1} }

// Validate reports every broken invariant of the party.
func (o Occupancy) Validate() FieldErrors {
	var bad FieldErrors
	bad.Check(o.Adults >= 1 && o.Adults <= MaxAdults, "adults", FieldRange)
	bad.Check(o.Children >= 0 && o.Children <= MaxChildren, "children", FieldRange)
	bad.Check(o.Rooms >= 1 && o.Rooms <= MaxRooms, "rooms", FieldRange)
	if o.ChildrenAges != nil {
		bad.Check(len(o.ChildrenAges) == o.Children, "childrenAges", FieldCount)
		for i, age := range o.ChildrenAges {
			if i == MaxChildren {
				break
			}
			bad.Check(age >= 0 && age <= MaxChildAge, "childrenAges["+strconv.Itoa(i)+"]", FieldRange)
		}
	}
	return bad
}
