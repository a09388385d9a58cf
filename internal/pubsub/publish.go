package pubsub

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"cloud.google.com/go/pubsub/v2/apiv1/pubsubpb"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// Pub/Sub's own limits, with room for the request around the messages.
const (
	maxMessage      = 9 << 20
	maxRequestBytes = 9 << 20
	maxRequestCount = 1000
)

// Message is what leaves. Messages with the same topic and the same non-empty
// key arrive in the order in which they were published.
type Message struct {
	Topic      string
	Key        string
	Data       []byte
	Attributes map[string]string
}

// ErrHeld is the answer for a message that was not tried, because an earlier
// one of its topic and key failed: sent now it would overtake that one.
var ErrHeld = errors.New("held behind an earlier failure of its ordering key")

// ErrTooLarge refuses what Pub/Sub would never take.
var ErrTooLarge = errors.New("message too large")

// Publish sends the messages and returns one answer per message, in their
// order; nil means that Pub/Sub has it. Order within a topic and key is kept
// within one call and between calls that follow each other. It speaks to the
// API below the client's bundler: the caller already has a batch, and the
// bundler would add a delay, a goroutine per message and, after a failure, a key
// that stays blocked until it is resumed.
func (c *Client) Publish(ctx context.Context, messages []Message) []error {
	errs := make([]error, len(messages))
	var sent sync.WaitGroup
	for _, lane := range lanes(messages) {
		sent.Add(1)
		c.jobs <- func() {
			defer sent.Done()
			c.publishLane(ctx, messages, lane, errs)
		}
	}
	sent.Wait()
	return errs
}

// work publishes lanes. Its goroutines stay: a call needs a deep stack, and growing
// a new one costs a third as much as the call.
func (c *Client) work() {
	for job := range c.jobs {
		job()
	}
}

// lanes groups the indices of messages that go out one after the other. A
// request may carry one ordering key only (or none).
func lanes(messages []Message) [][]int {
	type lane struct{ topic, key string }
	at := make(map[lane]int)
	var out [][]int
	for i := range messages {
		l := lane{messages[i].Topic, messages[i].Key}
		n, ok := at[l]
		if !ok {
			n = len(out)
			at[l] = n
			out = append(out, nil)
		}
		out[n] = append(out[n], i)
	}
	return out
}

func (c *Client) publishLane(ctx context.Context, messages []Message, lane []int, errs []error) {
	ordered := messages[lane[0]].Key != ""
	for len(lane) > 0 {
		n, bytes := 0, 0
		for n < len(lane) && n < maxRequestCount {
			size := messages[lane[n]].size()
			if n > 0 && bytes+size > maxRequestBytes {
				break
			}
			bytes += size
			n++
		}
		chunk := lane[:n]
		lane = lane[n:]
		err := c.send(ctx, messages, chunk)
		for _, i := range chunk {
			errs[i] = err
		}
		if err == nil {
			continue
		}
		if n > 1 && !Transient(err) && !TopicUnavailable(err) {
			// One bad message fails the whole request: find it alone.
			c.publishSingly(ctx, messages, chunk, ordered, errs)
			err = errs[chunk[n-1]]
		}
		if ordered && err != nil {
			for _, i := range lane {
				errs[i] = ErrHeld
			}
			return
		}
	}
}

func (c *Client) publishSingly(ctx context.Context, messages []Message, chunk []int, ordered bool, errs []error) {
	held := false
	for n, i := range chunk {
		if held {
			errs[i] = ErrHeld
			continue
		}
		errs[i] = c.send(ctx, messages, chunk[n:n+1])
		held = ordered && errs[i] != nil
	}
}

func (c *Client) send(ctx context.Context, messages []Message, chunk []int) error {
	req := &pubsubpb.PublishRequest{
		Topic:    c.topic(messages[chunk[0]].Topic),
		Messages: make([]*pubsubpb.PubsubMessage, len(chunk)),
	}
	for n, i := range chunk {
		m := &messages[i]
		if m.size() > maxMessage {
			return fmt.Errorf("publish to %s: %w", m.Topic, ErrTooLarge)
		}
		req.Messages[n] = &pubsubpb.PubsubMessage{Data: m.Data, Attributes: m.Attributes, OrderingKey: m.Key}
	}
	ctx, cancel := context.WithTimeout(ctx, c.cfg.PublishTimeout)
	defer cancel()
	ctx, span := c.beginPublish(ctx, messages, chunk)
	answer, err := c.ps.TopicAdminClient.Publish(ctx, req)
	endPublish(span, err)
	if err != nil {
		return fmt.Errorf("publish to %s: %w", messages[chunk[0]].Topic, err)
	}
	if len(answer.MessageIds) != len(chunk) {
		return fmt.Errorf("publish to %s: %d ids for %d messages", messages[chunk[0]].Topic, len(answer.MessageIds), len(chunk))
	}
	return nil
}

func (m *Message) size() int {
	size := len(m.Data) + len(m.Key) + 32
	for k, v := range m.Attributes {
		size += len(k) + len(v) + 8
	}
	return size
}

// Transient reports that Pub/Sub, not the message, is at fault: the same message
// may well go through later.
func Transient(err error) bool {
	if errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled) || errors.Is(err, ErrHeld) {
		return true
	}
	switch status.Code(err) {
	case codes.Unavailable, codes.DeadlineExceeded, codes.ResourceExhausted, codes.Aborted, codes.Canceled,
		codes.Internal, codes.Unauthenticated:
		return true
	}
	return false
}

// TopicUnavailable reports that the topic does not exist or that we may not
// publish to it: every message of the topic fails, whatever it says.
func TopicUnavailable(err error) bool {
	switch status.Code(err) {
	case codes.NotFound, codes.PermissionDenied:
		return true
	}
	return false
}
