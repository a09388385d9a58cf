package backofficeguard_test

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"melmastoon.ghasi.io/bff"
	"melmastoon.ghasi.io/bff/internal/backoffice"
	"melmastoon.ghasi.io/bff/internal/backoffice/backofficeguard"
	"melmastoon.ghasi.io/bff/internal/backoffice/identity"
	"melmastoon.ghasi.io/bff/internal/desk"
)

// A request that breaks every check is refused for the first of them, and for the next when
// that is mended (backoffice.md §2). What is refused opens no session.
func TestOrderOfChecks(t *testing.T) {
	t.Parallel()
	f := newFixture(t, "all=1", func(c *backofficeguard.Config) { c.MinAppVersion = "2.4" })
	member := f.member
	f.member = nil
	stranger, err := desk.NewDevice(desk.EdDSA, f.now)
	if err != nil {
		t.Fatal(err)
	}
	var (
		broken = map[string]bool{"shape": true, "token": true, "device": true, "proof": true, "replay": true, "version": true}
		path   = "/managers-of-a-house?propertyId=" + sister.String()
	)
	send := func() bff.Code {
		c := f.call(path)
		if broken["shape"] {
			c.header["X-App-Platform"] = []string{"beos"}
		}
		if broken["token"] {
			c.claims["aud"] = "bff-console"
		}
		if broken["device"] {
			c.claims["device_id"] = stranger.ID()
		}
		if broken["proof"] {
			c.by = stranger
		}
		if broken["replay"] && !broken["proof"] {
			c.proof.ID = "once"
			f.used["once"] = true
		}
		if broken["version"] {
			c.header["X-App-Version"] = []string{"2.3.9"}
		}
		_, code := f.send(c)
		return code
	}
	mend := func(name string) func() { return func() { broken[name] = false } }
	for _, step := range []struct {
		want bff.Code
		mend func()
	}{
		{bff.CodeValidationFailed, mend("shape")},
		{bff.CodeSurfaceMismatch, mend("token")},
		{bff.CodeDeviceMismatch, mend("device")},
		{bff.CodeDPoPInvalid, mend("proof")},
		{bff.CodeDPoPReplayed, mend("replay")},
		{bff.CodeSessionRevoked, func() { f.member = member }}, // this one is charged, and there is one in a minute
		{bff.CodeAppVersionUnsupported, mend("version")},
		{bff.CodeStaffRateLimited, func() { f.advance(time.Minute) }},
	} {
		if got := send(); got != step.want || len(f.opened) > 0 {
			t.Fatalf("%s, want %s; opened %v", got, step.want, f.opened)
		}
		step.mend()
	}
	if got := send(); got != bff.CodeRoleDenied {
		t.Fatalf("%s, want the role refused", got)
	}
	f.advance(time.Minute)
	f.member = &backoffice.Member{Roles: []backoffice.Role{backoffice.GeneralManager}, Scope: member.Scope}
	if got := send(); got != bff.CodePropertyScopeDenied {
		t.Fatalf("%s, want the property refused", got)
	}
	f.advance(time.Minute)
	path = "/managers-of-a-house?propertyId=" + house.String()
	if got := send(); got != "" || len(f.visits) != 1 {
		t.Fatalf("%s", got)
	}
}

