package consumerguard

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"melmastoon.ghasi.io/bff/internal/consumer/bot"
	"melmastoon.ghasi.io/bff/internal/memo"
	"melmastoon.ghasi.io/bff/internal/useragent"
)

func TestClientHashes(t *testing.T) {
	t.Parallel()
	agents, err := useragent.New(useragent.Config{})
	if err != nil {
		t.Fatal(err)
	}
	v := Clients{Pepper: []byte("a"), OldPeppers: [][]byte{[]byte("b")}}
	visit := func(v Clients, header ...string) [2]string {
		r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/", nil)
		for i := 0; i+1 < len(header); i += 2 {
			r.Header.Set(header[i], header[i+1])
		}
		g := &Guard{cfg: Config{Clients: v, UserAgents: agents}, profiles: memo.New[bot.Headers, *profile](2)}
		got := g.profileOf(r.Header).current
		return [2]string{got.Fingerprint.String(), got.Base.String()}
	}
	const ua = "Mozilla/5.0 (X11; Linux x86_64; rv:130.0) Gecko/20100101 Firefox/130.0"
	base := visit(v, "User-Agent", ua, "Accept-Language", "fa")
	if base[0] != base[1] {
		t.Error("without hints the fingerprint is not its base")
	}
	if visit(v, "User-Agent", strings.ReplaceAll(ua, "130.0", "131.0.2"), "Accept-Language", "fa") != base {
		t.Error("an updated browser is another")
	}
	hinted := visit(v, "User-Agent", ua, "Accept-Language", "fa", "X-Client-Screen", "1080x1920")
	if hinted[0] == base[0] || hinted[1] != base[1] {
		t.Error("hints change the base, or nothing")
	}
	if visit(v, "User-Agent", ua, "Accept-Language", "fa", "X-Client-Screen", "1920x1080") != hinted {
		t.Error("a turned phone is another")
	}
	for name, other := range map[string][2]string{
		"another browser":  visit(v, "User-Agent", "curl/8", "Accept-Language", "fa"),
		"another language": visit(v, "User-Agent", ua, "Accept-Language", "ps"),
		"another pepper":   visit(Clients{Pepper: []byte("c")}, "User-Agent", ua, "Accept-Language", "fa"),
	} {
		if other[0] == base[0] || other[1] == base[1] {
			t.Errorf("%s is the same client", name)
		}
	}
}
