package backofficehttp_test

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"melmastoon.ghasi.io/bff"
	"melmastoon.ghasi.io/bff/internal/backoffice"
	"melmastoon.ghasi.io/bff/internal/backoffice/device"
)

const syncKey = "a key of the sync service, long enough"

// syncFake is sync-service, what is kept of it and the ledger of its mutations, in
// memory.
type syncFake struct {
	outbox *outboxFake

	mu         sync.Mutex
	cursors    map[bff.ID]device.SyncCursor // by device
	did        []backoffice.Activity
	handshakes []device.Handshake
	answers    map[string]backoffice.Answer // by key
	err        error                        // of mutations
	stale      bool                         // sync-service is away
	unrecorded error
}

func newSyncFake(o *outboxFake) *syncFake {
	return &syncFake{outbox: o, cursors: map[bff.ID]device.SyncCursor{}, answers: map[string]backoffice.Answer{}}
}

func (f *syncFake) fail(err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.err = err
}

func (f *syncFake) cursor(dev bff.ID) device.SyncCursor {
	if c, ok := f.cursors[dev]; ok {
		return c
	}
	return device.SyncCursor{PullCursor: "0", PushAck: "0", Version: 1}
}

func (f *syncFake) FindCursor(_ context.Context, _, device bff.ID) (device.SyncCursor, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	c := f.cursor(device)
	c.Stale = f.stale
	return c, nil
}

func (*syncFake) ForgetCursor(context.Context, bff.ID, bff.ID) error { return nil }

func (f *syncFake) MoveCursor(_ context.Context, _, dev bff.ID, m device.CursorMove, _ string) (device.SyncCursor, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	c := f.cursor(dev)
	if c.Version != m.Expected {
		return c, device.ErrCursorMoved
	}
	c.Version++
	if m.Pull != "" {
		c.PullCursor = m.Pull
	}
	if m.Push != "" {
		c.PushAck = m.Push
	}
	f.cursors[dev] = c
	return c, nil
}

func (f *syncFake) RecordHandshake(ctx context.Context, h device.Handshake, e bff.Event) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.unrecorded != nil {
		return f.unrecorded
	}
	f.handshakes = append(f.handshakes, h)
	return f.outbox.Record(ctx, nil, e)
}

func (f *syncFake) BeginMutation(_ context.Context, at backoffice.Attempt) (backoffice.Mutation, *backoffice.Answer, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.err != nil {
		return nil, nil, f.err
	}
	if earlier, ok := f.answers[at.Once.Key]; ok {
		earlier.Replayed = true
		return nil, &earlier, nil
	}
	return &mutationFake{f, at.Activity, at.Once}, nil, nil
}

type mutationFake struct {
	*syncFake

	activity backoffice.Activity
	once     backoffice.Once
}

func (m *mutationFake) Finish(ctx context.Context, d backoffice.Finished) (backoffice.Answer, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.did = append(m.did, m.activity.Ended(d.Failure, d.At))
	if d.Failure == nil {
		m.answers[m.once.Key] = d.Answer
	}
	return d.Answer, errors.Join(m.outbox.Record(ctx, nil, d.Events...), d.Failure)
}

func (*mutationFake) Release() {}

// nextMove is a body that moves the sender's cursor.
func (s *sender) nextMove() string {
	s.f.tb.Helper()
	s.f.syncing.mu.Lock()
	defer s.f.syncing.mu.Unlock()
	return fmt.Sprintf(`{"expectedVersion":%d,"pullCursor":"a+/="}`, s.f.syncing.cursor(s.caller().Device).Version)
}