// Each check, broken by itself, is refused with its code, and with the challenge that
// RFC 9449 wants; what is just within a bound passes.
func TestEveryCheck(t *testing.T) {
	t.Parallel()
	const (
		plain  = `DPoP algs="EdDSA ES256"`
		token  = `DPoP error="invalid_token", algs="EdDSA ES256"`
		proof  = `DPoP error="invalid_dpop_proof", algs="EdDSA ES256"`
		nonced = `DPoP error="use_dpop_nonce", algs="EdDSA ES256"`
	)
	header := func(name string, values ...string) func(*fixture, *call) {
		return func(_ *fixture, c *call) { c.header[name] = values }
	}
	claim := func(name string, value any) func(*fixture, *call) {
		return func(_ *fixture, c *call) { c.claims[name] = value }
	}
	life := func(age, claimed time.Duration) func(*fixture, *call) {
		return func(f *fixture, c *call) {
			c.claims["iat"], c.claims["exp"] = f.now.Add(-age).Unix(), f.now.Add(claimed-age).Unix()
		}
	}
	other := "dev_01H8YN7QV4D8KZ4F8Y5CK4MV3A"
	for name, tc := range map[string]struct {
		change    func(*fixture, *call)
		want      bff.Code
		challenge string
		field     string // of the first fault, with its code
	}{
		"good":         {func(*fixture, *call) {}, "", "", ""},
		"bearer":       {func(_ *fixture, c *call) { c.scheme = "bearer" }, "", "", ""},
		"did":          {func(f *fixture, c *call) { c.claims["did"] = f.device.ID(); delete(c.claims, "device_id") }, "", "", ""},
		"both":         {func(f *fixture, c *call) { c.claims["did"] = f.device.ID() }, "", "", ""},
		"no extras":    {func(_ *fixture, c *call) { c.header["X-Property-Id"] = []string{""} }, "", "", ""},
		"long id":      {claim("sub", strings.Repeat("o", 64)), "", "", ""},
		"outer signs":  {claim("sub", "!~"), "", "", ""},
		"build":        {header("X-App-Version", "2.4.0-rc.1+b7"), "", "", ""},
		"four numbers": {header("X-App-Version", "2.4.0.1"), "", "", ""},
		"64 bytes":     {header("X-App-Version", "2-"+strings.Repeat("b", 62)), "", "", ""},
		"network":      {header("X-Network-Profile", "flaky"), "", "", ""},

		"no token":      {func(_ *fixture, c *call) { c.claims = nil }, bff.CodeUnauthenticated, plain, ""},
		"two tokens":    {header("Authorization", "DPoP a", "DPoP b"), bff.CodeUnauthenticated, plain, ""},
		"empty token":   {header("Authorization", "DPoP "), bff.CodeUnauthenticated, plain, ""},
		"basic":         {func(_ *fixture, c *call) { c.scheme = "Basic" }, bff.CodeUnauthenticated, plain, ""},
		"huge token":    {header("Authorization", "DPoP "+strings.Repeat("x", 8<<10)), bff.CodeUnauthenticated, plain, ""},
		"no device":     {header("X-Device-Id"), bff.CodeValidationFailed, "", "X-Device-Id required"},
		"odd device":    {header("X-Device-Id", "dev_1"), bff.CodeValidationFailed, "", "X-Device-Id format"},
		"two devices":   {header("X-Device-Id", other, other), bff.CodeValidationFailed, "", "X-Device-Id conflict"},
		"long version":  {header("X-App-Version", "2-"+strings.Repeat("b", 63)), bff.CodeValidationFailed, "", "X-App-Version length"},
		"five numbers":  {header("X-App-Version", "1.2.3.4.5"), bff.CodeValidationFailed, "", "X-App-Version format"},
		"odd version":   {header("X-App-Version", "1.x"), bff.CodeValidationFailed, "", "X-App-Version format"},
		"odd platform":  {header("X-App-Platform", "beos"), bff.CodeValidationFailed, "", "X-App-Platform unsupported"},
		"odd network":   {header("X-Network-Profile", "5G"), bff.CodeValidationFailed, "", "X-Network-Profile unsupported"},
		"odd property":  {header("X-Property-Id", "*", "ppt_1"), "", "", ""}, // this route needs none
		"other issuer":  {claim("iss", "https://else"), bff.CodeUnauthenticated, plain, ""},
		"other surface": {claim("aud", "bff-console"), bff.CodeSurfaceMismatch, "", ""},
		"iam away":      {func(f *fixture, _ *call) { f.keysDown = true }, bff.CodeUpstreamUnavailable, "", ""},
		"expired":       {life(time.Minute, time.Minute), bff.CodeTokenExpired, token, ""},
		"last second":   {life(identity.TokenLifetime-time.Second, time.Hour), "", "", ""},
		"too long":      {life(identity.TokenLifetime, time.Hour), bff.CodeTokenExpired, token, ""},
		"unknown key": {func(f *fixture, c *call) {
			f.keySet = []byte(`{"keys":[]}`)
		}, bff.CodeTokenExpired, token, ""},
		"odd tenant":   {claim("tid", "tnt_1"), bff.CodeUnauthenticated, plain, ""},
		"not bound":    {claim("cnf", nil), bff.CodeUnauthenticated, plain, ""},
		"65 bytes":     {claim("sub", strings.Repeat("o", 65)), bff.CodeUnauthenticated, plain, ""},
		"with a blank": {claim("sub", "a b"), bff.CodeUnauthenticated, plain, ""},
		"not ASCII":    {claim("sub", "a\x7f"), bff.CodeUnauthenticated, plain, ""},
		"two claims":   {claim("did", other), bff.CodeUnauthenticated, plain, ""},
		"other device": {claim("device_id", other), bff.CodeDeviceMismatch, token, ""},
		"odd claim":    {claim("device_id", "x"), bff.CodeDeviceMismatch, token, ""},

		"no proof":     {func(_ *fixture, c *call) { c.noProof = true }, bff.CodeDPoPInvalid, proof, "DPoP missing"},
		"two proofs":   {header("Dpop", "x", "y"), bff.CodeDPoPInvalid, proof, "DPoP missing"},
		"other method": {func(_ *fixture, c *call) { c.proof.Method = "PUT" }, bff.CodeDPoPInvalid, proof, "DPoP method"},
		"other path":   {func(_ *fixture, c *call) { c.proof.URL = publicURL + "/own" }, bff.CodeDPoPInvalid, proof, "DPoP url"},
		"other token":  {func(_ *fixture, c *call) { c.proof.AccessToken = "another" }, bff.CodeDPoPInvalid, proof, "DPoP token_hash"},
		"slow clock":   {func(f *fixture, c *call) { c.proof.At = f.now.Add(-time.Hour) }, bff.CodeDPoPInvalid, nonced, "DPoP clock_skew"},
		"odd nonce":    {func(_ *fixture, c *call) { c.proof.Nonce = "x" }, bff.CodeDPoPInvalid, nonced, "DPoP nonce"},
		"replay":       {func(f *fixture, c *call) { f.used[c.proof.ID] = true }, bff.CodeDPoPReplayed, proof, ""},
		"revoked":      {func(f *fixture, _ *call) { f.state.Tombstones.Device = f.now }, bff.CodeSessionRevoked, token, ""},
		"suspended":    {func(f *fixture, _ *call) { f.state.Suspended = true }, bff.CodeStaffTenantSuspended, "", ""},
		"old app":      {header("X-App-Version", "2.3.9.9"), bff.CodeAppVersionUnsupported, "", ""},
		"no version":   {header("X-App-Version"), bff.CodeAppVersionUnsupported, "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFixture(t, "", func(c *backofficeguard.Config) { c.MinAppVersion = "2" })
			if strings.Contains(name, "app") || strings.Contains(name, "version") {
				f = newFixture(t, "", func(c *backofficeguard.Config) { c.MinAppVersion = "2.4.0" })
			}
			c := f.call("/any")
			tc.change(f, c)
			w, code := f.send(c)
			if code != tc.want || w.Header().Get("Www-Authenticate") != tc.challenge || !strings.Contains(w.Body.String(), faultOf(tc.field)) {
				t.Errorf("%s, challenged with %s, %s; want %q, %s, %s", code, w.Header().Get("Www-Authenticate"), w.Body, tc.want, tc.challenge, tc.field)
			}
			if w.Header().Get("Dpop-Nonce") == "" || (w.Header().Get("X-Server-Time") != "") != (code == bff.CodeDPoPInvalid) {
				t.Errorf("headers %v", w.Header())
			}
			if (len(f.visits) == 1) != (tc.want == "") {
				t.Errorf("%d visits", len(f.visits))
			}
			f.settle()
			replayed, refused := tc.want == bff.CodeDPoPReplayed, tc.want == bff.CodeDPoPInvalid
			if (f.counted("dpop_replay_blocked_total") == 1) != replayed || (len(f.did) == 1) != replayed || (f.counted("dpop_refused_total") == 1) != refused {
				t.Errorf("%v replays, %v refused, reported %v", f.counted("dpop_replay_blocked_total"), f.counted("dpop_refused_total"), f.did)
			}
		})
	}
}

