package archtest

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"testing/fstest"
)

// sound is a small tree with every layer and no breach. Each case of the tests
// below breaks it in one place.
func sound() map[string]string {
	const bff = "melmastoon.ghasi.io/bff"
	return map[string]string{
		"go.mod":                        "module " + bff,
		"bff.go":                        source("errors", "golang.org/x/text/language", "github.com/oklog/ulid/v2"),
		"handoff/token.go":              source("crypto/hmac", bff),
		"internal/consumer/consumer.go": source("context", "net/url", "log/slog", bff, bff+"/handoff"),
		"internal/consumer/consumer_test.go": source("testing", "os", "net/http",
			bff+"/internal/consumer/consumerstore", bff+"/internal/testkit"),
		"internal/consumer/hotel/hotel.go":             source(bff + "/internal/consumer"),
		"internal/consumer/booking/booking.go":         source(bff+"/internal/consumer", bff+"/internal/consumer/hotel"),
		"internal/consumer/consumerhttp/search.go":     source("net/http", bff+"/internal/consumer", bff+"/internal/web"),
		"internal/consumer/consumerstore/session.go":   source(bff+"/internal/redis", bff+"/internal/consumer/consumerstore/lua"),
		"internal/consumer/consumerstore/lua/lua.go":   source("embed"),
		"internal/consumer/consumerupstream/search.go": source("net/http", bff+"/internal/consumer"),
		"internal/consumer/consumerd/consumerd.go": source(bff+"/internal/consumer", bff+"/internal/consumer/consumerhttp",
			bff+"/internal/consumer/consumerstore", bff+"/internal/consumer/consumerupstream", bff+"/internal/redis"),
		"cmd/bff-consumer/main.go":                       source("os", bff+"/internal/consumer/consumerd"),
		"internal/backoffice/backoffice.go":              source(bff),
		"internal/backoffice/lock/lock.go":               source(bff + "/internal/backoffice"),
		"internal/backoffice/lock/lock_test.go":          source(bff + "/internal/backoffice/inbox"),
		"internal/backoffice/inbox/inbox.go":             source(bff + "/internal/backoffice"),
		"internal/backoffice/backofficehttp/http.go":     source(bff+"/internal/backoffice", bff+"/internal/backoffice/lock", bff+"/internal/web"),
		"internal/backoffice/backofficed/backofficed.go": source(bff + "/internal/backoffice/backofficehttp"),
		"cmd/bff-backoffice/main.go":                     source(bff + "/internal/backoffice/backofficed"),
		"internal/web/web.go":                            source("net/http", bff, bff+"/contracts"),
		"internal/http1/http1.go":                        source("net"),
		"internal/daemon/daemon.go":                      source(bff + "/internal/http1"),
		"internal/web/web_test.go":                       source("testing", bff+"/internal/http1") + "var consumer = \"backoffice\"\n",
		"internal/redis/redis.go":                        source("github.com/redis/rueidis", bff+"/internal/web"),
		"contracts/contracts.go":                         source("embed"),
		"migrations/migrations.go":                       source("embed"),
		"internal/local/stack/stack.go":                  source("os/exec", bff+"/migrations"),
		"internal/local/sim/sim.go":                      source("net/http/httptest"),
		"internal/testkit/world.go":                      source("testing", bff+"/internal/local/stack"),
		"internal/archtest/doc.go":                       source("go/parser"),
		"cmd/melmastoon/main.go": source(
			bff+"/internal/consumer/consumerd", bff+"/internal/backoffice/backofficed", bff+"/internal/local/stack",
		),
		"web/node_modules/x/x.go":                          "not Go at all",
		"internal/web/testdata/bad.go":                     "not Go at all",
		"tools/go.mod":                                     "module " + bff + "/tools",
		"tools/tools.go":                                   source(bff + "/internal/testkit"),
		"internal/consumer/consumerhttp/.hidden/hidden.go": "not Go at all",
	}
}

func source(imports ...string) string {
	var b strings.Builder
	b.WriteString("package p\n")
	for _, path := range imports {
		b.WriteString("import _ \"" + path + "\"\n")
	}
	return b.String()
}

// types declares exported types.
func types(n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, "\tT%d int\n", i)
	}
	return b.String()
}

// house is the rule of the house for a tree in which anything may be missing.
func house() Rule {
	rule := House()
	rule.NotYet = nil
	for _, g := range rule.Groups {
		rule.NotYet = append(rule.NotYet, g.Packages...)
	}
	return rule
}

func breaches(t *testing.T, rule Rule, files map[string]string) []string {
	t.Helper()
	fsys := fstest.MapFS{}
	for name, src := range files {
		fsys[name] = &fstest.MapFile{Data: []byte(src)}
	}
	tree, err := Load(fsys)
	if err != nil {
		t.Fatal(err)
	}
	return rule.Check(tree)
}

