package consumerhttp

import (
	"encoding/json"
	"maps"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"go.yaml.in/yaml/v3"

	"melmastoon.ghasi.io/bff/contracts"
	"melmastoon.ghasi.io/bff/internal/consumer"
	"melmastoon.ghasi.io/bff/internal/consumer/telemetry"
	"melmastoon.ghasi.io/bff/internal/local/sim"
	"melmastoon.ghasi.io/bff/internal/testkit"
	"melmastoon.ghasi.io/bff/internal/web"
)

// filterSamples has a value of every filter.
var filterSamples = map[string]string{
	"priceRange":              `{"min":20,"max":80,"currency":"USD"}`,
	"amenities":               `["free-wifi"]`,
	"starRating":              `[3]`,
	"guestRatingMin":          `7.5`,
	"propertyType":            `["hotel"]`,
	"cancellationFlexibility": `"free"`,
	"neighbourhoods":          `["Shahr-e Naw"]`,
}

// membersOf are the JSON names of a struct's fields, those of structs that it
// points to by path.
func membersOf(t reflect.Type) []string {
	var out []string
	for f := range t.Fields() {
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		out = append(out, name)
		if f.Type.Kind() == reflect.Pointer && f.Type.Elem().Kind() == reflect.Struct {
			for _, inner := range membersOf(f.Type.Elem()) {
				out = append(out, name+"."+inner)
			}
		}
	}
	slices.Sort(out)
	return out
}

// schemaMembers are the members of an object's schema, like membersOf.
func schemaMembers(schema map[string]any) []string {
	var out []string
	properties, _ := schema["properties"].(map[string]any)
	for name, p := range properties {
		out = append(out, name)
		inner, _ := p.(map[string]any)
		for _, m := range schemaMembers(inner) {
			out = append(out, name+"."+m)
		}
	}
	slices.Sort(out)
	return out
}

// TestFilters compares consumer.Filters with every other place that knows the
// filters.
func TestFilters(t *testing.T) {
	t.Parallel()
	want := membersOf(reflect.TypeFor[consumer.Filters]())
	same := func(where string, got []string) {
		t.Helper()
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s (-consumer.Filters +got):\n%s", where, diff)
		}
	}
	read := func(body string) consumer.Filters {
		t.Helper()
		in, err := web.ParseText(t.Context(), body)
		if err != nil {
			t.Fatal(err)
		}
		f := readFilters(in)
		if err := in.Err(); err != nil {
			t.Fatalf("%s: %v", body, err)
		}
		return f
	}

	same("the simulator's Filters", membersOf(reflect.TypeFor[sim.Filters]()))

	var document struct {
		Components struct {
			Schemas map[string]map[string]any
		}
	}
	if err := yaml.Unmarshal(contracts.OpenAPI("consumer"), &document); err != nil {
		t.Fatal(err)
	}
	same("OpenAPI", schemaMembers(document.Components.Schemas["Filters"]))

	all, err := json.Marshal(rawMembers(filterSamples))
	if err != nil {
		t.Fatal(err)
	}
	var asked testkit.Asked
	in, err := web.ParseText(web.WithAsked(t.Context(), asked.Add), string(all))
	if err != nil {
		t.Fatal(err)
	}
	readFilters(in)
	same("readFilters", asked.Paths())

	same("docs/upstreams.md", documentedFilters(t))

	for f := range reflect.TypeFor[consumer.Filters]().Fields() {
		name, options, _ := strings.Cut(f.Tag.Get("json"), ",")
		if options != "omitempty" {
			t.Errorf("%s: without omitempty a filter changes the name of every query", name)
		}
		sample, ok := filterSamples[name]
		if !ok {
			t.Errorf("filterSamples has no %s", name)
			continue
		}
		filters := read(`{"` + name + `":` + sample + `}`)
		if reflect.ValueOf(filters).FieldByIndex(f.Index).IsZero() {
			t.Errorf("readFilters drops %s", name)
		}
		query := consumer.SearchQuery{Filters: filters}.Ask()
		if query.What == (consumer.SearchQuery{}).Ask().What {
			t.Errorf("%s does not change the name of a query", name)
		}
		if keys := telemetry.NewSearchExecuted(query, consumer.GuestSession{}, telemetry.SearchOutcome{ResultCount: 1}).FilterKeys; len(keys) != 1 {
			t.Errorf("telemetry calls %s %q, want one key", name, keys)
		}
	}
}

func rawMembers(in map[string]string) map[string]json.RawMessage {
	out := map[string]json.RawMessage{}
	for name, raw := range in {
		out[name] = json.RawMessage(raw)
	}
	return out
}

// documentedFilters are the members of the filters in the documented request.
func documentedFilters(t *testing.T) []string {
	t.Helper()
	page, err := os.ReadFile("../../../docs/upstreams.md")
	if err != nil {
		t.Fatal(err)
	}
	_, rest, ok := strings.Cut(string(page), `"filters":`)
	if !ok {
		t.Fatal("docs/upstreams.md documents no filters")
	}
	var documented map[string]any
	if err := json.NewDecoder(strings.NewReader(rest)).Decode(&documented); err != nil {
		t.Fatal(err)
	}
	var out []string
	for name, value := range documented {
		out = append(out, name)
		if inner, ok := value.(map[string]any); ok {
			for m := range maps.Keys(inner) {
				out = append(out, name+"."+m)
			}
		}
	}
	slices.Sort(out)
	return out
}
