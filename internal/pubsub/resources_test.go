package pubsub_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"melmastoon.ghasi.io/bff/internal/pubsub"
)

func TestNeeded(t *testing.T) {
	t.Parallel()
	got := pubsub.Needed([]string{"b", "a"}, []pubsub.Subscription{
		{Name: "s.x", Topic: "x", DLQ: "s.x.dlq", MaxAttempts: 10, MinBackoff: 250 * time.Millisecond, Ordered: true},
		{Name: "s.y", Topic: "y", AckDeadline: time.Minute},
		{Name: "s.x2", Topic: "x", DLQ: "s.x.dlq", Filter: "f"},
	})
	want := pubsub.Resources{
		Topics: []string{"a", "b", "s.x.dlq"}, Sources: []string{"x", "y"},
		Subscriptions: []pubsub.Resource{
			// Pub/Sub's own limit is twice ours, which must be reached first.
			{
				Name: "s.x", Topic: "x", DeadLetterTopic: "s.x.dlq", MaxDeliveryAttempts: 20, AckDeadlineSeconds: 30, MinBackoff: "0.25s", MaxBackoff: "10s",
				Ordered: true,
			},
			{Name: "s.y", Topic: "y", AckDeadlineSeconds: 60, MinBackoff: "0.1s", MaxBackoff: "10s"},
			{Name: "s.x2", Topic: "x", DeadLetterTopic: "s.x.dlq", MaxDeliveryAttempts: 10, AckDeadlineSeconds: 30, MinBackoff: "0.1s", MaxBackoff: "10s", Filter: "f"},
		},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("resources (-want +got):\n%s", diff)
	}
}
