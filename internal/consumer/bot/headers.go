package bot

import (
	"strconv"
	"strings"
)

// Headers is what a request's headers give away about the program that sent
// it. Absent headers are empty.
type Headers struct {
	UserAgent      string
	Accept         string
	AcceptLanguage string
	Brands         string // Sec-CH-UA
	Mobile         string // Sec-CH-UA-Mobile
	Platform       string // Sec-CH-UA-Platform
	FetchMode      string // Sec-Fetch-Mode
	FetchSite      string // Sec-Fetch-Site
	// Hints of scripts, by which browsers are told apart; they are no sign of a bot.
	Screen, Timezone string
}

// UserAgentKind is what a user agent claims to be.
type UserAgentKind string

// The kinds there are.
const (
	KindPerson  UserAgentKind = "person"
	KindEmpty   UserAgentKind = "empty"
	KindSearch  UserAgentKind = "search"
	KindPreview UserAgentKind = "preview"
	KindDriven  UserAgentKind = "driven"
	KindLibrary UserAgentKind = "library"
	KindRobot   UserAgentKind = "crawler"
)

// HeaderSigns reads the headers of a user agent of a kind; name is the pattern
// that matched it. Only what a browser always does counts against a client that
// claims to be it: privacy browsers, text browsers, old telephones and proxies
// leave out a lot. Driven is the weight of the sign that a program drives the
// browser, which no solved challenge takes off.
func (p *Policy) HeaderSigns(h Headers, kind UserAgentKind, name string) (signals []Signal, driven float64) {
	add := func(kind, sign, detail string) {
		if s := p.signal(kind, sign, detail); s.Weight > 0 {
			signals = append(signals, s)
			if sign == signDriven {
				driven = s.Weight
			}
		}
	}
	switch kind {
	case KindEmpty:
		add(SignalUserAgent, signEmpty, "empty")
	case KindSearch:
		add(SignalUserAgent, signUnproven, name)
	case KindPreview:
		add(SignalUserAgent, signPreview, name)
	case KindDriven:
		add(SignalUserAgent, signDriven, name)
	case KindLibrary:
		add(SignalUserAgent, signLibrary, name)
	case KindRobot:
		add(SignalUserAgent, signRobot, name)
	case KindPerson:
		if strings.Contains(h.Brands, "HeadlessChrome") {
			add(SignalUserAgent, signDriven, "headlessChrome")
		}
		if malformed(h.UserAgent) {
			add(SignalUserAgent, signMalformed, "malformed")
		}
		switch detail := contradiction(h); {
		case detail != "":
			add(SignalHeaders, signOtherHints, detail)
		case expectsHints(h.UserAgent) && h.Brands == "" && h.FetchMode == "" && h.FetchSite == "":
			add(SignalHeaders, signNoHints, "no-client-hints")
		case expectsHints(h.UserAgent) && (h.Brands == "" || h.FetchMode == ""):
			add(SignalHeaders, signFewHints, "few-client-hints")
		}
	}
	if h.AcceptLanguage == "" {
		add(SignalHeaders, signNoLanguage, "no-accept-language")
	}
	if h.Accept == "" {
		add(SignalHeaders, signNoAccept, "no-accept")
	}
	return signals, driven
}

// malformed reports slips that only people who write scripts make.
func malformed(ua string) bool {
	trimmed := strings.TrimSpace(ua)
	return trimmed == "Mozilla/5.0" || trimmed == "Mozilla" ||
		strings.HasPrefix(ua, "User-Agent:") || strings.HasPrefix(ua, "user-agent:") ||
		strings.HasPrefix(ua, `"`) || strings.HasPrefix(ua, "'") ||
		strings.Count(ua, "Mozilla/5.0 (") > 1 ||
		strings.HasPrefix(ua, "Mozilla/5.0 (") && !strings.Contains(ua, ")")
}

// hintsSince is the version since which Chromium sends client hints and fetch
// metadata on every secure request, with a margin for forks that lag behind.
const hintsSince = 95

// quiet marks builds of Chromium that leave headers out: inside apps, on
// televisions and consoles, behind data savers.
var quiet = []string{
	"; wv)", "Version/4.0", "FBAN", "FBAV", "Instagram", "Tizen", "Web0S", "SMART-TV", "SmartTV", "Smart TV", "HbbTV", "NetCast", "CrKey", "AFT",
	"BRAVIA", "PlayStation", "Xbox", "Nintendo", "UCBrowser", "UCWEB", "OPR/", "OPX/", "MiuiBrowser", "HuaweiBrowser", "VivoBrowser", "HeyTapBrowser",
	"DuckDuckGo/", "Silk/", "Puffin/", "Electron/", "QtWebEngine", "MQQBrowser", "MicroMessenger", "YaBrowser", "Whale/", "Vivaldi", "Iron", "Ddg/", "Focus/", "Klar/",
}

// expectsHints reports whether a user agent is of a browser that always sends
// client hints.
func expectsHints(ua string) bool {
	if chromium(ua) < hintsSince {
		return false
	}
	for _, q := range quiet {
		if strings.Contains(ua, q) {
			return false
		}
	}
	return true
}

// chromium is the major version of Chromium that a user agent names; 0 if none.
func chromium(ua string) int {
	_, rest, ok := strings.Cut(ua, " Chrome/")
	if !ok {
		return 0
	}
	return major(rest)
}

func major(s string) int {
	end := 0
	for end < len(s) && end < 4 && s[end] >= '0' && s[end] <= '9' {
		end++
	}
	n, err := strconv.Atoi(s[:end])
	if err != nil {
		return 0
	}
	return n
}

// contradiction says what the client hints say that the user agent does not.
func contradiction(h Headers) string {
	if h.Brands == "" {
		return ""
	}
	version := chromium(h.UserAgent)
	if version == 0 {
		if strings.Contains(h.UserAgent, "Firefox/") || strings.Contains(h.UserAgent, "Version/") && strings.Contains(h.UserAgent, "Safari/") {
			return "hints-of-another-browser"
		}
		return ""
	}
	if _, rest, ok := strings.Cut(h.Brands, `"Chromium";v="`); ok {
		if v := major(rest); v != 0 && v != version {
			return "hints-of-another-version"
		}
	}
	if !platformFits(strings.Trim(h.Platform, `"`), h.UserAgent) {
		return "hints-of-another-platform"
	}
	// "Request desktop site" turns both; only a script turns one.
	if h.Mobile == "?1" && !strings.Contains(h.UserAgent, "Mobile") && !strings.Contains(h.UserAgent, "Android") {
		return "hints-of-a-telephone"
	}
	return ""
}

func platformFits(platform, ua string) bool {
	var wants []string
	switch platform {
	case "Windows":
		wants = []string{"Windows"}
	case "macOS":
		wants = []string{"Macintosh"}
	case "Linux", "Android": // desktop mode on a telephone says either
		wants = []string{"Linux", "X11", "Android"}
	case "Chrome OS", "Chromium OS":
		wants = []string{"CrOS", "X11"}
	default:
		return true
	}
	for _, w := range wants {
		if strings.Contains(ua, w) {
			return true
		}
	}
	return false
}
