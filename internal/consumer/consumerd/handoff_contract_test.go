package consumerd_test

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"io"
	"maps"
	"net/url"
	"strconv"
	"strings"
	"testing"
	"time"

	"melmastoon.ghasi.io/bff"
	"melmastoon.ghasi.io/bff/handoff"
)

func (k *walker) handoffs() {
	hotels := k.w.Sim.Catalog().Properties
	key := func(name string) headers { return headers{"Idempotency-Key": {name}} }
	to := func(i int, change members) members {
		m := members{
			"propertyId": hotels[i].PropertyID, "tenantId": hotels[i].TenantID,
			"dates":     members{"checkIn": "2077-05-12", "checkOut": "2077-05-15"},
			"occupancy": members{"adults": 2, "children": 1, "childrenAges": []int{5}, "rooms": 1},
		}
		maps.Copy(m, change)
		return m
	}
	shown := members{"minor": "1", "currency": "AFN", "capturedAt": "2026-11-16T05:28:12+03:30"}
	k.ask(201, "POST", "/handoff?utm_source=poster", key("a"), to(0, members{"shown": shown, "currency": "USD", "locale": "fa"}))
	k.ask(201, "POST", "/handoff", headers{"Idempotency-Key": {"b"}, "X-Currency": {"EUR"}}, to(0, nil))
	minted := k.ask(201, "POST", "/handoff", key("c"), to(1, members{"shown": shown}))
	k.ask(201, "POST", "/handoff", key("c"), to(1, members{"shown": shown}))
	k.ask(422, "POST", "/handoff", key("c"), to(2, nil))
	k.ask(422, "POST", "/handoff", key("d"), to(1, members{"currency": "JPY"}))
	k.ask(422, "POST", "/handoff", key("d"), to(1, members{"locale": "xx"}))
	k.ask(428, "POST", "/handoff", nil, to(1, nil))
	k.ask(404, "POST", "/handoff", key("e"), to(1, members{"propertyId": noHotel}))
	k.ask(404, "POST", "/handoff", key("f"), to(1, members{"tenantId": "tnt_01M7H171SJSMVD891RBXMF12X2"}))
	k.ask(400, "POST", "/handoff", key("g"), to(1, members{"dates": nil, "shown": members{"minor": "1.5", "currency": "AFN", "capturedAt": "now"}}))
	k.misbehave("POST", "/handoff", to(1, nil))

	id, token := minted.field(k.t, "handoffId"), tokenOf(k.t, minted.field(k.t, "url"))
	k.consume(400, id, members{"token": token}, true)
	k.consume(400, "bhd_1", members{"token": token, "instance": "test"}, true)
	k.consume(400, id, "[]", true)
	k.consume(413, id, `{"pad":"`+strings.Repeat("x", 1<<16)+`"}`, true)
	k.consume(401, id, members{"token": token, "instance": "test"}, false)
	k.consume(401, id, members{"token": "forged", "instance": "test"}, true)
	k.consume(401, "bhd_01M7H171SJSMVD891RBXMF12X2", members{"token": token, "instance": "test"}, true)
	k.consume(200, id, members{"token": token, "instance": "test"}, true)
	k.consume(409, id, members{"token": token, "instance": "other"}, true)
	k.ask(409, "POST", "/handoff", key("c"), to(1, members{"shown": shown}))
	k.cookies(201, "POST", "/handoff", to(1, nil))

	for status, age := range map[int]time.Duration{404: 0, 410: 31 * time.Minute} {
		token, id := k.sign(hotels[0].TenantID, hotels[0].PropertyID, time.Now().Add(-age))
		k.consume(status, id, members{"token": token, "instance": "test"}, true)
	}
	if !k.w.Sim.SuspendTenant(hotels[40].TenantID) {
		k.t.Fatal("no such tenant")
	}
	k.ask(403, "POST", "/handoff", key("h"), to(40, nil))
}

func tokenOf(t *testing.T, redirect string) string {
	t.Helper()
	u, err := url.Parse(redirect)
	if err != nil {
		t.Fatal(err)
	}
	return u.Query().Get("h")
}

// sign makes a genuine token that the ledger has never seen.
func (k *walker) sign(tenant, property string, at time.Time) (token, id string) {
	k.t.Helper()
	keys, err := handoff.ParseKeySet(k.w.Secrets.HandoffKeys)
	if err != nil {
		k.t.Fatal(err)
	}
	token, payload, err := handoff.Mint(handoff.NewKeyring(keys), handoff.Claims{
		ID: bff.NewID(bff.PrefixHandoff, at), GuestSessionID: bff.NewID(bff.PrefixGuestSession, at),
		TenantID: bff.MustParseID(bff.PrefixTenant, tenant), PropertyID: bff.MustParseID(bff.PrefixProperty, property),
		Dates:     bff.StayDates{CheckIn: bff.DateOf(at) + 1, CheckOut: bff.DateOf(at) + 2},
		Occupancy: handoff.Occupancy{Adults: 1, Rooms: 1}, Currency: bff.AFN, Locale: bff.LocaleEnglish,
	}, at)
	if err != nil {
		k.t.Fatal(err)
	}
	return token, payload.ID.String()
}

// consume speaks as the booking service, or as a client that pretends to be.
func (k *walker) consume(want int, id string, body any, genuine bool) {
	k.t.Helper()
	raw, ok := body.(string)
	if !ok {
		b, err := json.Marshal(body)
		if err != nil {
			k.t.Fatal(err)
		}
		raw = string(b)
	}
	path, now, secret := "/internal/handoff/"+id+"/consume", strconv.FormatInt(time.Now().Unix(), 10), k.w.Secrets.InternalHMACKey
	if !genuine {
		secret = "guessed"
	}
	digest := sha256.Sum256([]byte(raw))
	mac := hmac.New(sha256.New, []byte(secret))
	_, _ = io.WriteString(mac, "POST\n"+path+"\n"+now+"\n"+hex.EncodeToString(digest[:]))
	k.send(want, "POST", "http://"+k.p.Internal+path, headers{
		"Authorization":   {"Bearer " + k.w.Secrets.InternalToken},
		"X-Internal-Hmac": {"t=" + now + ",v1=" + hex.EncodeToString(mac.Sum(nil))},
	}, raw)
}
