package stream

import (
	"strconv"
	"strings"
	"time"

	"melmastoon.ghasi.io/bff"
	"melmastoon.ghasi.io/bff/internal/backoffice"
)

// EventID is a position in the log of a device's stream. Epoch names the life of the
// log: a log that was lost begins again with another one. Seq only grows; it is taken
// from the clock, so that a position that was lost with the end of a log (a replica
// that takes over may lack it) is not given to another entry.
type EventID struct {
	Epoch, Seq uint64
}

// ParseEventID reads epoch-seq; false if the text is none.
func ParseEventID(s string) (EventID, bool) {
	epoch, seq, ok := strings.Cut(s, "-")
	if !ok || len(s) > 41 {
		return EventID{}, false
	}
	e, err1 := strconv.ParseUint(epoch, 10, 64)
	n, err2 := strconv.ParseUint(seq, 10, 64)
	return EventID{e, n}, err1 == nil && err2 == nil && e > 0
}

// String returns epoch-seq.
func (id EventID) String() string {
	var b [48]byte
	return string(id.append(b[:0]))
}

func (id EventID) append(b []byte) []byte {
	b = append(strconv.AppendUint(b, id.Epoch, 10), '-')
	return strconv.AppendUint(b, id.Seq, 10)
}

// EntryKind is what an entry of the log is about: a channel, or the stream itself.
type EntryKind uint8

// The kinds beside the channels, which are numbered as in [backoffice.Channels].
const (
	EntryOpened EntryKind = iota + numChannels // a stream of the device was opened: older ones end
	EntryProved                                // the device has proved itself anew
)

const numChannels = 6

// kindOf is the kind of a channel's entries; false if there is no such channel.
func kindOf(c backoffice.Channel) (EntryKind, bool) {
	for i, known := range backoffice.Channels() {
		if c == known {
			return EntryKind(i), true
		}
	}
	return 0, false
}

// Heads are the last entries of a log, by their Seq: of each channel, and of the
// entries that no client sees.
type Heads [numChannels + 1]uint64

// after returns the heads after an entry.
func (h Heads) after(kind EntryKind, seq uint64) Heads {
	h[min(kind, numChannels)] = seq
	return h
}

// Last is the position that the heads belong to.
func (h Heads) Last() uint64 {
	last := uint64(0)
	for _, seq := range h {
		last = max(last, seq)
	}
	return last
}

// Entry is one entry in the log of a device's stream.
type Entry struct {
	ID   EventID
	Kind EntryKind
	// Before are the heads when it was added: Before.Last is the entry that precedes
	// it, whether or not the log still has that one.
	Before Heads

	// Of a notice: whom it is for, what happened, and the JSON that clients read.
	Property bff.ID
	Operator string
	Type     string
	Data     string
	// Expires of EntryProved: when the new token ends.
	Expires time.Time
}

// After are the heads after the entry.
func (e *Entry) After() Heads { return e.Before.after(e.Kind, e.ID.Seq) }

// Replay decides what is sent to a reader that has everything up to last: the
// channels on which it missed something that the log no longer has, and the entries
// that follow. The log is what is left of it, oldest first, at least its last entry.
// Where it cannot be known what was missed, every channel is named and nothing
// follows.
func Replay(last EventID, log []Entry) (missed []backoffice.Channel, rest []Entry) {
	head := log[len(log)-1].ID
	if last.Epoch != head.Epoch || last.Seq > head.Seq {
		return backoffice.Channels(), nil
	}
	for i := range log {
		e := &log[i]
		if e.ID.Seq <= last.Seq {
			continue
		}
		switch previous := e.Before.Last(); {
		case previous == last.Seq:
			return nil, log[i:]
		case previous < last.Seq: // the reader has seen an entry that the log never had
			return backoffice.Channels(), nil
		}
		for c, name := range backoffice.Channels() {
			if e.Before[c] > last.Seq {
				missed = append(missed, name)
			}
		}
		return missed, log[i:]
	}
	return nil, nil
}
