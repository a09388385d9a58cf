package backofficed

import (
	"fmt"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"melmastoon.ghasi.io/bff/internal/backoffice"
	"melmastoon.ghasi.io/bff/internal/backoffice/backofficeevents"
	"melmastoon.ghasi.io/bff/internal/backoffice/stream"
	"melmastoon.ghasi.io/bff/internal/pubsub"
	"melmastoon.ghasi.io/bff/internal/testkit"
)

// TestReceivedEventsAreDescribed: docs/events.md says what each received event means, which
// copies it makes void and what streams are told; the received part of the AsyncAPI document
// is written from that and from the code.
func TestReceivedEventsAreDescribed(t *testing.T) {
	t.Parallel()
	const prefix = "melmastoon."
	meaning := map[string]string{}
	var order []string
	for _, row := range testkit.Table(t, "events.md", "Topic") {
		meaning[row["Topic"]] = row["Meaning"]
		order = append(order, prefix+row["Topic"])
	}
	code := map[string]map[string]string{}
	for _, r := range stream.Reactions() {
		topic := strings.TrimPrefix(r.Topic, prefix)
		row := map[string]string{"Meaning": meaning[topic], "Void": "all", "Told": ""}
		if len(r.Parts) != len(backoffice.Parts()) {
			var parts []string
			for _, p := range r.Parts {
				parts = append(parts, string(p))
			}
			row["Void"] = strings.Join(parts, ", ")
		}
		if r.Type != "" {
			row["Told"] = string(r.Channel) + ":" + r.Type
		}
		code[topic] = row
	}
	compareRows(t, "events.md", "Topic", code)
	page, err := os.ReadFile("../../../docs/events.md")
	if err != nil {
		t.Fatal(err)
	}
	if count := fmt.Sprintf("\n%d topics, each with a subscription", len(code)); !strings.Contains(string(page), count) {
		t.Errorf("docs/events.md does not say %q", strings.TrimSpace(count))
	}
	if t.Failed() {
		return // what does not hold is not written
	}
	const name = "../../../contracts/asyncapi/backoffice.yaml"
	document, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	subscriptions := map[string]pubsub.Subscription{}
	for _, s := range backofficeevents.Subscriptions() {
		subscriptions[s.Topic] = s
	}
	var channels, operations, messages strings.Builder
	for _, topic := range order {
		r, ok := stream.FindReaction(topic)
		if !ok {
			t.Fatalf("no reaction to %s", topic)
		}
		writeReceived(&channels, &operations, &messages, r, subscriptions[topic], meaning[strings.TrimPrefix(topic, prefix)])
	}
	testkit.CheckFile(t, name, received(t, string(document), channels.String(), operations.String(), messages.String()))
}

var receivedPart = regexp.MustCompile(`(?s)(# Received events: written with -write-docs\.\n).*?( *# End of received events\.\n)`)

// received puts the parts in the places of a document that are marked for them.
func received(t *testing.T, document string, parts ...string) string {
	t.Helper()
	n := 0
	out := receivedPart.ReplaceAllStringFunc(document, func(part string) string {
		n++
		return receivedPart.ReplaceAllString(part, "${1}"+strings.ReplaceAll(parts[n-1], "$", "$$")+"${2}")
	})
	if n != len(parts) {
		t.Fatalf("the document has no place for %d parts", len(parts))
	}
	return out
}

// writeReceived writes channel, operation and message of one topic.
func writeReceived(channels, operations, messages *strings.Builder, r *stream.Reaction, s pubsub.Subscription, meaning string) {
	words := strings.FieldsFunc(strings.TrimSuffix(strings.TrimPrefix(r.Topic, "melmastoon."), ".v1"), func(c rune) bool { return c == '.' || c == '_' })
	var title string
	for _, w := range words {
		title += strings.ToUpper(w[:1]) + w[1:]
	}
	name := strings.ToLower(title[:1]) + title[1:]
	fmt.Fprintf(channels, `  %[1]s:
    address: %[2]s
    title: %[3]q
    messages:
      %[1]s:
        $ref: '#/components/messages/%[1]s'
`, name, r.Topic, meaning)
	fmt.Fprintf(operations, `  receive%s:
    action: receive
    description: %q
    channel:
      $ref: '#/channels/%[3]s'
    messages:
      - $ref: '#/channels/%[3]s/messages/%[3]s'
    x-subscription:
      name: %[4]s
      ackDeadlineSeconds: %[5]d
      maxDeliveryAttempts: %[6]d
      deadLetterTopic: %[7]s
`, title, meaning+".", name, s.Name, s.AckDeadline/time.Second, s.MaxAttempts, s.DLQ)
	fmt.Fprintf(messages, "    %s:\n      name: %s\n      title: %q\n      contentType: application/json\n      payload:\n", name, r.Topic, meaning)
	switch {
	case r.Access:
		required := "tenantId"
		switch r.Topic { // as the receiver demands
		case stream.TopicUserLocked, stream.TopicMemberAdded, stream.TopicMemberChanged, stream.TopicMemberRemoved:
			required += ", operatorId"
		case stream.TopicDeviceRevoked, stream.TopicDeviceTrusted:
			required += ", deviceId"
		}
		fmt.Fprintf(messages, `        type: object
        description: What is read of the payload; the producer has the whole of it.
        required: [%s]
        properties:
          tenantId: {type: string}
          operatorId: {type: string}
          deviceId: {type: string}
          reason: {type: string}
`, required)
	case len(r.Details) > 0:
		messages.WriteString("        allOf:\n          - $ref: '#/components/schemas/ofProperty'\n          - type: object\n            properties:\n")
		for _, d := range r.Details {
			messages.WriteString("              " + d.Name + ": {type: string}\n")
		}
	default:
		messages.WriteString("        $ref: '#/components/schemas/ofProperty'\n")
	}
}
