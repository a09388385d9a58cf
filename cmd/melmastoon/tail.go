package main

import (
	"context"
	"slices"

	"melmastoon.ghasi.io/bff/internal/backoffice"
	"melmastoon.ghasi.io/bff/internal/backoffice/backofficeevents"
	"melmastoon.ghasi.io/bff/internal/consumer"
	"melmastoon.ghasi.io/bff/internal/consumer/consumerevents"
	"melmastoon.ghasi.io/bff/internal/service"
)

type tail struct {
	terminal
	service.Tail
}

// Run shows what both services publish and receive.
func (t *tail) Run(ctx context.Context) error {
	w, err := t.find()
	if err != nil {
		return err
	}
	topics := received()
	for _, s := range consumer.Subjects() {
		topics = append(topics, string(s))
	}
	for _, s := range backoffice.Subjects() {
		topics = append(topics, string(s))
	}
	at := service.PubSubSettings{PubSubProject: w.Environment["PUBSUB_PROJECT_ID"], PubSubEmulator: w.Environment["PUBSUB_EMULATOR_HOST"]}
	return t.Follow(ctx, at, topics)
}

// received are the topics that either service listens to.
func received() []string {
	var topics []string
	for _, s := range slices.Concat(consumerevents.Subscriptions(), backofficeevents.Subscriptions()) {
		topics = append(topics, s.Topic)
	}
	slices.Sort(topics)
	return slices.Compact(topics)
}