func TestSoundTreeHasNoBreach(t *testing.T) {
	t.Parallel()

	for _, breach := range breaches(t, house(), sound()) {
		t.Error(breach)
	}
}

func TestBreachIsFound(t *testing.T) {
	t.Parallel()

	const bff = "melmastoon.ghasi.io/bff"
	tests := []struct {
		name string
		path string
		src  string
		want string // start of the only breach
	}{
		{"language takes a dependency", "id.go", source("github.com/google/uuid"), "id.go:2: language imports github.com/google/uuid:"},
		{"language looks outward", "id.go", source(bff + "/internal/web"), "id.go:2: language imports " + bff + "/internal/web:"},
		{"language reads the clock", "id.go", "package p\nimport \"time\"\nvar now = time.Now\n", "id.go:3: language mentions time.Now:"},
		{"handoff takes a dependency", "handoff/jwt.go", source("github.com/lestrrat-go/jwx/v3/jwt"), "handoff/jwt.go:2: handoff imports"},
		{"handoff looks outward", "handoff/keys.go", source(bff + "/internal/redis"), "handoff/keys.go:2: handoff imports"},
		{"handoff opens connections", "handoff/keys.go", source("net/http"), "handoff/keys.go:2: handoff imports net/http: pure"},
		{"domain opens connections", "internal/consumer/x.go", source("net/http"), "internal/consumer/x.go:2: consumer domain imports net/http: pure"},
		{"domain resolves names", "internal/consumer/x.go", source("net"), "internal/consumer/x.go:2: consumer domain imports net: pure"},
		{"domain reads files", "internal/consumer/x.go", source("os"), "internal/consumer/x.go:2: consumer domain imports os: pure"},
		{"domain walks files", "internal/backoffice/x.go", source("io/fs"), "internal/backoffice/x.go:2: backoffice domain imports io/fs: pure"},
		{
			"domain takes a dependency", "internal/consumer/x.go", source("github.com/redis/rueidis"),
			"internal/consumer/x.go:2: consumer domain imports github.com/redis/rueidis: third-party",
		},
		{"domain knows machinery", "internal/consumer/x.go", source(bff + "/internal/redis"), "internal/consumer/x.go:2: consumer domain imports"},
		{"domain knows its adapter", "internal/consumer/x.go", source(bff + "/internal/consumer/consumerhttp"), "internal/consumer/x.go:2: consumer domain imports"},
		{"domain knows the other domain", "internal/consumer/x.go", source(bff + "/internal/backoffice"), "internal/consumer/x.go:2: consumer domain imports"},
		{
			"domain reads the clock", "internal/consumer/x.go", "package p\nimport \"time\"\nvar now = time.Now\n",
			"internal/consumer/x.go:3: consumer domain mentions time.Now:",
		},
		{
			"domain reads a renamed clock", "internal/consumer/x.go", "package p\nimport stdtime \"time\"\nfunc f(t stdtime.Time) { _ = stdtime.Since(t) }\n",
			"internal/consumer/x.go:3: consumer domain mentions time.Since:",
		},
		{
			"domain waits", "internal/backoffice/x.go", "package p\nimport \"time\"\nfunc f() { <-time.After(1) }\n",
			"internal/backoffice/x.go:3: backoffice domain mentions time.After:",
		},
		{
			"domain hides the clock", "internal/consumer/x.go", "package p\nimport . \"time\"\n",
			"internal/consumer/x.go:2: consumer domain mentions import . \"time\":",
		},
		{
			"breach behind a build tag", "internal/consumer/x.go", "//go:build never\n\npackage p\nimport \"os\"\n",
			"internal/consumer/x.go:4: consumer domain imports os",
		},
		{
			"a room knows another room", "internal/backoffice/lock/x.go", source(bff + "/internal/backoffice/inbox"),
			"internal/backoffice/lock/x.go:2: backoffice domain imports " + bff + "/internal/backoffice/inbox: a room imports the kernel alone",
		},
		{
			"the kernel knows a room", "internal/backoffice/x.go", source(bff + "/internal/backoffice/inbox"),
			"internal/backoffice/x.go:2: backoffice domain imports " + bff + "/internal/backoffice/inbox: a room imports the kernel alone",
		},
		{
			"shared nouns know a room", "internal/consumer/hotel/x.go", source(bff + "/internal/consumer/booking"),
			"internal/consumer/hotel/x.go:2: consumer domain imports " + bff + "/internal/consumer/booking: a room imports the kernel alone",
		},
		{
			"the kernel knows shared nouns", "internal/consumer/x.go", source(bff + "/internal/consumer/hotel"),
			"internal/consumer/x.go:2: consumer domain imports " + bff + "/internal/consumer/hotel: a room imports the kernel alone",
		},
		{"a room is a hall", "internal/backoffice/lock/x.go", "package p\ntype (\n" + types(46) + ")\n", "internal/backoffice/lock: 46 exported types, at most 45"},
		{
			"adapter knows another adapter", "internal/consumer/consumerhttp/x.go", source(bff + "/internal/consumer/consumerstore"),
			"internal/consumer/consumerhttp/x.go:2: consumer adapters imports",
		},
		{
			"adapter knows the other service", "internal/consumer/consumerhttp/x.go", source(bff + "/internal/backoffice"),
			"internal/consumer/consumerhttp/x.go:2: consumer adapters imports",
		},
		{
			"adapter knows its root", "internal/consumer/consumerhttp/x.go", source(bff + "/internal/consumer/consumerd"),
			"internal/consumer/consumerhttp/x.go:2: consumer adapters imports",
		},
		{
			"adapter's test knows the other service", "internal/consumer/consumerhttp/x_test.go", source(bff + "/internal/backoffice"),
			"internal/consumer/consumerhttp/x_test.go:2: consumer adapters imports",
		},
		{
			"root starts local servers", "internal/backoffice/backofficed/x.go", source(bff + "/internal/local/sim"),
			"internal/backoffice/backofficed/x.go:2: backoffice root imports",
		},
		{"command wires by itself", "cmd/bff-consumer/x.go", source(bff + "/internal/consumer/consumerhttp"), "cmd/bff-consumer/x.go:2: consumer command imports"},
		{"command of everything takes testkit", "cmd/melmastoon/x.go", source(bff + "/internal/testkit"), "cmd/melmastoon/x.go:2: melmastoon command imports"},
		{"machinery knows a domain", "internal/web/x.go", source(bff + "/internal/consumer"), "internal/web/x.go:2: machinery imports"},
		{"machinery knows an adapter", "internal/redis/x.go", source(bff + "/internal/consumer/consumerstore"), "internal/redis/x.go:2: machinery imports"},
		{"machinery's test knows a domain", "internal/web/x_test.go", source(bff + "/internal/consumer"), "internal/web/x_test.go:2: machinery imports"},
		{"machinery takes testkit", "internal/web/x.go", source(bff + "/internal/testkit"), "internal/web/x.go:2: machinery imports"},
		{
			"production takes a fake", "internal/redis/x.go", source("github.com/alicebob/miniredis/v2"),
			"internal/redis/x.go:2: machinery imports github.com/alicebob/miniredis/v2: only tests",
		},
		{"production takes testing", "internal/web/x.go", source("testing"), "internal/web/x.go:2: machinery imports testing: only tests"},
		{"local knows a service", "internal/local/sim/x.go", source(bff + "/internal/consumer"), "internal/local/sim/x.go:2: local imports"},
		{"contracts take a dependency", "contracts/x.go", source(bff), "contracts/x.go:2: contracts imports"},
		{"cgo", "internal/web/x.go", source("C"), "internal/web/x.go:2: machinery imports C: the house builds without cgo"},
		{"package in no group", "internal/util/util.go", source(), "internal/util: package is in no group"},
		{
			"import of no package", "internal/web/x.go", source(bff + "/internal/gone"),
			"internal/web/x.go:2: machinery imports " + bff + "/internal/gone: there is no such package",
		},
		{
			"a sixth upstream", "internal/consumer/consumerupstream/booking.go", source(),
			"internal/consumer/consumerupstream/booking.go: internal/consumer/consumerupstream holds files about search, pricing,",
		},
		{
			"a sixth upstream in parts", "internal/consumer/consumerupstream/booking_wire.go", source(),
			"internal/consumer/consumerupstream/booking_wire.go: internal/consumer/consumerupstream holds",
		},
		{
			"a sixth upstream below", "internal/consumer/consumerupstream/payment/search.go", source(),
			"internal/consumer/consumerupstream/payment/search.go: internal/consumer/consumerupstream holds",
		},
		{
			"machinery names a service", "internal/web/x.go", "package p\n// For the consumer service.\ntype ConsumerConfig struct{}\n",
			"internal/web/x.go:3: machinery says ConsumerConfig:",
		},
		{
			"machinery names a service's table", "internal/web/x.go", "package p\nconst q = `SELECT 1 FROM bff_backoffice.outbox`\n",
			"internal/web/x.go:2: machinery says `SELECT 1 FROM bff_backoffice.outbox`:",
		},
		{
			"the fast path is not for everyone", "internal/redis/x.go", source(bff + "/internal/http1"),
			"internal/redis/x.go:2: machinery imports " + bff + "/internal/http1: only for internal/daemon",
		},
		{
			"an isolated adapter takes the pool", "internal/backoffice/backofficehttp/x.go", source("github.com/jackc/pgx/v5/pgxpool"),
			"internal/backoffice/backofficehttp/x.go:2: backoffice adapters imports github.com/jackc/pgx/v5/pgxpool: refused",
		},
		{
			"an isolated adapter opens a database", "internal/backoffice/backofficehttp/x.go", source("database/sql"),
			"internal/backoffice/backofficehttp/x.go:2: backoffice adapters imports database/sql: refused",
		},
		{
			"a tenant is set elsewhere", "internal/backoffice/backofficehttp/x.go", "package p\nconst q = `SET LOCAL app.tenant_id = 1`\n",
			"internal/backoffice/backofficehttp/x.go:2: app.tenant_id is only for internal/postgres,",
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()

			files := sound()
			files[tt.path] = tt.src
			rule := house()
			rule.Links = nil // would report some of these a second time
			got := breaches(t, rule, files)
			if len(got) != 1 || !strings.HasPrefix(got[0], tt.want) {
				t.Errorf("got breaches %q, want one that starts with %q", got, tt.want)
			}
		})
	}
}