// faultOf is a fault as problems write it.
func faultOf(field string) string {
	name, code, ok := strings.Cut(field, " ")
	if !ok {
		return ""
	}
	return `"field":"` + name + `","code":"` + code + `"`
}

// A handler is told who sent the request, by the token and the proof alone. What is kept of
// address and client are hashes, by which one is told from another.
func TestVisit(t *testing.T) {
	t.Parallel()
	f := newFixture(t, "", nil)
	visit := func(change func(*call)) *backoffice.Visit {
		t.Helper()
		c := f.call("/any")
		c.claims["exp"] = f.now.Add(time.Hour).Unix()
		c.proof.At = f.now.Add(-30 * time.Second)
		if change != nil {
			change(c)
		}
		if _, code := f.send(c); code != "" {
			t.Fatal(code)
		}
		return f.visits[len(f.visits)-1]
	}
	v := visit(nil)
	c := v.Caller
	if c.Tenant != tenant || c.Operator != "opt_1" || c.Device.String() != f.device.ID() || c.KeyPrint != f.device.Thumbprint() ||
		!c.TokenIssued.Equal(f.now) || !c.TokenExpires.Equal(f.now.Add(identity.TokenLifetime)) || c.TokenHash == "" ||
		c.App != (backoffice.App{Version: "2.4.0", Platform: "linux"}) {
		t.Errorf("caller %+v", c)
	}
	if v.Request.RequestID.IsZero() || v.Request.TraceParent == "" || !v.Sent.Equal(f.now.Add(-30*time.Second)) || v.Session.ID != f.opened[0].ID ||
		v.Member != f.member {
		t.Errorf("visit %+v", v)
	}
	if p := f.proof; p.KeyPrint != f.device.Thumbprint() || !p.Issued.Equal(v.Sent) || !p.Made.Equal(v.Sent) || !p.Until.After(f.now) || p.Look {
		t.Errorf("proof %+v", p)
	}
	nonce, _ := f.send(f.call("/any"))
	visit(func(c *call) { c.proof.Nonce, c.proof.At = nonce.Header().Get("Dpop-Nonce"), f.now.AddDate(-1, 0, 0) })
	if p := f.proof; !p.Issued.Equal(f.now.AddDate(-1, 0, 0)) || p.Made.Before(f.now.Add(-time.Hour)) {
		t.Errorf("proof of a wrong clock %+v", p)
	}
	if !strings.HasPrefix(c.IPHash, "sha256:") || len(c.IPHash) != 71 || c.IPHash == c.FingerprintHash {
		t.Errorf("hashes %s, %s", c.IPHash, c.FingerprintHash)
	}
	short := visit(func(c *call) { c.claims["exp"] = f.now.Add(time.Minute).Unix() })
	if !short.Caller.TokenExpires.Equal(f.now.Add(time.Minute)) {
		t.Errorf("the token ends at %s", short.Caller.TokenExpires)
	}
	client := func(agent, language string) string {
		return visit(func(c *call) {
			c.header["User-Agent"], c.header["Accept-Language"] = []string{agent}, []string{language}
		}).Caller.FingerprintHash
	}
	if client("the app", "fa") == client("the appf", "a") {
		t.Error("two clients have one hash")
	}
	for name, tc := range map[string]struct {
		change          func(*call)
		ip, fingerprint bool // is another one
	}{
		"the same":         {func(c *call) { c.header["X-App-Version"] = []string{"2.5"} }, false, false},
		"another address":  {func(c *call) { c.from = "203.0.113.8:5000" }, true, false},
		"another client":   {func(c *call) { c.header["User-Agent"] = []string{"else"} }, false, true},
		"another language": {func(c *call) { c.header["Accept-Language"] = []string{"fa"} }, false, true},
		"another platform": {func(c *call) { c.header["X-App-Platform"] = []string{"win32"} }, false, true},
	} {
		if got := visit(tc.change).Caller; (got.IPHash != c.IPHash) != tc.ip || (got.FingerprintHash != c.FingerprintHash) != tc.fingerprint {
			t.Errorf("%s: %s, %s", name, got.IPHash, got.FingerprintHash)
		}
	}
}

