package reference

import (
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"

	"melmastoon.ghasi.io/bff"
	"melmastoon.ghasi.io/bff/contracts"
)

func get(t *testing.T, h http.Handler, path string) string {
	t.Helper()
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodGet, path, nil))
	if w.Code != http.StatusOK {
		t.Fatalf("GET %s: %d", path, w.Code)
	}
	return w.Body.String()
}

// Every operation has its call, every refusal links to pages that there are.
func TestReference(t *testing.T) {
	t.Parallel()
	mux := http.NewServeMux()
	mux.Handle("GET /errors/{$}", Errors())
	mux.Handle("GET /errors/{code}", Errors())
	for _, service := range []string{"consumer", "backoffice"} {
		api, err := API(service)
		if err != nil {
			t.Fatal(err)
		}
		mux.Handle("GET /reference/"+service, api)
		document := get(t, mux, "/reference/"+service)
		links := regexp.MustCompile(`\(/errors/([A-Z_.]+)\)`).FindAllString(document, -1)
		if len(links) < 20 {
			t.Errorf("%s: %d links to codes", service, len(links))
		}
		slices.Sort(links)
		for _, link := range slices.Compact(links) {
			get(t, mux, strings.Trim(link, "()"))
		}
		var shown yaml.Node
		if err := yaml.Unmarshal([]byte(document), &shown); err != nil {
			t.Fatal(err)
		}
		alone(t, &shown)
		if len(document) < len(contracts.OpenAPI(service)) {
			t.Errorf("%s: the contract has %d bytes, what is shown of it %d", service, len(contracts.OpenAPI(service)), len(document))
		}
	}
	for service, calls := range map[string][]string{
		"consumer":   {"await api.call('removeFromWishlist', { path: { propertyId } })", "await api.call('suggest', { query: { q } })"},
		"backoffice": {"await desk.call('arrivals')", "{ headers: { 'If-Match': '…' }, body })"},
	} {
		for _, call := range calls {
			// YAML doubles what it quotes with.
			if document := strings.ReplaceAll(get(t, mux, "/reference/"+service), "''", "'"); !strings.Contains(document, call) {
				t.Errorf("%s: %s is not shown", service, call)
			}
		}
	}
	list := get(t, mux, "/errors/")
	for _, info := range bff.Codes() {
		if !strings.Contains(list, string(info.Code)) || !strings.Contains(get(t, mux, "/errors/"+string(info.Code)), "What to do") {
			t.Errorf("%s: no page", info.Code)
		}
	}
	w := httptest.NewRecorder()
	mux.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/errors/NONSENSE", nil))
	if w.Code != http.StatusNotFound {
		t.Errorf("an unknown code: %d", w.Code)
	}
}

// alone fails if something stands beside a reference to a schema, where it is not shown.
func alone(t *testing.T, n *yaml.Node) {
	t.Helper()
	if ref := at(n, "$ref"); ref != nil && len(n.Content) > 2 && strings.Contains(ref.Value, "/schemas/") {
		t.Errorf("%s does not stand alone", ref.Value)
	}
	for _, c := range n.Content {
		alone(t, c)
	}
}

// An operation has one name, in the contract, in the client and on the page.
func TestOperationsAreCalledByTheirNames(t *testing.T) {
	t.Parallel()
	routes := regexp.MustCompile(`(?m)^  (\w+): \['([A-Z]+)', '([^']+)'\],$`)
	for name, client := range map[string]string{"consumer": "consumer/client.ts", "backoffice": "backoffice/routes.ts"} {
		source, err := os.ReadFile("../../../clients/typescript/" + client)
		if err != nil {
			t.Fatal(err)
		}
		want := map[string]string{}
		for _, m := range routes.FindAllStringSubmatch(string(source), -1) {
			want[m[1]] = m[2] + " " + m[3]
		}
		d, err := read(name, contracts.OpenAPI(name))
		if err != nil {
			t.Fatal(err)
		}
		got := map[string]string{}
		d.operations(func(method, path string, op *yaml.Node) {
			id := at(op, "operationId").Value
			if strings.Contains(d.call(op, nil), ".call('"+id+"'") {
				got[id] = method + " " + path
			}
		})
		if !maps.Equal(got, want) {
			t.Errorf("%s: the reference calls %v, the client has %v", name, got, want)
		}
	}
}
