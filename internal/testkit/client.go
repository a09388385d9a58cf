package testkit

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
)

// CheckClientRoutes compares the tables routes and once in a file of the TypeScript client
// with the operations that are described below a base, but for those that the client has
// methods of its own for, or must not call. Key is the header of an operation that happens
// once however often it is sent.
func CheckClientRoutes(t *testing.T, api *OpenAPI, name, base, key string, without ...string) {
	t.Helper()
	source, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	var routes, once strings.Builder
	for _, op := range api.Operations() {
		method, path, _ := strings.Cut(op.Pattern, " ")
		path, below := strings.CutPrefix(path, base)
		if !below || slices.Contains(without, op.ID) {
			continue
		}
		fmt.Fprintf(&routes, "  %s: ['%s', '%s'],\n", op.ID, method, path)
		if slices.Contains(op.Headers, key) {
			fmt.Fprintf(&once, "  %s: true,\n", op.ID)
		}
	}
	text := string(source)
	for table, rows := range map[string]string{"routes": routes.String(), "once": once.String()} {
		before, rest, ok1 := strings.Cut(text, "const "+table+" = {\n")
		_, after, ok2 := strings.Cut(rest, "} as const")
		if !ok1 || !ok2 {
			t.Fatalf("%s has no table %s", name, table)
		}
		text = before + "const " + table + " = {\n" + rows + "} as const" + after
	}
	CheckFile(t, name, text)
}
