package backofficecache

import (
	"melmastoon.ghasi.io/bff"
	"melmastoon.ghasi.io/bff/internal/backoffice/board"
	"melmastoon.ghasi.io/bff/internal/backoffice/device"
	"melmastoon.ghasi.io/bff/internal/backoffice/inbox"
	"melmastoon.ghasi.io/bff/internal/redis"
)

// readingKey names a reading, which stays in this process.
func readingKey(k redis.TenantKeys, from board.Source, at board.Place) string {
	return k.Key("read", at.Property.String(), string(from), at.Date.String()).Name()
}

// The names of DATA_MODEL §3.2. All of what is kept but the flags belongs to tenants,
// and no other file makes keys.

// FlagsKey names the platform's flags: the one thing in the cache tier that is the same
// for all tenants.
func FlagsKey(k redis.Keys) string { return k.Key("cache", "flag", "bff-backoffice-flags") }

// inboxKey names the mirror of a property's inbox, or of all of the tenant's.
func inboxKey(k redis.TenantKeys, of inbox.Inbox, property bff.ID) string {
	if property.IsZero() {
		return k.Key(string(of)+":inbox", "all").Name()
	}
	return k.Key(string(of)+":inbox", property.String()).Name()
}

// propertyKey names what is known of a property.
func propertyKey(k redis.TenantKeys, property bff.ID) string {
	return k.Key("property", property.String()).Name()
}

// listKey names what a service lists of a tenant.
func listKey(k redis.TenantKeys, noun string) string { return k.Key("list", noun).Name() }

// preferencesKey names an operator's preferences, for one property or for all.
func preferencesKey(k redis.TenantKeys, o device.PreferencesOwner) string {
	if o.Property.IsZero() {
		return k.Key("prefs", o.Operator).Name()
	}
	return k.Key("prefs", o.Operator, o.Property.String()).Name()
}

// shortcutsKey names the keyboard shortcuts that go with a version of the theme.
func shortcutsKey(k redis.TenantKeys, theme string) string { return k.Key("kbm", theme).Name() }

// themeKey names the version of the theme that is published.
func themeKey(k redis.TenantKeys) string { return k.Key("theme").Name() }

// cursorKey names how far a device has synchronised.
func cursorKey(k redis.TenantKeys, device bff.ID) string {
	return k.Key("cursor", device.String()).Name()
}