// A property is in the scope by its name, or because the operator works for all of the
// tenant's; another tenant's does not exist. What is denied is in the ledger of the
// property, with the route.
func TestScope(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		path   string
		header bff.ID // X-Property-Id
		raw    string // the same, of another form
		all    bool   // the operator works for all properties
		want   bff.Code
		field  string
		visit  bff.ID
		asked  []bff.ID
		ledger bff.ID // property of the denial; zero = it names none
	}{
		"listed":            {path: "/of-a-house?propertyId=" + house.String(), visit: house},
		"in a header":       {path: "/of-a-house", header: house, visit: house},
		"in both":           {path: "/of-a-house?propertyId=" + house.String(), header: house, visit: house},
		"all":               {path: "/of-a-house", header: sister, all: true, visit: sister, asked: []bff.ID{sister}},
		"outside":           {path: "/of-a-house", header: sister, want: bff.CodePropertyScopeDenied, asked: []bff.ID{sister}, ledger: sister},
		"another tenant's":  {path: "/of-a-house", header: alien, want: bff.CodeResourceNotFound, asked: []bff.ID{alien}},
		"another's, of all": {path: "/of-a-house", header: alien, all: true, want: bff.CodeResourceNotFound, asked: []bff.ID{alien}},
		"none":              {path: "/of-a-house", want: bff.CodeValidationFailed, field: "propertyId required"},
		"odd":               {path: "/of-a-house?propertyId=1", header: house, want: bff.CodeValidationFailed, field: "propertyId format"},
		"odd in a header":   {path: "/of-a-house", raw: "*", want: bff.CodeValidationFailed, field: "X-Property-Id format"},
		"own, odd header":   {path: "/own?propertyId=" + house.String(), raw: "*", visit: house},
		"two":               {path: "/of-a-house?propertyId=" + house.String(), header: sister, want: bff.CodeValidationFailed, field: "propertyId conflict"},
		"twice": {
			path: "/of-a-house?propertyId=" + house.String() + "&propertyId=" + house.String(), want: bff.CodeValidationFailed, field: "propertyId conflict",
		},
		"own, none":            {path: "/own", header: sister},
		"own, in the query":    {path: "/own?propertyId=" + house.String(), header: sister, visit: house},
		"own, outside":         {path: "/own?propertyId=" + sister.String(), want: bff.CodePropertyScopeDenied, asked: []bff.ID{sister}, ledger: sister},
		"not asked for":        {path: "/any", header: sister},
		"role":                 {path: "/managers", header: house, want: bff.CodeRoleDenied},
		"role at a house":      {path: "/managers-of-a-house", header: house, want: bff.CodeRoleDenied, ledger: house},
		"role outside":         {path: "/managers-of-a-house", header: sister, want: bff.CodeRoleDenied, asked: []bff.ID{sister}, ledger: sister},
		"role at no one's":     {path: "/managers-of-a-house", header: alien, want: bff.CodeRoleDenied, asked: []bff.ID{alien}},
		"role without a house": {path: "/managers-of-a-house", want: bff.CodeRoleDenied},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFixture(t, "", nil)
			if tc.all {
				f.member.Scope = backoffice.ReadPropertyScope([]string{"*"})
			}
			c := f.call(tc.path)
			c.proof.URL = publicURL + strings.Split(tc.path, "?")[0]
			if given := tc.raw + tc.header.String(); given != "" {
				c.header["X-Property-Id"] = []string{given}
			}
			w, code := f.send(c)
			if code != tc.want || !strings.Contains(w.Body.String(), faultOf(tc.field)) {
				t.Fatalf("%s, %s; want %q, %s", code, w.Body, tc.want, tc.field)
			}
			if diff := cmp.Diff(tc.asked, f.asked, cmp.Comparer(func(a, b bff.ID) bool { return a == b })); diff != "" {
				t.Errorf("asked about (-want +got):\n%s", diff)
			}
			if tc.want == "" && (len(f.visits) != 1 || f.visits[0].Property != tc.visit || len(f.did) > 0) {
				t.Errorf("visits %+v, recorded %+v", f.visits, f.did)
			}
			denied := tc.want == bff.CodeRoleDenied || tc.want == bff.CodePropertyScopeDenied
			if !denied {
				return
			}
			if len(f.did) != 1 {
				t.Fatalf("recorded %+v", f.did)
			}
			a := f.did[0]
			route := "GET " + strings.Split(tc.path, "?")[0]
			if a.Outcome != backoffice.Denied || a.Code != tc.want || a.Category != "request" || a.Action != route || a.Property != tc.ledger ||
				a.Tenant != tenant || a.Operator != "opt_1" || a.Device.String() != f.device.ID() || a.Session != f.opened[0].ID || !a.At.Equal(f.now) {
				t.Errorf("recorded %+v", a)
			}
			f.unrecorded = bff.Errorf(bff.CodeServiceUnavailable, "away")
			c.header["Dpop"], c.proof.ID = nil, "again"
			if _, code := f.send(c); code != bff.CodeServiceUnavailable {
				t.Errorf("without a ledger: %s", code)
			}
		})
	}
}

