package sim

import (
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"time"
)

// keptSignIn is what is left of a sign-in when the simulator ends: its refresh token.
type keptSignIn struct {
	TenantID   string    `json:"tenantId"`
	OperatorID string    `json:"operatorId"`
	DeviceID   string    `json:"deviceId"`
	Thumbprint string    `json:"jkt"`
	Audience   string    `json:"audience"`
	Token      string    `json:"refreshToken"`
	Expires    time.Time `json:"expires"`
}

// load takes over the sign-ins of the run before, if they are kept in a file.
func (a *iam) load() error {
	if a.file == "" {
		return nil
	}
	b, err := os.ReadFile(a.file)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	var kept []keptSignIn
	if err := json.Unmarshal(b, &kept); err != nil {
		return nil //nolint:nilerr // cut off by a power failure: operators sign in again
	}
	for _, k := range kept {
		a.families[k.Token] = &family{
			tenantID: k.TenantID, operatorID: k.OperatorID, deviceID: k.DeviceID, jkt: k.Thumbprint, audience: k.Audience, current: k.Token, expires: k.Expires,
		}
	}
	a.count = len(kept)
	return nil
}

// save keeps the sign-ins that last. It needs the lock.
func (a *iam) save() error {
	if a.file == "" {
		return nil
	}
	kept := []keptSignIn{}
	for token, f := range a.families {
		if token == f.current && !f.revoked {
			kept = append(kept, keptSignIn{f.tenantID, f.operatorID, f.deviceID, f.jkt, f.audience, token, f.expires})
		}
	}
	b, err := json.Marshal(kept) //nolint:gosec // a simulator's own, in a file for its user alone
	if err != nil {
		return err
	}
	if err := os.WriteFile(a.file+".new", b, 0o600); err != nil {
		return err
	}
	return os.Rename(a.file+".new", a.file)
}
