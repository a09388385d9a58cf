package service

import (
	"encoding/json"
	"fmt"
	"io"
	"os"

	"melmastoon.ghasi.io/bff/internal/pubsub"
)

// topics lists what has to stand in a Pub/Sub project before the service starts
// there: on an emulator the service creates it by itself, in production it may not.
type topics struct {
	JSON bool `name:"json" help:"As JSON, for tools such as Terraform."`
}

// Run prints the list.
func (t *topics) Run(id Identity) error {
	if t.JSON {
		return WriteTopics(os.Stdout, id)
	}
	return printResources(os.Stdout, pubsub.Needed(id.Publishes, id.Receives))
}

// WriteTopics writes what a service needs as JSON.
func WriteTopics(w io.Writer, id Identity) error {
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	return e.Encode(pubsub.Needed(id.Publishes, id.Receives))
}

func printResources(w io.Writer, r pubsub.Resources) error {
	for _, topic := range r.Topics {
		if _, err := fmt.Fprintln(w, "topic", topic); err != nil {
			return err
		}
	}
	for _, topic := range r.Sources {
		if _, err := fmt.Fprintln(w, "topic of others", topic); err != nil {
			return err
		}
	}
	for _, s := range r.Subscriptions {
		dead := "none"
		if s.DeadLetterTopic != "" {
			dead = fmt.Sprintf("%s after %d attempts", s.DeadLetterTopic, s.MaxDeliveryAttempts)
		}
		if _, err := fmt.Fprintf(w, "subscription %s\n  of %s, ack within %d s, dead letters: %s\n", s.Name, s.Topic, s.AckDeadlineSeconds, dead); err != nil {
			return err
		}
	}
	return nil
}
