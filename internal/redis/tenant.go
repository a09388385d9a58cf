package redis

import (
	"errors"
	"strings"

	"melmastoon.ghasi.io/bff"
)

// ErrForeign refuses a value that was stored for another tenant, or for none.
var ErrForeign = errors.New("redis: the value belongs to another tenant")

// TenantKeys builds the keys of one tenant.
type TenantKeys struct {
	prefix string
	tenant bff.ID
}

// Tenant returns the builder of one tenant's keys. Anything but a tenant's id is
// refused: all of its callers would share what they keep.
func (k Keys) Tenant(tenant bff.ID) (TenantKeys, error) {
	if tenant.Prefix() != bff.PrefixTenant || k.prefix == "" {
		return TenantKeys{}, errors.New("redis: keys of a tenant need a tenant id")
	}
	return TenantKeys{prefix: k.prefix, tenant: tenant}, nil
}

// Key names noun:{tenant}:parts. A colon in a part is escaped: no part can spell
// the key of another tenant or of another thing.
func (t TenantKeys) Key(noun string, parts ...string) TenantKey {
	return t.key(noun + ":" + t.tenant.String() + joined(parts))
}

// IDKey names noun:{id}, without the tenant, for things that are known by a
// random id alone. What is kept there must be sealed: the id may come from a
// caller of another tenant.
func (t TenantKeys) IDKey(noun string, id bff.ID) TenantKey {
	return t.key(noun + joined([]string{id.String()}))
}

func (t TenantKeys) key(name string) TenantKey {
	t.mustHaveTenant()
	return TenantKey{name: t.prefix + name, tenant: t.tenant}
}

func (t TenantKeys) mustHaveTenant() {
	if t.tenant.IsZero() {
		panic("redis: a key without a tenant") // only a zero TenantKeys gets here
	}
}

var escapePart = strings.NewReplacer("%", "%25", ":", "%3A")

func joined(parts []string) string {
	var b strings.Builder
	for _, p := range parts {
		b.WriteByte(':')
		_, _ = escapePart.WriteString(&b, p) // never fails
	}
	return b.String()
}

// TenantKey is where a tenant keeps one thing. It cannot be made without a
// tenant, whether or not its name spells it.
type TenantKey struct {
	name   string
	tenant bff.ID
}

// Name is the key as Redis knows it.
func (k TenantKey) Name() string {
	k.mustHaveTenant()
	return k.name
}

// Tenant is whose key it is.
func (k TenantKey) Tenant() bff.ID { return k.tenant }

// Seal marks a value with the tenant before it is stored: its id, a line break,
// the value.
func (k TenantKey) Seal(value []byte) []byte {
	k.mustHaveTenant()
	return append(append([]byte(k.tenant.String()), '\n'), value...)
}

// Open returns a sealed value, or ErrForeign if it is not this tenant's. A wrong
// key, a value that was copied, or an id that a caller of another tenant sent
// thereby shows nothing.
func (k TenantKey) Open(stored []byte) ([]byte, error) {
	k.mustHaveTenant()
	head := k.tenant.String() + "\n"
	if len(stored) < len(head) || string(stored[:len(head)]) != head {
		return nil, ErrForeign // without the name: it may hold a session's id
	}
	return stored[len(head):], nil
}

func (k TenantKey) mustHaveTenant() { TenantKeys{tenant: k.tenant}.mustHaveTenant() }
