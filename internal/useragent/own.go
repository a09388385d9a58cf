package useragent

// rule is one pattern and what it means.
type rule struct {
	pattern  string
	name     string
	kind     Kind
	operator string
}

// Operator is a search engine that says how to tell its crawlers from liars.
type Operator struct {
	Name string
	// Domains are where its addresses resolve to, and back; empty if it publishes
	// address ranges only. A star stands for the rest of the first label: an operator
	// that rents machines out has names of customers beside those of its crawlers.
	Domains []string
}

// operators with the rules they publish.
func operators() []Operator {
	return []Operator{
		{Name: "google", Domains: []string{"crawl-*.googlebot.com", "geo-crawl-*.geo.googlebot.com", "rate-limited-proxy-*.google.com"}},
		{Name: "bing", Domains: []string{"search.msn.com"}},
		{Name: "apple", Domains: []string{"applebot.apple.com"}},
		{Name: "duckduckgo"},
		{Name: "yandex", Domains: []string{"yandex.ru", "yandex.net", "yandex.com"}},
		{Name: "baidu", Domains: []string{"crawl.baidu.com", "crawl.baidu.jp"}},
		{Name: "naver", Domains: []string{"naver.com"}},
		{Name: "seznam", Domains: []string{"seznam.cz"}},
		{Name: "petal", Domains: []string{"petalsearch.com", "aspiegel.com"}},
		{Name: "qwant", Domains: []string{"qwant.com"}},
		{Name: "sogou", Domains: []string{"crawl.sogou.com"}},
		{Name: "mailru", Domains: []string{"go.mail.ru"}},
		{Name: "yahoo", Domains: []string{"crawl.yahoo.net"}},
		{Name: "mojeek", Domains: []string{"mojeek.com"}},
		{Name: "amazon", Domains: []string{"crawl.amazonbot.amazon"}},
	}
}

// own are the patterns that the list lacks, or that need a better answer than its tags
// give. They come first.
func own() []rule {
	search := func(operator string, patterns ...string) (rules []rule) {
		for _, p := range patterns {
			rules = append(rules, rule{pattern: p, name: operator, kind: Search, operator: operator})
		}
		return rules
	}
	var rules []rule
	rules = append(rules, search("google", `Googlebot`, `AdsBot-Google`, `Mediapartners-Google`, `APIs-Google`,
		`GoogleOther`, `Google-InspectionTool`, `Storebot-Google`)...)
	rules = append(rules, search("bing", `bingbot`, `msnbot`, `[aA]didxbot`, `BingPreview/`)...)
	rules = append(rules, search("apple", `Applebot`)...)
	rules = append(rules, search("duckduckgo", `DuckDuckBot`, `DuckAssistBot`, `DuckDuckGo-Favicons-Bot`)...)
	rules = append(rules, search("yandex", `YandexBot/`, `yandex\.com/bots`, `YandexRenderResourcesBot/`)...)
	rules = append(rules, search("baidu", `Baiduspider`)...)
	rules = append(rules, search("naver", `Yeti/`, `NaverBot`)...)
	rules = append(rules, search("seznam", `SeznamBot`, `SeznamHomepageCrawler/`)...)
	rules = append(rules, search("petal", `PetalBot`, `AspiegelBot`)...)
	rules = append(rules, search("qwant", `Qwantify`, `Qwantbot`)...)
	rules = append(rules, search("sogou", `Sogou (web|inst|Pic|News|Video|Orion) ?[sS]pider`)...)
	rules = append(rules, search("mailru", `Mail\.RU_Bot`)...)
	rules = append(rules, search("yahoo", `Yahoo! Slurp`)...)
	rules = append(rules, search("mojeek", `MojeekBot/`)...)
	rules = append(rules, search("amazon", `Amazonbot`)...)

	for _, tool := range [][2]string{ // name, pattern
		{"headlessChrome", `HeadlessChrome`},
		{"phantomJS", `PhantomJS`},
		{"puppeteer", `[pP]uppeteer`},
		{"playwright", `[pP]laywright`},
		{"selenium", `[sS]elenium`},
		{"webdriver", `[wW]eb[dD]river`},
		{"cypress", `Cypress/`},
		{"slimerJS", `SlimerJS`},
		{"htmlUnit", `HtmlUnit`},
	} {
		rules = append(rules, rule{name: tool[0], pattern: tool[1], kind: Driven})
	}
	for _, tool := range [][2]string{
		{"curl", `(curl|libcurl)/`},
		{"wget", `[wW]get/`},
		{"python-requests", `python-requests`},
		{"python", `[pP]ython(-urllib|/|-httpx| aiohttp)`},
		{"scrapy", `Scrapy`},
		{"go-http-client", `Go-http-client`},
		{"okhttp", `^okhttp`},
		{"java", `^Java/`},
		{"apache-http", `^Apache-HttpClient`},
		{"jakarta", `^Jakarta`},
		{"dart", `^Dart/`},
		{"node", `^(node|node-fetch|undici|axios|got|superagent)\b`},
		{"postman", `PostmanRuntime`},
		{"insomnia", `^insomnia`},
		{"httpie", `^HTTPie`},
		{"perl", `(libwww-perl|lwp-|LWP::)`},
		{"php", `^(PHP|GuzzleHttp|Symfony HttpClient)`},
		{"ruby", `^(Ruby|Faraday|rest-client|http\.rb)`},
		{"rust", `^(reqwest|hyper|ureq)`},
		{"dotnet", `^(RestSharp|Microsoft\.NET)`},
		{"load-test", `^(k6/|wrk|hey/|[vV]egeta|ApacheBench|Apache-JMeter|Artillery|Locust|autocannon)`},
	} {
		rules = append(rules, rule{name: tool[0], pattern: tool[1], kind: Library})
	}
	return append(rules,
		rule{pattern: `^Viber`, name: "viber", kind: Preview},
		// A browser does not name an address for complaints.
		rule{pattern: `\+https?://`, name: "self-declared", kind: Crawler},
	)
}

// kindOf reads the list's tags. Its search engines are ordinary crawlers to us: without
// a rule to verify them, any client may claim to be one.
func kindOf(tags []string) Kind {
	kind := Crawler
	for _, tag := range tags {
		switch tag {
		case "browser-automation":
			return Driven
		case "http-library":
			return Library
		case "social-preview":
			kind = Preview
		}
	}
	return kind
}
