// Package hotel is what other services say of hotels, their prices and where they are:
// nouns that discovery and booking share. It asks nothing and decides nothing.
package hotel