// A device, an operator and an address each have their limit. Beyond it a proof is not used
// up and no session opens; a proof that is sent again costs its device nothing.
func TestLimits(t *testing.T) {
	t.Parallel()
	f := newFixture(t, "all=2,fingerprint=1.5,ip=2", nil)
	other := newFixture(t, "", nil).device
	as := func(operator string, d *desk.Device, from string) func(*call) {
		return func(c *call) {
			c.by, c.from = d, from
			c.claims["sub"], c.claims["device_id"], c.claims["cnf"] = operator, d.ID(), map[string]any{"jkt": d.Thumbprint()}
			c.header["X-Device-Id"] = []string{d.ID()}
		}
	}
	send := func(change func(*call)) (string, bff.Code) {
		c := f.call("/any")
		change(c)
		w, code := f.send(c)
		if code == bff.CodeStaffRateLimited && (w.Header().Get("Retry-After") == "" || f.used[c.proof.ID]) {
			t.Errorf("limited: %v, used %v", w.Header(), f.used)
		}
		return w.Header().Get("Ratelimit-Remaining"), code
	}
	const here, there = "203.0.113.7:5000", "198.51.100.1:5000"
	for i, step := range []struct {
		change func(*call)
		want   bff.Code
		opened int
	}{
		{as("opt_1", f.device, here), "", 1},
		{func(c *call) { as("opt_1", f.device, here)(c); c.proof.ID = "heard" }, "", 2},
		{func(c *call) { as("opt_1", f.device, there)(c); c.proof.ID = "heard" }, bff.CodeDPoPReplayed, 2},
		{as("opt_2", f.device, there), bff.CodeStaffRateLimited, 2},                                       // of the device
		{as("opt_1", other, there), "", 3},                                                                // of the operator, three in all
		{as("opt_1", other, there), bff.CodeStaffRateLimited, 3},                                          // of the operator
		{as("opt_2", other, there), "", 4},                                                                // of another
		{as("opt_2", other, there), bff.CodeStaffRateLimited, 4},                                          // of the other device
		{func(c *call) { as("opt_1", f.device, here)(c); c.proof.ID = "heard" }, bff.CodeDPoPReplayed, 4}, // beyond the limit
	} {
		remaining, code := send(step.change)
		if code != step.want || len(f.opened) != step.opened || (remaining == "") != (code == bff.CodeDPoPReplayed) {
			t.Errorf("step %d: %s, %d sessions, %q left; want %q, %d", i+1, code, len(f.opened), remaining, step.want, step.opened)
		}
	}
	f.advance(time.Minute)
	for range 100 { // replays of a request that was overheard
		send(func(c *call) { c.proof.ID, c.from = "heard", "192.0.2.9:5000" })
	}
	for i := range 2 {
		if _, code := send(as("opt_1", f.device, here)); code != "" {
			t.Errorf("request %d after the replays: %s", i+1, code)
		}
	}
	f.advance(time.Minute)
	for n := range 5 { // of an address, four in all
		d, err := desk.NewDevice(desk.EdDSA, f.now)
		if err != nil {
			t.Fatal(err)
		}
		if _, code := send(as("opt_"+string(rune('a'+n)), d, here)); (code == bff.CodeStaffRateLimited) != (n == 4) {
			t.Errorf("request %d of an address: %s", n+1, code)
		}
	}
	off := newFixture(t, "off", nil)
	for range 5 {
		if w, code := off.send(off.call("/any")); code != "" || w.Header().Get("Ratelimit-Limit") != "" {
			t.Errorf("without limits: %s, %v", code, w.Header())
		}
	}
}

