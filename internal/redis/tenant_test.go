package redis_test

import (
	"errors"
	"testing"
	"time"

	"melmastoon.ghasi.io/bff"
	"melmastoon.ghasi.io/bff/internal/redis"
)

var (
	hotel   = bff.MustParseID(bff.PrefixTenant, "tnt_01H8YN7QV4D8KZ4F8Y5CK4MV3A")
	another = bff.MustParseID(bff.PrefixTenant, "tnt_01H8YN7QV4D8KZ4F8Y5CK4MV3B")
)

func tenantKeys(t *testing.T, tenant bff.ID) redis.TenantKeys {
	t.Helper()
	k, err := redis.NewKeys("prod", "svc").Tenant(tenant)
	if err != nil {
		t.Fatal(err)
	}
	return k
}

func TestTenantKeyNames(t *testing.T) {
	t.Parallel()
	keys := tenantKeys(t, hotel)
	id := bff.MustParseID(bff.PrefixMFA, "mfa_01H8YN7QV4D8KZ4F8Y5CK4MV3C")
	for _, test := range []struct{ got, want string }{
		{keys.Key("all").Name(), "prod:svc:all:" + hotel.String()},
		{keys.Key("wb:arr", "ppt_1", "2026-11-17").Name(), "prod:svc:wb:arr:" + hotel.String() + ":ppt_1:2026-11-17"},
		{keys.Key("x", "a:b", "50%").Name(), "prod:svc:x:" + hotel.String() + ":a%3Ab:50%25"},
		{keys.Key("x", "", "").Name(), "prod:svc:x:" + hotel.String() + "::"},
		{keys.IDKey("mfa", id).Name(), "prod:svc:mfa:" + id.String()},
	} {
		if test.got != test.want {
			t.Errorf("%s, want %s", test.got, test.want)
		}
	}
	// A part that looks like the rest of a key stays one part.
	if keys.Key("x", "a", "b") == keys.Key("x", "a:b") || keys.Key("x", "a%3Ab") == keys.Key("x", "a:b") {
		t.Error("two things share a key")
	}
}

func TestKeysNeedATenant(t *testing.T) {
	t.Parallel()
	for _, id := range []bff.ID{{}, bff.NewID(bff.PrefixProperty, time.Now())} {
		if _, err := redis.NewKeys("prod", "svc").Tenant(id); err == nil {
			t.Errorf("%q was accepted", id)
		}
	}
	if _, err := (redis.Keys{}).Tenant(hotel); err == nil {
		t.Error("keys without a service were accepted")
	}
	for name, use := range map[string]func(){
		"TenantKeys": func() { redis.TenantKeys{}.Key("x") },
		"IDKey":      func() { redis.TenantKeys{}.IDKey("x", hotel) },
		"Name":       func() { _ = redis.TenantKey{}.Name() },
		"Seal":       func() { redis.TenantKey{}.Seal(nil) },
		"Open":       func() { _, _ = redis.TenantKey{}.Open([]byte("\nx")) },
	} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("%s works without a tenant", name)
				}
			}()
			use()
		}()
	}
}

func TestSealedValuesOpenForTheirTenantAlone(t *testing.T) {
	t.Parallel()
	mine, other := tenantKeys(t, hotel).Key("x"), tenantKeys(t, another).Key("x")
	for _, value := range []string{"", "{}", "a\nb\x00"} {
		sealed := mine.Seal([]byte(value))
		if got, err := mine.Open(sealed); err != nil || string(got) != value {
			t.Errorf("%q: %q, %v", value, got, err)
		}
		if got, err := other.Open(sealed); got != nil || !errors.Is(err, redis.ErrForeign) {
			t.Errorf("%q: another tenant read %q, %v", value, got, err)
		}
	}
	for _, stored := range []string{"", "{}", hotel.String(), hotel.String() + "x", " " + string(mine.Seal(nil))} {
		if _, err := mine.Open([]byte(stored)); !errors.Is(err, redis.ErrForeign) {
			t.Errorf("unsealed %q: %v", stored, err)
		}
	}
}
