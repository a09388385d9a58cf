// Package guest decides what a visit does to its guest's session: which session it
// is, which cookies the answer carries, and what is written. It decides from what it
// is given and does nothing itself.
package guest

import (
	"context"
	"errors"
	"time"

	"melmastoon.ghasi.io/bff"
	"melmastoon.ghasi.io/bff/internal/consumer"
)

// Purpose is what a session is wanted for.
type Purpose uint8

// The purposes, by what they may lead to.
const (
	// Identify: the answer needs to know which guest it is for. The session itself is
	// read if the card is due: that of a session that was cleared, or of another browser,
	// would otherwise be renewed without end.
	Identify Purpose = iota
	// Use: the answer shows or changes the session.
	Use
	// Report: a page reports something of its own accord, and without end. No session is
	// opened for it, or opened again, and the answer carries no cookies.
	Report
	// Record: the visit is recorded after the response, which carried the cookies.
	Record
	// Peek: the answer depends on what the guest has chosen, and changes nothing.
	Peek
)

// Need is what has to be read before a visit can be decided.
type Need uint8

// The needs. Sessions are in one store, and what outlives them is in another.
const (
	NeedNothing Need = iota
	NeedStored       // what the session store has under the visit's id
	NeedKept         // what outlives the session
	NeedID           // an id for a new session
)

// Known is what has been read for a visit; its zero value is nothing.
type Known struct {
	Stored *FoundSession
	Kept   *Kept
	ID     bff.ID
}

// Kept is what outlives a session that was lost.
type Kept struct {
	Refusal
	Unknown bool  // there is nothing of the session; asked of ids without a card alone
	Err     error // the store is away
}

// Cookies are those that an answer carries: the session's id and the card.
type Cookies struct {
	Card consumer.Card // zero = none are sent
	// CardOnly: they are sent for the card's sake, which no longer describes the session.
	// Browsers that take no card need not be sent the id.
	CardOnly bool
}

// Action is one thing that is done for a session.
type Action uint8

// The actions. What no client was promised is done after the response.
const (
	Count   Action = iota // the network opened one session more
	Save                  // before the response: the next request finds it
	Refuse                // keep that telemetry was refused where it outlives the session
	Started               // announce a new session
	Rotated               // announce, once, that another browser sent this session's cookie
	Suspect               // of sending another browser's cookie
	Renew                 // the cookies were sent again: what belongs to the session lives on with them
	Touch                 // write Change
	Restore               // save a session that was lost, unless there is one again
)

// Effect is an action and the session that it concerns.
type Effect struct {
	Do      Action
	Session consumer.GuestSession
	Change  consumer.SessionChange // of Touch
}

// Decision is what a visit does to its guest's session.
type Decision struct {
	// Needs has to be read first; of the rest ID alone counts then.
	Needs Need
	// ID is the guest's; zero if the visit belongs to none.
	ID bff.ID
	// Session is the guest's as it is after the visit; see Resolved.
	Session consumer.GuestSession
	// Refused: the network has opened too many sessions, and the guest has none that
	// could be changed.
	Refused bool
	// Away: a store could not be asked.
	Away    bool
	Cookies Cookies
	Effects []Effect
}

// Resolved reports whether the session is known; it was not read for every visit.
func (d *Decision) Resolved() bool { return !d.Session.CreatedAt.IsZero() }

// Touch is what the visit changed in a session that is there, to be written after the
// response.
func (d *Decision) Touch() consumer.SessionChange {
	for i := range d.Effects {
		if d.Effects[i].Do == Touch {
			return d.Effects[i].Change
		}
	}
	return consumer.SessionChange{}
}

// Decide is Resolve with what it needs read from the stores.
func Decide(ctx context.Context, store Sessions, v *consumer.Visit, k Known, p Purpose) Decision {
	for {
		d := Resolve(v, k, p)
		switch d.Needs {
		case NeedStored:
			f := &FoundSession{}
			f.GuestSession, f.Found, f.Err = store.FindSession(ctx, v.SessionID) // which has a deadline of its own
			k.Stored = f
		case NeedKept:
			k.Kept = findKept(ctx, store, v)
		case NeedID:
			k.ID = bff.NewID(bff.PrefixGuestSession, v.At)
		default:
			return d
		}
	}
}