// The layers forbid every way to link a stranger in; the closure catches it
// even where a layer was loosened.
func TestLinkFollowsImportsOfImports(t *testing.T) {
	t.Parallel()

	const bff = "melmastoon.ghasi.io/bff"
	rule := house()
	for i := range rule.Groups {
		if g := &rule.Groups[i]; g.Name == "machinery" {
			g.Imports = append(g.Imports, "backoffice domain", "local")
		}
	}
	files := sound()
	files["internal/web/x.go"] = source(bff+"/internal/backoffice", bff+"/internal/local/sim")
	files["internal/web/x_test.go"] = source(bff + "/internal/testkit") // not linked

	const chain = "cmd/bff-consumer → internal/consumer/consumerd → internal/consumer/consumerhttp → internal/web → "
	want := []string{
		"cmd/bff-backoffice: links local: cmd/bff-backoffice → internal/backoffice/backofficed → internal/backoffice/backofficehttp → internal/web → internal/local/sim",
		"cmd/bff-consumer: links backoffice domain: " + chain + "internal/backoffice",
		"cmd/bff-consumer: links local: " + chain + "internal/local/sim",
	}
	if got := breaches(t, rule, files); !slices.Equal(got, want) {
		t.Errorf("got breaches\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

func TestPatternWithoutPackageIsFound(t *testing.T) {
	t.Parallel()

	rule := house()
	rule.NotYet = slices.DeleteFunc(rule.NotYet, func(pattern string) bool {
		return pattern == "handoff" || pattern == "internal/consumer/consumer*/..."
	})
	rule.NotYet = append(rule.NotYet, "internal/nowhere")
	files := sound()
	maps.DeleteFunc(files, func(name, _ string) bool {
		// consumerd also matches consumer*, and must not stand for an adapter.
		return strings.HasPrefix(name, "handoff/") || strings.HasPrefix(name, "internal/consumer/") || name == "cmd/bff-consumer/main.go" ||
			name == "cmd/melmastoon/main.go"
	})
	files["internal/consumer/consumerd/consumerd.go"] = source()

	want := []string{
		"handoff: handoff names a package that does not exist",
		"internal/consumer/consumer*/...: consumer adapters names a package that does not exist",
		"internal/nowhere: expected, but in no group of the import rule",
	}
	if got := breaches(t, rule, files); !slices.Equal(got, want) {
		t.Errorf("got breaches\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

func TestMatch(t *testing.T) {
	t.Parallel()

	tests := []struct {
		pattern, dir string
		want         bool
	}{
		{".", ".", true},
		{".", "handoff", false},
		{"handoff", "handoff", true},
		{"handoff", "handoff/x", false},
		{"internal/web/...", "internal/web", true},
		{"internal/web/...", "internal/web/sse/x", true},
		{"internal/web/...", "internal/webs", false},
		{"internal/web/...", "internal", false},
		{"internal/consumer/consumer*/...", "internal/consumer/consumerhttp", true},
		{"internal/consumer/consumer*/...", "internal/consumer/consumerhttp/x", true},
		{"internal/consumer/consumer*/...", "internal/consumer", false},
		{"internal/consumer/consumer*/...", "internal/consumer/bots", false},
	}
	for _, tt := range tests {
		if got := match(tt.pattern, tt.dir); got != tt.want {
			t.Errorf("match(%q, %q) = %t, want %t", tt.pattern, tt.dir, got, tt.want)
		}
	}
}
