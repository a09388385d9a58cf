package discovery

// Rung is a step of the brownout ladder: under load the service sheds parts of
// its answers in a fixed order, and says so.
type Rung int

// The ladder. Each rung sheds its part and those of all rungs below.
const (
	RungNone       Rung = iota
	RungCampaign        // longer list lifetimes, nothing is missing
	RungSimilar         // similar hotels
	RungPopularity      // popularity signals
	RungBrand           // brand peeks
	RungMapPrice        // the price of the map's cursor pin
	RungListPrice       // prices in lists
)

// Names of the rungs, as X-Brownout announces them.
var rungNames = [...]string{"none", "campaign", "similar", "popularity", "brand", "map-price", "list-price"}

func (r Rung) String() string {
	if r < 0 || int(r) >= len(rungNames) {
		return rungNames[0]
	}
	return rungNames[r]
}

// ParseRung reads a rung's name.
func ParseRung(s string) (Rung, bool) {
	for i, n := range rungNames {
		if n == s {
			return Rung(i), true
		}
	}
	return RungNone, false
}
