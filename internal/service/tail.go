package service

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"melmastoon.ghasi.io/bff/internal/pubsub"
)

// EventsCommand shows what is published, and through which topics.
type EventsCommand struct {
	Tail   tail   `cmd:"" help:"Show events as they are published, until Ctrl-C."`
	Topics topics `cmd:"" help:"List the topics and subscriptions that the service needs."`
}

// Tail says which events are shown, and how.
type Tail struct {
	Subject []string `name:"subject" help:"Only these subjects, or parts of them such as wishlist. May be repeated."`
	Plain   bool     `name:"plain" help:"No colours."`
	JSON    bool     `name:"json" help:"One line of JSON for each event, with its envelope."`
}

type tail struct {
	PubSubSettings
	Tail
}

// Validate accepts a configuration that is enough to listen.
func (t *tail) Validate() error {
	return t.PubSubSettings.validate()
}

// Run shows what the service publishes and what it receives.
func (t *tail) Run(ctx context.Context, id Identity) error {
	return t.Follow(ctx, t.PubSubSettings, id.topics())
}

func (id Identity) topics() []string {
	topics := slices.Clone(id.Publishes)
	for _, s := range id.Receives {
		topics = append(topics, s.Topic)
	}
	return topics
}

// tailEnd is how long the end may take: a Pub/Sub that is away answers nothing, and its
// client goes on asking.
const tailEnd = 3 * time.Second

// Follow shows events of the topics as they are published, until ctx ends or Ctrl-C.
// It listens through subscriptions of its own, which it deletes when it ends.
func (t *Tail) Follow(ctx context.Context, at PubSubSettings, topics []string) error {
	topics, err := t.wanted(topics)
	if err != nil {
		return err
	}
	ctx, stop := signal.NotifyContext(ctx, os.Interrupt, syscall.SIGTERM)
	defer stop()
	context.AfterFunc(ctx, stop) // a second Ctrl-C ends at once
	ended := make(chan error, 1)
	go func() { ended <- t.follow(ctx, at, topics) }()
	select {
	case err := <-ended:
		return err
	case <-ctx.Done():
	}
	select {
	case err := <-ended:
		return err
	case <-time.After(tailEnd):
		fmt.Fprintln(os.Stderr, "Pub/Sub does not answer: the subscriptions of this command may be left there")
		return nil
	}
}

func (t *Tail) follow(ctx context.Context, at PubSubSettings, topics []string) (err error) {
	client, err := pubsub.Open(ctx, pubsub.Config{ProjectID: at.PubSubProject, EmulatorHost: at.PubSubEmulator})
	if err != nil {
		return err
	}
	suffix := strings.ToLower(rand.Text()[:10])
	subs := make([]pubsub.Subscription, 0, len(topics))
	for _, topic := range topics {
		subs = append(subs, pubsub.Subscription{Name: "tail-" + suffix + "." + topic, Topic: topic})
	}
	defer func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), tailEnd)
		defer cancel()
		var wg sync.WaitGroup
		for _, s := range subs {
			wg.Go(func() { _ = client.DeleteSubscription(ctx, s.Name) }) // one that was never made is gone already
		}
		wg.Wait()
		err = errors.Join(err, client.Close())
	}()
	for _, s := range subs {
		if err := client.EnsureSubscription(ctx, s); err != nil {
			return err
		}
	}
	fmt.Fprintf(os.Stderr, "listening to %d topics; Ctrl-C ends\n", len(subs))
	show := &printer{w: os.Stdout, colours: !t.Plain && terminal(os.Stdout), lines: t.JSON}
	var wg sync.WaitGroup
	errs := make(chan error, len(subs))
	for _, s := range subs {
		wg.Go(func() {
			errs <- client.Subscribe(ctx, s, func(_ context.Context, d pubsub.Delivery) error {
				show.event(d)
				return nil
			})
		})
	}
	wg.Wait()
	close(errs)
	for e := range errs {
		err = errors.Join(err, e)
	}
	return err
}

// wanted are the topics that contain one of the wanted words.
func (t *Tail) wanted(all []string) ([]string, error) {
	if len(t.Subject) == 0 {
		return all, nil
	}
	var out []string
	for _, topic := range all {
		if slices.ContainsFunc(t.Subject, func(part string) bool { return strings.Contains(topic, part) }) {
			out = append(out, topic)
		}
	}
	if len(out) == 0 {
		return nil, fmt.Errorf("no subject contains %s: want one of\n  %s", strings.Join(t.Subject, " or "), strings.Join(all, "\n  "))
	}
	return out, nil
}

// terminal reports whether the output is a terminal that may have colours.
func terminal(f *os.File) bool {
	info, err := f.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice != 0 && os.Getenv("TERM") != "dumb" && os.Getenv("NO_COLOR") == ""
}

// printer shows events one after the other.
type printer struct {
	mu      sync.Mutex
	w       io.Writer
	colours bool
	lines   bool // of JSON
}

// line writes an event as it was published, in one line. What is no JSON is told as a
// text beside its topic.
func (p *printer) line(d pubsub.Delivery) {
	var line bytes.Buffer
	if json.Compact(&line, d.Data) != nil {
		line.Reset()
		b, _ := json.Marshal(map[string]string{"topic": d.Topic, "data": string(d.Data)}) // texts always encode
		line.Write(b)
	}
	line.WriteByte('\n')
	p.mu.Lock()
	defer p.mu.Unlock()
	_, _ = p.w.Write(line.Bytes()) // a closed pipe ends the process by itself
}

func (p *printer) event(d pubsub.Delivery) {
	if p.lines {
		p.line(d)
		return
	}
	var e struct {
		Envelope struct {
			OccurredAt string  `json:"occurredAt"`
			SessionID  *string `json:"sessionId"`
		} `json:"envelope"`
		Payload json.RawMessage `json:"payload"`
	}
	_ = json.Unmarshal(d.Data, &e) // what is no envelope is shown as it is
	body := e.Payload
	if len(body) == 0 {
		body = d.Data
	}
	var pretty bytes.Buffer
	if json.Indent(&pretty, body, "  ", "  ") != nil {
		pretty.Reset()
		fmt.Fprintf(&pretty, "%q", body) // control characters must not reach the terminal
	}
	at := e.Envelope.OccurredAt
	if at == "" {
		at = d.PublishTime.UTC().Format(time.RFC3339)
	}
	who := ""
	if e.Envelope.SessionID != nil {
		who = " " + *e.Envelope.SessionID
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	// A closed pipe ends the process by itself.
	_, _ = fmt.Fprintf(p.w, "%s %s%s\n  %s\n", p.paint("2", Printable(at)), p.paint("1;36", d.Topic), p.paint("33", Printable(who)), &pretty)
}

func (p *printer) paint(code, s string) string {
	if !p.colours || s == "" {
		return s
	}
	return "\x1b[" + code + "m" + s + "\x1b[0m"
}

// Printable drops control characters, so that an event cannot steer the terminal.
func Printable(s string) string {
	return strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f || r >= 0x80 && r < 0xa0 {
			return -1
		}
		return r
	}, s)
}