func findKept(ctx context.Context, store Sessions, v *consumer.Visit) *Kept {
	k := &Kept{}
	if v.Card.IsZero() {
		known, err := store.KnowsSession(ctx, v.SessionID)
		if k.Unknown, k.Err = !known, err; err != nil || !known {
			return k
		}
	}
	k.Refusal, k.Err = store.FindRefusal(ctx, v.SessionID)
	return k
}

// Resolve decides what a visit does to its guest's session, from what is known, or
// says what has to be known first.
func Resolve(v *consumer.Visit, k Known, p Purpose) Decision {
	d := resolve(v, k, p)
	if v.CookieMismatch && !v.Untracked && (p == Identify || p == Use) && d.ID == v.SessionID && d.Cookies.Card.IsZero() {
		// The session's id did not come with its card: both are sent again, as they are.
		d.Cookies.Card = consumer.CardOf(v.Card.Session(v), v.Card.MadeAt)
	}
	return d
}

func resolve(v *consumer.Visit, k Known, p Purpose) Decision {
	switch {
	case v.SessionID.IsZero():
		return unnamed(v, k, p)
	case p == Peek && v.Untracked:
		return ephemeral(v, bff.ID{})
	case p == Peek && !v.Card.IsZero():
		return Decision{ID: v.SessionID, Session: v.Card.Session(v)}
	case p == Identify && (v.Card.IsZero() || v.Untracked || !v.Card.Due(v.At)):
		return Decision{ID: v.SessionID}
	case k.Stored == nil:
		return Decision{Needs: NeedStored, ID: v.SessionID}
	case errors.Is(k.Stored.Err, ErrSessionCleared):
		return denied(v, k, p)
	case k.Stored.Err != nil:
		return away(v, k, p)
	case !k.Stored.Found:
		return lost(v, k, p)
	}
	change, same := k.Stored.Meet(v)
	if !same {
		return denied(v, k, p)
	}
	return met(v, k.Stored.GuestSession, change, p)
}

// unnamed is a visit without an id that counts.
func unnamed(v *consumer.Visit, k Known, p Purpose) Decision {
	switch {
	case p == Report || p == Record:
		return Decision{}
	case p == Peek || v.Untracked:
		return ephemeral(v, bff.ID{})
	}
	return opened(v, k)
}

// denied is a visit with an id that is not its guest's: the session was cleared, and no
// id is used again after that, or it is another browser's. That one keeps its
// fingerprint and its wishlist: were it deleted, the thief's second request would find it
// gone and open it anew as its own.
func denied(v *consumer.Visit, k Known, p Purpose) Decision {
	switch {
	case p == Report || p == Record:
		return Decision{}
	case p == Peek || v.Untracked:
		return ephemeral(v, bff.ID{})
	}
	d := opened(v, k)
	if d.Needs != NeedNothing || d.Refused || !k.Stored.Found {
		return d
	}
	if !k.Stored.Rotated { // announced once, however often the cookie is tried
		d.Effects = append(d.Effects, Effect{Do: Rotated, Session: k.Stored.GuestSession})
	}
	d.Effects = append(d.Effects, Effect{Do: Suspect, Session: d.Session})
	return d
}

// away is a visit while the session store cannot be asked: a guest can still look.
func away(v *consumer.Visit, k Known, p Purpose) Decision {
	switch {
	case p == Record:
		return Decision{}
	case p == Peek:
		return ephemeral(v, bff.ID{})
	case p == Report && !v.Card.IsZero():
		return lost(v, k, p)
	}
	d := ephemeral(v, v.SessionID)
	d.Away = true
	return d
}

