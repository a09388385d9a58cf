// Package bff is the language of the Melmastoon edge: the words both services
// and their neighbours use on the wire — prefixed ids, stay dates, occupancy,
// money, locales and currencies, errors with their codes, and the event
// envelope.
//
// It is pure: values in, values out. It knows no network, no store and no
// clock; functions that need the time are given it. Everyone may import it, so
// it imports almost nothing.
package bff
