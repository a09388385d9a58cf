package consumerd

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"os"
	"strings"
	"time"

	"melmastoon.ghasi.io/bff"
	"melmastoon.ghasi.io/bff/handoff"
	"melmastoon.ghasi.io/bff/internal/daemon"
)

// handoffCommand is for support: what does a token say?
type handoffCommand struct {
	Inspect inspect `cmd:"" help:"Show what a hand-off token says, and whether it is genuine if the keys are given."`
}

type inspect struct {
	Token  string        `arg:"" help:"The token; - reads it from standard input, where no history keeps it."`
	Keys   daemon.Secret `name:"handoff-keys" env:"BFF_CONSUMER_HANDOFF_KEYS" help:"Keyring to verify with, as JSON."`
	File   string        `name:"file" type:"path" env:"BFF_CONSUMER_HANDOFF_KEYS_FILE" help:"File with the keyring to verify with."`
	Secret string        `name:"handoff-keys-secret" env:"BFF_CONSUMER_HANDOFF_KEYS_SECRET" help:"Secret Manager version with the keyring to verify with."`
}

// maxToken is several times what a token has.
const maxToken = 1024

// Run shows a token. It says nothing of whether the token was used.
func (c inspect) Run(ctx context.Context) error {
	token := c.Token
	if token == "-" {
		b, err := io.ReadAll(io.LimitReader(os.Stdin, maxToken))
		if err != nil {
			return err
		}
		token = strings.TrimSpace(string(b))
	}
	shown, err := inspectToken(ctx, token, keySource{"handoff-keys", c.Keys, c.File, c.Secret}, time.Now())
	if err != nil {
		return err
	}
	enc := json.NewEncoder(os.Stdout)
	enc.SetIndent("", "  ")
	return enc.Encode(shown)
}

type inspected struct {
	HandoffID      bff.ID            `json:"handoffId"`
	GuestSessionID bff.ID            `json:"guestSessionId"`
	TenantID       bff.ID            `json:"tenantId"`
	PropertyID     bff.ID            `json:"propertyId"`
	Dates          bff.StayDates     `json:"dates"`
	Occupancy      handoff.Occupancy `json:"occupancy"`
	Currency       bff.Currency      `json:"currency"`
	Locale         bff.Locale        `json:"locale"`
	MintedAt       bff.Timestamp     `json:"mintedAt"`
	ExpiresAt      bff.Timestamp     `json:"expiresAt"`
	HMACKeyID      string            `json:"hmacKeyId"`
	Verdict        string            `json:"verdict"` // unverified, genuine, expired or refused
}

func inspectToken(ctx context.Context, token string, keys keySource, now time.Time) (inspected, error) {
	p, err := handoff.Inspect(token)
	if err != nil {
		return inspected{}, err
	}
	out := inspected{
		HandoffID: p.ID, GuestSessionID: p.GuestSessionID, TenantID: p.TenantID, PropertyID: p.PropertyID, Dates: p.Dates,
		Occupancy: p.Occupancy, Currency: p.Currency, Locale: p.Locale, MintedAt: p.MintedAt, ExpiresAt: p.ExpiresAt,
		HMACKeyID: p.KeyID, Verdict: "unverified",
	}
	if keys.same(keySource{}) {
		return out, nil
	}
	ring, err := keys.read(ctx)
	if err != nil {
		return inspected{}, err
	}
	switch _, err := handoff.Verify(ring, token, now); {
	case err == nil:
		out.Verdict = "genuine"
	case errors.Is(err, handoff.ErrExpired):
		out.Verdict = "expired"
	default:
		out.Verdict = "refused"
	}
	return out, nil
}