// lost is a visit whose session the store does not have: it is restored as the guest's
// card describes it, or else empty, but for the guest's refusal of telemetry. As long as
// that cannot be read the session stays unread, and nothing is saved that would count the
// guest.
//
// An id that counts without a card, and of which nothing is known, is not adopted: it
// may have been planted, and its planter would share the session. Nor is one whose
// guest had it cleared, with a card or without.
func lost(v *consumer.Visit, k Known, p Purpose) Decision {
	carded := !v.Card.IsZero()
	switch {
	case p == Peek:
		return ephemeral(v, bff.ID{})
	case p == Record && !carded:
		return Decision{ID: v.SessionID}
	case p != Report && v.Untracked:
		return ephemeral(v, v.SessionID)
	case (p == Use || p == Identify) && v.NoSession && !carded:
		return refused(v)
	case k.Kept == nil:
		return Decision{Needs: NeedKept, ID: v.SessionID}
	case k.Kept.Err == nil && (k.Kept.Unknown || k.Kept.Cleared):
		if p == Report || p == Record {
			return Decision{}
		}
		return opened(v, k)
	}
	d := Decision{ID: v.SessionID, Session: restored(v, k.Kept), Away: k.Kept.Err != nil && p != Report}
	switch {
	case d.Session.Unread || p == Report: // an accepted report is a promise, and kept under the id
		return d
	case p == Record:
		d.Effects = []Effect{{Do: Restore, Session: d.Session}}
		return d
	}
	return saved(v, d, !carded)
}

// restored is a session of which the card and what outlives it are left.
func restored(v *consumer.Visit, kept *Kept) (s consumer.GuestSession) {
	switch {
	case !v.Card.IsZero() && kept.Err == nil:
		return RestoredCard(v, kept.Refusal)
	case !v.Card.IsZero():
		s = v.Card.Session(v)
	case kept.Err == nil:
		return Restored(consumer.NewGuestSession(v.SessionID, v), kept.Refusal)
	default:
		s = consumer.NewGuestSession(v.SessionID, v)
	}
	s.Unread = true
	return s
}

// met is a visit of the session's own browser.
func met(v *consumer.Visit, s consumer.GuestSession, change consumer.SessionChange, p Purpose) Decision {
	cookieDue := !change.CookieAt.IsZero() || !v.Card.IsZero() && v.Card.Due(v.At)
	touch := change
	touch.CookieAt = time.Time{} // Renew writes it, if the answer carries one
	d := Decision{ID: v.SessionID, Session: s.Apply(touch)}
	if p == Use || p == Identify {
		d.Session = s.Apply(change)
		d.Session.LastSeenAt = v.At
		if cookieDue || !v.Card.Describes(d.Session) {
			d.Cookies = Cookies{Card: consumer.CardOf(d.Session, v.At), CardOnly: !cookieDue}
		}
		if cookieDue {
			d.Effects = append(d.Effects, Effect{Do: Renew, Session: d.Session})
		}
	}
	if p == Peek {
		return d
	}
	if change.Consent != nil { // the browser's header, which is sent again
		d.Effects = append(d.Effects, Effect{Do: Refuse, Session: d.Session})
	}
	if !touch.IsZero() && !v.Untracked {
		d.Effects = append(d.Effects, Effect{Do: Touch, Session: d.Session, Change: touch})
	}
	return d
}

// opened begins a new session, unless the network has opened too many.
func opened(v *consumer.Visit, k Known) Decision {
	if v.NoSession {
		return refused(v)
	}
	if k.ID.IsZero() {
		return Decision{Needs: NeedID}
	}
	d := saved(v, Decision{ID: k.ID, Session: consumer.NewGuestSession(k.ID, v)}, true)
	d.Effects = append(d.Effects, Effect{Do: Started, Session: d.Session})
	return d
}

// saved saves the session and sends its cookies.
func saved(v *consumer.Visit, d Decision, counts bool) Decision {
	d.Cookies.Card = consumer.CardOf(d.Session, v.At)
	if counts {
		d.Effects = append(d.Effects, Effect{Do: Count, Session: d.Session})
	}
	d.Effects = append(d.Effects, Effect{Do: Save, Session: d.Session})
	if !d.Session.Consent.Telemetry {
		d.Effects = append(d.Effects, Effect{Do: Refuse, Session: d.Session})
	}
	return d
}

// refused leaves a guest without a session: what is the same for every guest it may
// still read. The id in the cookie is another's, or none.
func refused(v *consumer.Visit) Decision {
	d := ephemeral(v, bff.ID{})
	d.Refused = true
	return d
}

// ephemeral makes a session of the card, or else of what the request says of itself;
// nothing of it is kept.
func ephemeral(v *consumer.Visit, id bff.ID) Decision {
	d := Decision{ID: id}
	if !v.Card.IsZero() && id == v.Card.SessionID {
		d.Session = v.Card.Session(v)
	} else {
		d.Session = consumer.NewGuestSession(id, v)
	}
	d.Session.Unread = true
	return d
}
