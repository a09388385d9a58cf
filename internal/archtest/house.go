package archtest

// House returns the import rule of this module.
//
// Inward to outward: language ← handoff ← domain ← adapters ← composition root
// ← command. Machinery stands beside the domain and does not know it.
func House() Rule {
	return Rule{
		Module: "melmastoon.ghasi.io/bff",
		Groups: []Group{
			{
				Name:       "language",
				Packages:   []string{"."},
				ThirdParty: []string{"golang.org/x/text", "github.com/oklog/ulid/v2"},
				Pure:       true,
			},
			{
				// The security kernel: other services import it, so it brings
				// them no dependency but the language.
				Name:     "handoff",
				Packages: []string{"handoff"},
				Imports:  []string{"language"},
				Pure:     true,
			},

			shared(rooms(service("consumer", "domain", []string{
				"internal/consumer", "internal/consumer/booking", "internal/consumer/bot", "internal/consumer/discovery", "internal/consumer/guest",
				"internal/consumer/hotel", "internal/consumer/telemetry",
			})), "internal/consumer/hotel"),
			// Root and fakes before the adapters, whose pattern would match them.
			{
				// The services behind a domain, played in memory; only tests import it.
				Name:     "consumer fakes",
				Packages: []string{"internal/consumer/consumertest"},
				Imports:  []string{"language", "handoff", "consumer domain"},
				Service:  "consumer",
			},
			service("consumer", "root", []string{"internal/consumer/consumerd"}),
			service("consumer", "adapters", []string{"internal/consumer/consumer*/..."}),
			service("consumer", "command", []string{"cmd/bff-consumer"}),

			rooms(service("backoffice", "domain", []string{
				"internal/backoffice", "internal/backoffice/action", "internal/backoffice/audit", "internal/backoffice/board", "internal/backoffice/device",
				"internal/backoffice/identity", "internal/backoffice/inbox", "internal/backoffice/lock", "internal/backoffice/stream",
			})),
			{
				Name:          "backoffice fakes",
				Packages:      []string{"internal/backoffice/backofficetest"},
				Imports:       []string{"language", "backoffice domain"},
				ThirdParty:    []string{"github.com/google/go-cmp"},
				TestLibraries: true,
				Service:       "backoffice",
			},
			also(service("backoffice", "root", []string{"internal/backoffice/backofficed"}), "backoffice lake", "backoffice warehouse"),
			// Jobs over the rows of every tenant: no request gets there, and so it may have
			// the pool of connections.
			{
				Name:       "backoffice lake",
				Packages:   []string{"internal/backoffice/backofficelake"},
				Imports:    []string{"language", "backoffice domain", "machinery", "migrations"},
				ThirdParty: []string{"*"},
				Service:    "backoffice",
			},
			{
				// Where the lake's files are and the warehouse they are loaded into, with the cloud's clients.
				Name:       "backoffice warehouse",
				Packages:   []string{"internal/backoffice/backofficewarehouse"},
				Imports:    []string{"backoffice lake"},
				ThirdParty: []string{"google.golang.org/api"},
				Service:    "backoffice",
			},
			isolated(service("backoffice", "adapters", []string{"internal/backoffice/backoffice*/..."})),
			service("backoffice", "command", []string{"cmd/bff-backoffice"}),

			{
				// Protocols and doors to the outside; no hotels.
				Name: "machinery",
				Packages: []string{
					"internal/accept/...",
					"internal/batch/...",
					"internal/cache/...",
					"internal/callers/...",
					"internal/challenge/...",
					"internal/useragent/...",
					"internal/daemon/...",
					"internal/doctor/...",
					"internal/dpop/...",
					"internal/http1/...",
					"internal/fairqueue/...",
					"internal/flags/...",
					"internal/idempotency/...",
					"internal/inbox/...",
					"internal/issuer/...",
					"internal/outbox/...",
					"internal/pause",
					"internal/postgres/...",
					"internal/pubsub/...",
					"internal/ratelimit/...",
					"internal/recaptcha/...",
					"internal/redis/...",
					"internal/secrets/...",
					"internal/jsonscan/...",
					"internal/loadshed/...",
					"internal/memo/...",
					"internal/service/...",
					"internal/sse/...",
					"internal/tracing/...",
					"internal/upstream/...",
					"internal/web/...",
					"internal/world",
				},
				Imports:    []string{"language", "machinery", "contracts", "migrations"},
				ThirdParty: []string{"*"},

				NamesNoService: true,
			},
			{
				Name:     "contracts",
				Packages: []string{"contracts/..."},
			},
			{
				Name:     "migrations",
				Packages: []string{"migrations/..."},
			},
			{
				// Stand-ins for the world outside, for one machine and for tests.
				Name:          "local",
				Packages:      []string{"internal/local/..."},
				Imports:       []string{"language", "handoff", "machinery", "contracts", "migrations", "local"},
				ThirdParty:    []string{"*"},
				TestLibraries: true,
			},
			{
				// Programs for other teams to copy: they see what those see.
				Name:     "examples",
				Packages: []string{"examples/..."},
				Imports:  []string{"language", "handoff", "examples"},
			},
			{
				// The client of the staff service, for tests and the command line.
				Name:       "desk",
				Packages:   []string{"internal/desk"},
				Imports:    []string{"language"},
				ThirdParty: []string{"github.com/lestrrat-go/jwx/v3"},
			},
			{
				Name:     "testkit",
				Packages: []string{"internal/testkit/..."},
				Imports: []string{
					"language", "handoff", "machinery", "contracts", "migrations", "local", "desk",
					"consumer domain", "consumer adapters", "consumer root",
					"backoffice domain", "backoffice adapters", "backoffice root",
				},
				ThirdParty:    []string{"*"},
				TestLibraries: true,
			},
			{
				Name:     "archtest",
				Packages: []string{"internal/archtest"},
			},
			{
				// Alert rules, held to the code by tests alone.
				Name:       "deploy",
				Packages:   []string{"deploy/..."},
				ThirdParty: []string{"go.yaml.in/yaml/v3"},
			},
			{
				// Attacks on a deployment of either service: no program that serves has them.
				Name:     "probe",
				Packages: []string{"internal/probe"},
				Imports: []string{
					"language", "handoff", "machinery",
					"consumer domain", "consumer adapters", "consumer root",
					"backoffice domain", "backoffice adapters", "backoffice root",
				},
				ThirdParty:    []string{"*"},
				TestLibraries: true,
			},
			{
				// Everything on one machine: the only program that sees both
				// services and the stand-ins.
				Name:     "melmastoon command",
				Packages: []string{"cmd/melmastoon"},
				Imports: []string{
					"language", "handoff", "machinery", "contracts", "migrations", "local", "desk", "examples", "probe", "deploy",
					"consumer domain", "consumer adapters", "consumer root",
					"backoffice domain", "backoffice adapters", "backoffice root",
				},
				ThirdParty:    []string{"*"},
				TestLibraries: true,
			},
		},

		// Planned packages. Take a line away when its package lands.
		NotYet: []string{},

		InTests: []string{"language", "handoff", "machinery", "contracts", "migrations", "local", "desk", "testkit"},

		// Fakes and fault injectors, one careless import away from production.
		TestLibraries: []string{
			"testing",
			"net/http/httptest",
			"cloud.google.com/go/pubsub/v2/pstest",
			"github.com/Shopify/toxiproxy/v2",
			"github.com/alicebob/miniredis/v2",
			"github.com/google/go-cmp",
			"go.uber.org/goleak",
			"pgregory.net/rapid",
		},

		Links: map[string][]string{
			"cmd/bff-consumer": {
				"backoffice domain", "backoffice adapters", "backoffice lake", "backoffice warehouse", "backoffice root", "local", "desk", "testkit", "probe",
			},
			"cmd/bff-backoffice": {"consumer domain", "consumer adapters", "consumer root", "local", "desk", "testkit", "probe"},
		},

		// The fast path can be switched off: nothing else may come to need it.
		OnlyFor: map[string][]string{"internal/http1": {"internal/daemon"}},

		// The anonymous service reads from five upstreams. A client for a sixth,
		// say one that writes bookings, would widen what a break-in can reach.
		Files: map[string][]string{
			"internal/consumer/consumerupstream": {"search", "pricing", "property", "theme", "tenant", "upstream"},
		},

		// The tenant of a transaction is set where the transaction begins; an attack sets another.
		OnlySaid: map[string][]string{"app.tenant_id": {"internal/postgres", "internal/probe", "internal/archtest"}},

		Unnamed: []string{"consumer", "backoffice"},
		Foreign: []string{"SpanKindConsumer"},
	}
}

