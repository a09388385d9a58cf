package testkit

import (
	"maps"
	"slices"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

// Sends fails the test for members of answers that no client has met: what nothing sends is
// described in vain. Conditional has, by a reason, those that need more than a walk through the
// operations, separated by spaces; each has to be described.
func (c *OpenAPI) Sends(conditional map[string]string) {
	c.t.Helper()
	described, unsent := c.unsent()
	for reason, members := range conditional {
		for member := range strings.FieldsSeq(members) {
			if unsent = slices.DeleteFunc(unsent, func(m string) bool { return m == member }); !described[member] {
				c.t.Errorf("%s (%s) is not described", member, reason)
			}
		}
	}
	for _, member := range unsent {
		c.t.Errorf("%s is described, and no answer has it", member)
	}
}

func (c *OpenAPI) unsent() (map[string]bool, []string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	described, walked := map[string]bool{}, map[*jsonschema.Schema]bool{}
	var walk func(s *jsonschema.Schema)
	walk = func(s *jsonschema.Schema) {
		if s == nil || walked[s] {
			return
		}
		walked[s] = true
		for name, p := range s.Properties {
			described[memberOf(s, name)] = true
			walk(p)
		}
		for _, below := range slices.Concat(s.AllOf, s.AnyOf, s.OneOf, []*jsonschema.Schema{s.Ref, s.Items2020}) {
			walk(below)
		}
	}
	for _, op := range c.doc.operations {
		for status, a := range op.answers {
			if !c.seen[op.id+" "+status] { // which Unseen says
				continue
			}
			for _, s := range a.content {
				walk(s)
			}
		}
	}
	return described, slices.DeleteFunc(slices.Sorted(maps.Keys(described)), func(member string) bool { return c.sent[member] })
}

// memberOf names a member of a schema, such as "ListingCard/badges".
func memberOf(s *jsonschema.Schema, name string) string {
	_, at, _ := strings.Cut(s.Location, "#/")
	return strings.NewReplacer("components/schemas/", "", "properties/", "", "paths/", "").Replace(at + "/" + name)
}

// met keeps which members of a schema a body has.
func (c *OpenAPI) met(s *jsonschema.Schema, body any) {
	if s == nil {
		return
	}
	switch v := body.(type) {
	case map[string]any:
		for name, p := range s.Properties {
			if member, ok := v[name]; ok {
				c.sent[memberOf(s, name)] = true
				c.met(p, member)
			}
		}
	case []any:
		for _, item := range v {
			c.met(s.Items2020, item)
		}
	}
	c.met(s.Ref, body)
	for _, below := range s.AllOf {
		c.met(below, body)
	}
	for _, below := range slices.Concat(s.AnyOf, s.OneOf) {
		if below.Validate(body) == nil {
			c.met(below, body)
		}
	}
}
