// Package discovery composes what guests see of hotels: lists, maps, pages, calendars
// and remembered hotels, from several services at once, and says what is missing.
package discovery