// also lets a group import others.
func also(g Group, imports ...string) Group {
	g.Imports = append(g.Imports, imports...)
	return g
}

// rooms holds a domain to a kernel, its first package, and rooms around it that a reader
// gets through in a morning.
func rooms(g Group) Group {
	g.Rooms, g.MaxTypes = true, 45
	return g
}

// shared lets rooms import packages of nouns besides the kernel.
func shared(g Group, packages ...string) Group {
	g.Shared = packages
	return g
}

// isolated takes the pool of connections from a group: what is left to it is
// postgres.Tenants, which sends nothing without a tenant.
func isolated(g Group) Group {
	g.Refused = []string{"github.com/jackc/pgx/v5/pgxpool", "github.com/jackc/pgx/v5/stdlib", "database/sql"}
	return g
}

// service returns one layer of a service; both services obey the same rule.
func service(name, layer string, packages []string) Group {
	g := Group{Name: name + " " + layer, Packages: packages, Service: name}
	switch layer {
	case "domain":
		g.Imports = []string{"language", "handoff", name + " domain"}
		g.Pure = true
	case "adapters": // their own name is absent: an adapter imports no other
		g.Imports = []string{"language", "handoff", name + " domain", "machinery", "contracts", "migrations"}
		g.ThirdParty = []string{"*"}
	case "root":
		g.Imports = []string{"language", "handoff", name + " domain", name + " adapters", "machinery", "contracts", "migrations"}
		g.ThirdParty = []string{"*"}
	case "command": // wiring belongs to the root, where it can be tested and reused
		g.Imports = []string{name + " root"}
		g.ThirdParty = []string{"*"}
	}
	return g
}
