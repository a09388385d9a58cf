package stream

import (
	"strconv"
	"time"

	"melmastoon.ghasi.io/bff"
	"melmastoon.ghasi.io/bff/internal/backoffice"
)

// FrameNames lists the names of all messages: the channels, and those about the stream
// itself.
func FrameNames() []string {
	names := []string{"ready", "ping", "gap", "reauth", "end", "superseded", "drain"}
	for _, c := range backoffice.Channels() {
		names = append(names, string(c))
	}
	return names
}

var supersededFrame = Frame{Event: "superseded", Data: "{}"}

func drainFrame() Frame { return Frame{Event: "drain", Data: "{}", Retry: retryHint()} }

// frame is what a client reads of a notice.
func (e *Entry) frame() Frame {
	return Frame{ID: e.ID, Event: string(backoffice.Channels()[e.Kind]), Data: e.Data}
}

// gapFrame names what is to be fetched anew. Its id is the position from which
// nothing is missing: a client that has dealt with it is not told again.
func gapFrame(missed []backoffice.Channel, rest []Entry, head EventID) Frame {
	id := head
	if len(rest) > 0 {
		id = EventID{rest[0].ID.Epoch, rest[0].Before.Last()}
	}
	return Frame{ID: id, Event: "gap", Data: channelsData(missed)}
}

func channelsData(channels []backoffice.Channel) string {
	b := []byte(`{"channels":[`)
	for i, c := range channels {
		if i > 0 {
			b = append(b, ',')
		}
		b = strconv.AppendQuote(b, string(c))
	}
	return string(append(b, "]}"...))
}

// headsData tells the last event of every channel; those without one end in -0.
func headsData(epoch uint64, h *Heads, now time.Time) string {
	b := append(make([]byte, 0, 320), `{"heads":{`...)
	for i, c := range backoffice.Channels() {
		if i > 0 {
			b = append(b, ',')
		}
		b = append(strconv.AppendQuote(b, string(c)), `:"`...)
		b = append(EventID{epoch, h[i]}.append(b), '"')
	}
	b = append(b, `},"serverTime":"`...)
	b = append(b, bff.At(now).String()...)
	return string(append(b, `"}`...))
}
