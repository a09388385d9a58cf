package sim

import (
	"melmastoon.ghasi.io/bff"
)

// cast are the operators that can be called by name: one of every role at a
// chain, two at a small owner, one who works for both, one at a suspended
// tenant, and a manager each in Iran and Tajikistan.
type cast []*person

type person struct {
	username, name, id string
	tenants            []*tenant
}

func (c cast) find(username string) *person {
	for _, p := range c {
		if p.username == username && username != "" {
			return p
		}
	}
	return nil
}

// chainCast are the people of the chain, in the order of their roles.
var chainCast = [...]person{
	{username: "hamida", name: "Hamida Barakzai"},
	{username: "mirwais", name: "Mirwais Popal"},
	{username: "parwana", name: "Parwana Wardak"},
	{username: "shukria", name: "Shukria Azizi"},
	{username: "nadia", name: "Nadia Karimi"},
	{username: "idris", name: "Idris Balkhi"},
	{username: "farid", name: "Farid Noori"},
	{username: "zarghuna", name: "Zarghuna Stanikzai"},
	{username: "yalda", name: "Yalda Ahmadi"},
}

// castOperators gives names to operators of five tenants.
func (ds *dataset) castOperators() {
	chain, small, suspended := ds.tenants[0], ds.firstTenant(3), ds.firstTenant(suspendedHouses)
	name := func(t *tenant, at int, p person) {
		p.id, p.tenants = t.operators[at].id, []*tenant{t}
		t.operators[at].displayName = p.name
		ds.cast = append(ds.cast, &p)
	}
	for i, p := range chainCast {
		name(chain, i, p)
	}
	name(small, 1, person{username: "karim", name: "Karim Yusufzai"})
	name(small, 2, person{username: "laila", name: "Laila Haidari"})
	name(suspended, 2, person{username: "tariq", name: "Tariq Mohmand"})
	// Other countries have another day for some hours of each.
	name(ds.firstIn("IR"), 1, person{username: "mahin", name: "Mahin Rostami"})
	name(ds.firstIn("TJ"), 1, person{username: "firuz", name: "Firuz Rahimov"})

	both := &person{username: "bahram", name: "Bahram Sadat", tenants: []*tenant{chain, small}}
	both.id = derivedID(bff.PrefixOperator, ds.seed, kindOperator, hashString(both.username))
	chain.hire(&operator{both.id, both.name, []string{"front_desk"}, []string{chain.properties[1].id}})
	small.hire(&operator{both.id, both.name, []string{"general_manager"}, []string{"*"}})
	ds.cast = append(ds.cast, both)
}

// firstTenant finds the first with so many houses.
func (ds *dataset) firstTenant(houses int) *tenant {
	for _, t := range ds.tenants {
		if len(t.properties) == houses {
			return t
		}
	}
	return ds.tenants[len(ds.tenants)-1]
}

// firstIn finds the first with a few houses, and those in a country.
func (ds *dataset) firstIn(country string) *tenant {
	for _, t := range ds.tenants[1:] {
		if len(t.properties) > 1 && len(t.properties) != suspendedHouses && t.properties[0].country.code == country {
			return t
		}
	}
	return ds.tenants[len(ds.tenants)-1]
}

func (t *tenant) hire(o *operator) {
	t.operators = append(t.operators, o)
	t.operator[o.id] = o
}

// CastOperator is an operator that can sign in by name.
type CastOperator struct {
	Username    string       `json:"username"`
	DisplayName string       `json:"displayName"`
	OperatorID  string       `json:"operatorId"`
	Locked      bool         `json:"locked,omitempty"`
	Memberships []Membership `json:"memberships"`
}

// Membership is what an operator is at one tenant.
type Membership struct {
	TenantID      string   `json:"tenantId"`
	TenantSlug    string   `json:"tenantSlug"`
	TenantName    string   `json:"tenantName"`
	TenantStatus  string   `json:"tenantStatus"`
	Roles         []string `json:"roles"`
	PropertyScope []string `json:"propertyScope"`
}

// Cast lists the operators that can sign in by name.
func (s *Sim) Cast() []CastOperator {
	out := make([]CastOperator, 0, len(s.data.cast))
	for _, p := range s.data.cast {
		s.iam.mu.Lock()
		locked := s.iam.locked[p.id]
		s.iam.mu.Unlock()
		out = append(out, CastOperator{p.username, p.name, p.id, locked, s.memberships(p.id)})
	}
	return out
}
