package backofficestore

import (
	"crypto/sha256"
	"encoding/base64"
	"strconv"
	"strings"

	"melmastoon.ghasi.io/bff"
	"melmastoon.ghasi.io/bff/internal/backoffice"
	"melmastoon.ghasi.io/bff/internal/backoffice/board"
	"melmastoon.ghasi.io/bff/internal/redis"
)

// Keys names everything that the staff service keeps in its session tier
// (DATA_MODEL §3.1). Whatever belongs to a tenant has a key of that tenant; only
// this file makes keys.
type Keys struct{ keys redis.Keys }

// NewKeys returns the names below the service's prefix.
func NewKeys(keys redis.Keys) Keys { return Keys{keys} }

// Proof is where the id of a used proof of possession is burned. It is no
// tenant's: a key's thumbprint is the same device's everywhere, and a proof that
// was used for one tenant is used. The id is its sender's choice, up to 128
// characters: 16 bytes of its hash are kept.
func (k Keys) Proof(thumbprint, id string) string {
	sum := sha256.Sum256([]byte(id))
	return k.keys.Key("dpop", thumbprint, base64.RawURLEncoding.EncodeToString(sum[:16]))
}

// Birth is the mark of a server of the tier; each keeps one of them. The number is the
// part of the name that decides which server that is.
func (k Keys) Birth(i int) string { return k.keys.Key("born", "{"+strconv.Itoa(i)+"}") }

// probeOf is where a write is tried, at the server that keeps a mark.
func probeOf(birth string) string { return birth + ":probe" }

// Limit is a bucket of a rate limit. Its name is a keyed hash of whom it counts.
func (k Keys) Limit(bucket string) string { return k.keys.Key("rl", bucket) }

// Count is how many sessions all tenants have together, and Counting says that it was
// counted a moment ago. AnySession matches the blobs of all of them.
func (k Keys) Count() string    { return k.keys.Key("session-count") }
func (k Keys) Counting() string { return k.keys.Key("session-count", "turn") }
func (k Keys) AnySession() string {
	return k.keys.Key("session", string(bff.PrefixBackofficeLogin)+"_*")
}

// Tenant returns the names of one tenant's things.
func (k Keys) Tenant(tenant bff.ID) (TenantKeys, error) {
	keys, err := k.keys.Tenant(tenant)
	return TenantKeys{keys}, err
}

// TenantKeys names what one tenant has in the session tier.
type TenantKeys struct{ keys redis.TenantKeys }

// Session is the blob of a session, sealed: its name does not spell the tenant.
func (t TenantKeys) Session(id bff.ID) redis.TenantKey { return t.keys.IDKey("session", id) }

// Device holds the session of a device.
func (t TenantKeys) Device(device bff.ID) redis.TenantKey {
	return t.keys.Key("session:by-device", device.String())
}

// Operator holds the sessions of an operator.
func (t TenantKeys) Operator(operator string) redis.TenantKey {
	return t.keys.Key("session:by-operator", operator)
}

// All holds the sessions of the whole tenant.
func (t TenantKeys) All() redis.TenantKey { return t.keys.Key("session:by-tenant") }

// Revoked is the tombstone of a device that was logged out by force.
func (t TenantKeys) Revoked(device bff.ID) redis.TenantKey {
	return t.keys.Key("revoked", device.String())
}

// OperatorAccess holds up to when an operator's tokens are revoked, and the
// version of its membership.
func (t TenantKeys) OperatorAccess(operator string) redis.TenantKey {
	return t.keys.Key("standing", operator)
}

// TenantAccess holds the same of the whole tenant, and whether it is suspended.
func (t TenantKeys) TenantAccess() redis.TenantKey { return t.keys.Key("standing") }

// Attestation is a second factor's single-use attestation, sealed as a session is.
func (t TenantKeys) Attestation(id bff.ID) redis.TenantKey { return t.keys.IDKey("mfa", id) }

// Turn says that streams were told of the end of a property's day.
func (t TenantKeys) Turn(at board.Place) redis.TenantKey {
	return t.keys.Key("turn", at.Property.String(), at.Date.String())
}

// StreamLog is the log of a device's stream.
func (t TenantKeys) StreamLog(device bff.ID) redis.TenantKey {
	return t.keys.Key("sse:log", device.String())
}

// StreamBus is what the names of a device's bus begin with. They do not spell the
// tenant: messages are sealed.
func (t TenantKeys) StreamBus(device bff.ID) redis.TenantKey { return t.keys.IDKey("sse:bus", device) }

// busName is the name of one channel of a bus (DATA_MODEL §3.1).
func busName(bus redis.TenantKey, c backoffice.Channel) string {
	return bus.Name() + busChannel + string(c)
}

const busChannel = ":channel:"

// busDevice is the device that a name of a bus is about.
func busDevice(name string) (bff.ID, bool) {
	name, _, ok := strings.Cut(name, busChannel)
	device, err := bff.ParseID(bff.PrefixDevice, name[strings.LastIndexByte(name, ':')+1:])
	return device, ok && err == nil
}
