package useragent

// Kind is what a user agent claims to be.
type Kind uint8

const (
	// Person means: nothing is known against it.
	Person Kind = iota
	// Empty means: no user agent at all. No browser sends that.
	Empty
	// Search means: a search engine whose claim can be verified; see [Verifier].
	Search
	// Preview means: fetches a shared page to show what it is about.
	Preview
	// Driven means: a browser that a program drives, and says so.
	Driven
	// Library means: an HTTP library, as scripts and integrators use them.
	Library
	// Crawler means: any other known robot.
	Crawler
)

func (k Kind) String() string {
	return [...]string{"person", "empty", "search", "preview", "driven", "library", "crawler"}[k]
}

// Class is the userAgentClass of telemetry (EVENT_SCHEMAS §3.1).
type Class string

// The classes there are.
const (
	BrowserDesktop Class = "browser-desktop"
	BrowserMobile  Class = "browser-mobile"
	App            Class = "app"
	Bot            Class = "bot"
	Unknown        Class = "unknown"
)

// Verdict is what a user agent gives away.
type Verdict struct {
	Kind  Kind
	Class Class
	// Name says which pattern spoke: the detail of an ua-pattern signal. Empty for
	// persons.
	Name string
	// Operator names the search engine whose claim it is.
	Operator string
}
