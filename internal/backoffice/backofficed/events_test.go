package backofficed

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.yaml.in/yaml/v3"

	"melmastoon.ghasi.io/bff"
	"melmastoon.ghasi.io/bff/contracts"
	"melmastoon.ghasi.io/bff/internal/backoffice"
	"melmastoon.ghasi.io/bff/internal/backoffice/backofficeevents"
)

// TestDocumentedEvents compares the table of docs/events.md with the code.
func TestDocumentedEvents(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("../../../docs/events.md")
	if err != nil {
		t.Fatal(err)
	}
	_, section, _ := strings.Cut(string(page), "## What the staff service publishes")
	section, _, _ = strings.Cut(section, "\n## ")
	kept := map[bff.RetentionClass]string{bff.RetentionRegulated: "7 years", bff.RetentionOperational: "90 days"}
	var got, want []string
	for line := range strings.Lines(section) {
		cells := strings.Split(strings.Trim(strings.TrimSpace(line), "| "), " | ")
		if len(cells) != 3 || !strings.HasPrefix(cells[0], "`") {
			continue
		}
		for subject := range strings.SplitSeq(cells[0], " · ") {
			got = append(got, strings.Trim(subject, "`")+", "+cells[2])
		}
	}
	for _, s := range backoffice.Subjects() {
		want = append(want, strings.TrimPrefix(string(s), "melmastoon.bff.backoffice.")+", "+kept[s.Retention()])
	}
	slices.Sort(got)
	slices.Sort(want)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("events (-code +docs/events.md):\n%s", diff)
	}
}

// Code, AsyncAPI and subscriptions have one list.
func TestOneListOfEvents(t *testing.T) {
	t.Parallel()
	var doc struct {
		Channels   map[string]struct{ Address string }
		Operations map[string]struct {
			Action  string
			Channel struct {
				Ref string `yaml:"$ref"`
			}
			Subscription struct {
				Name            string
				Ack             int    `yaml:"ackDeadlineSeconds"`
				Attempts        int    `yaml:"maxDeliveryAttempts"`
				DeadLetterTopic string `yaml:"deadLetterTopic"`
			} `yaml:"x-subscription"`
		}
	}
	if err := yaml.Unmarshal(contracts.AsyncAPI("backoffice"), &doc); err != nil {
		t.Fatal(err)
	}
	var sent, received, wantSent, wantReceived []string
	for _, op := range doc.Operations {
		address := doc.Channels[op.Channel.Ref[len("#/channels/"):]].Address
		if op.Action == "send" {
			sent = append(sent, address)
			continue
		}
		s := op.Subscription
		received = append(received, fmt.Sprint(address, s.Name, s.Ack, s.Attempts, s.DeadLetterTopic))
	}
	for _, s := range backoffice.Subjects() {
		wantSent = append(wantSent, string(s))
	}
	for _, s := range backofficeevents.Subscriptions() {
		wantReceived = append(wantReceived, fmt.Sprint(s.Topic, s.Name, int(s.AckDeadline/time.Second), s.MaxAttempts, s.DLQ))
	}
	for _, list := range [][]string{sent, received, wantSent, wantReceived} {
		slices.Sort(list)
	}
	if diff := cmp.Diff(wantSent, sent); diff != "" {
		t.Errorf("sent (-code +document):\n%s", diff)
	}
	if diff := cmp.Diff(wantReceived, received); diff != "" {
		t.Errorf("received (-code +document):\n%s", diff)
	}
}
