package bot

// How many are unlike people, in a minute.
const (
	crowdFrom      = 30  // sessions of one fingerprint on one network
	floodFrom      = 20  // new sessions of a network
	cookielessFrom = 100 // requests of a network without a cookie
)

// Crowd is how many sessions one fingerprint has on one network. Carriers put
// hundreds of people behind one address, and many of them have the same
// telephone: a crowd says little.
type Crowd struct {
	sessions sketch
	merged   int // of all instances, at some time
	mergedAt int64
}

// Count adds a request of a session.
func (c *Crowd) Count(nowMS int64, session uint64) { c.sessions.add(nowMS, crowdWindow, session) }

// Merge takes in how many sessions all instances have seen in the last minute.
func (c *Crowd) Merge(nowMS int64, sessions int) { c.merged, c.mergedAt = sessions, nowMS }

// Crowded returns what the sessions of a crowd weigh.
func (p *Policy) Crowded(c *Crowd, nowMS int64) Sign {
	n := c.sessions.count(nowMS, crowdWindow)
	if nowMS-c.mergedAt < crowdWindow {
		n = max(n, c.merged)
	}
	if n < crowdFrom {
		return Sign{Count: n}
	}
	return Sign{p.Weights[signCrowd], n}
}

// Network is how a network treats cookies. People get one with their first
// answer and bring it back; a program that rotates everything else still has an
// address, and either brings none or makes them up.
type Network struct {
	without, with window // requests
	fresh         window // sessions that this instance had not seen
	genuine       window // of those, the ones that we opened
	invented      window // and the others
	failed        window // solutions that were wrong
	opened        window // sessions that were opened
	logged        window // verdicts on its clients
}

// Log counts a verdict that is to be logged and returns how many there were in the
// last minute.
func (n *Network) Log(nowMS int64) int {
	n.logged.add(nowMS, cookieWindow, 1)
	return n.logged.count(nowMS, cookieWindow)
}

// Fail counts a wrong solution, whichever client of the network sent it.
func (n *Network) Fail(nowMS int64) { n.failed.add(nowMS, offenceWindow, 1) }

// Failures returns how many wrong solutions there were lately.
func (n *Network) Failures(nowMS int64) int { return n.failed.count(nowMS, offenceWindow) }

// Open counts a session that was opened.
func (n *Network) Open(nowMS int64) { n.opened.add(nowMS, cookieWindow, 1) }

// Opened returns how many sessions were opened in the last minute.
func (n *Network) Opened(nowMS int64) int { return n.opened.count(nowMS, cookieWindow) }

// Count adds a request with or without a session.
func (n *Network) Count(nowMS int64, session bool) {
	if session {
		n.with.add(nowMS, cookieWindow, 1)
		return
	}
	n.without.add(nowMS, cookieWindow, 1)
}

// Fresh counts a session that was not seen before.
func (n *Network) Fresh(nowMS int64) { n.fresh.add(nowMS, cookieWindow, 1) }

// Flooded reports whether there are so many new sessions that they are worth
// looking up.
func (n *Network) Flooded(nowMS int64) bool {
	return n.fresh.count(nowMS, cookieWindow) >= floodFrom
}

// Found counts what a look-up of a session found.
func (n *Network) Found(nowMS int64, genuine bool) {
	if genuine {
		n.genuine.add(nowMS, cookieWindow, 1)
		return
	}
	n.invented.add(nowMS, cookieWindow, 1)
}

// Invented returns what the made-up sessions of a network weigh against one of its
// sessions that was not looked up yet: nothing unless most were made up.
func (p *Policy) Invented(n *Network, nowMS int64) Sign {
	sessions := n.invented.count(nowMS, cookieWindow)
	if sessions < floodFrom || sessions < n.genuine.count(nowMS, cookieWindow) {
		return Sign{Count: sessions}
	}
	return Sign{p.Weights[signInvented], sessions}
}

// Cookieless returns what the requests without a cookie weigh: nothing unless the
// network is busy and hardly ever brings one.
func (p *Policy) Cookieless(n *Network, nowMS int64) Sign {
	without := n.without.count(nowMS, cookieWindow)
	if without < cookielessFrom || n.with.count(nowMS, cookieWindow) >= without/4 {
		return Sign{Count: without}
	}
	return Sign{p.Weights[signCookieless], without}
}