// The replays of one key are reported at most every ten seconds, each key's by itself.
func TestReplaysAreReported(t *testing.T) {
	t.Parallel()
	f := newFixture(t, "off", nil)
	other := newFixture(t, "off", nil).device
	f.used["heard"] = true
	for _, step := range []struct {
		after time.Duration
		by    *desk.Device
	}{{0, f.device}, {0, f.device}, {0, other}, {10*time.Second - time.Millisecond, f.device}, {time.Millisecond, f.device}} {
		f.advance(step.after)
		c := f.call("/any")
		c.proof.ID, c.by, c.header["X-Device-Id"] = "heard", step.by, []string{step.by.ID()}
		c.claims["device_id"], c.claims["cnf"] = step.by.ID(), map[string]any{"jkt": step.by.Thumbprint()}
		if _, code := f.send(c); code != bff.CodeDPoPReplayed {
			t.Fatal(code)
		}
	}
	f.settle()
	var at []string
	for i, a := range f.did {
		if a.Action != "replay" || a.Outcome != backoffice.Denied || a.Code != bff.CodeDPoPReplayed ||
			f.events[i].Envelope.Subject != string(backoffice.SubjectReplayBlocked) ||
			f.events[i].Envelope.RequestID == nil {
			t.Errorf("recorded %+v, %+v", a, f.events[i].Envelope)
		}
		at = append(at, a.At.Format("05.000")+" "+a.Device.String())
	}
	first, second := f.device.ID(), other.ID()
	if diff := cmp.Diff(map[string]bool{"00.000 " + first: true, "00.000 " + second: true, "10.000 " + first: true}, set(at)); diff != "" || len(at) != 3 {
		t.Errorf("reports of %v (-want +got):\n%s", at, diff)
	}
}

func set(all []string) map[string]bool {
	out := map[string]bool{}
	for _, s := range all {
		out[s] = true
	}
	return out
}
