package stack

import (
	"errors"
	"testing"

	"cloud.google.com/go/pubsub/v2/apiv1/pubsubpb"
)

// Where the emulator is installed it starts; elsewhere that is said, and no failure.
func TestEmulator(t *testing.T) {
	t.Parallel()
	ctx := testContext(t)
	e, err := StartEmulator(ctx, EmulatorConfig{})
	if errors.Is(err, ErrNoEmulator) {
		if java, jar := findEmulator(); java != "" && jar != "" {
			t.Errorf("%s and %s are here: %v", java, jar, err)
		}
		return
	}
	if err != nil {
		t.Fatal(err)
	}
	client := pubsubClient(t, &PubSub{Host: e.Host, ProjectID: "any"})
	if _, err := client.TopicAdminClient.CreateTopic(ctx, &pubsubpb.Topic{Name: "projects/any/topics/stays"}); err != nil {
		t.Error(err)
	}
	named, err := StartEmulator(ctx, EmulatorConfig{Host: e.Host})
	if err != nil || named.Host != e.Host {
		t.Errorf("named: %+v, %v", named, err)
	}
	if err := named.Close(); err != nil {
		t.Error(err)
	}
	if !e.proc.running() {
		t.Error("closing a named emulator stopped it")
	}
	if err := e.Close(); err != nil {
		t.Error(err)
	}
	if _, err := StartEmulator(ctx, EmulatorConfig{Host: e.Host}); err == nil {
		t.Error("an emulator that is not there was accepted")
	}
}
