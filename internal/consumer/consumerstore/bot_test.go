package consumerstore_test

import (
	"math"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"melmastoon.ghasi.io/bff"
	"melmastoon.ghasi.io/bff/internal/consumer"
	"melmastoon.ghasi.io/bff/internal/consumer/bot"
	"melmastoon.ghasi.io/bff/internal/consumer/consumerstore"
	"melmastoon.ghasi.io/bff/internal/testkit"
)

var _ bot.BotMemory = (*consumerstore.Bots)(nil)

func TestBotMemory(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, s *shop) {
		t.Helper()
		ctx, now := testkit.Context(t), time.Now()
		here, there := consumerstore.NewBots(s.Store), consumerstore.NewBots(s.Store)

		// A challenge burns once, however many try.
		var (
			wg    sync.WaitGroup
			fresh atomic.Int32
		)
		for i := range 40 {
			wg.Go(func() {
				b := here
				if i%2 == 1 {
					b = there
				}
				if ok, err := b.Burn(ctx, "one", time.Minute); err != nil {
					t.Error(err)
				} else if ok {
					fresh.Add(1)
				}
			})
		}
		wg.Wait()
		if fresh.Load() != 1 {
			t.Errorf("a challenge was fresh %d times", fresh.Load())
		}

		// What is solved or blocked here is known there.
		until := now.Add(30 * time.Minute).Truncate(time.Millisecond)
		if err := here.Solved(ctx, 7, until); err != nil {
			t.Fatal(err)
		}
		if got, err := there.FindReputation(ctx, 7); err != nil || !got.SolvedUntil.Equal(until) {
			t.Errorf("reputation %v %v, want %v", got.SolvedUntil, err, until)
		}
		if got, err := there.FindReputation(ctx, 8); err != nil || !got.SolvedUntil.IsZero() {
			t.Errorf("reputation of another client: %v %v", got.SolvedUntil, err)
		}
		if err := here.Block(ctx, math.MaxUint64, now.Add(10*time.Minute)); err != nil {
			t.Fatal(err)
		}
		if err := here.Block(ctx, 5, now.Add(-time.Second)); err != nil {
			t.Fatal(err)
		}
		if got, err := there.Blocked(ctx, now); err != nil || len(got) != 1 || got[math.MaxUint64].IsZero() {
			t.Errorf("blocked: %v %v", got, err)
		}

		// A crowd is counted over all instances, each session once.
		for i, want := range []int{1, 1, 2, 3} {
			b := []*consumerstore.Bots{here, there}[i%2]
			if got, err := b.Collide(ctx, 3, uint64(max(i, 1)), now.Add(time.Duration(i)*time.Second)); err != nil || got != want {
				t.Errorf("collision %d: %d %v, want %d", i, got, err, want)
			}
		}
		if got, err := here.Collide(ctx, 3, 99, now.Add(2*time.Minute)); err != nil || got != 1 {
			t.Errorf("two minutes later: %d %v", got, err)
		}

		// Paces: each hears what the other counted, once.
		exchange := func(b *consumerstore.Bots, n int, since, at time.Time) int {
			t.Helper()
			others, err := b.ExchangePaces(ctx, []bot.Pace{{Client: 9, Requests: n, Since: since}}, at)
			if err != nil {
				t.Fatal(err)
			}
			return others[0]
		}
		second := func(n int) time.Time { return now.Add(time.Duration(n) * time.Second) }
		for i, step := range []struct {
			who       *consumerstore.Bots
			n         int
			since, at time.Time
			want      int
		}{
			{here, 10, time.Time{}, second(0), 0},
			{there, 5, time.Time{}, second(1), 10},
			{here, 3, second(0), second(2), 5},
			{there, 1, second(1), second(3), 3},
			{here, 1, second(2), second(90), 1}, // then everything before is too old
			{there, 1, time.Time{}, second(91), 1},
		} {
			if got := exchange(step.who, step.n, step.since, step.at); got != step.want {
				t.Errorf("step %d: heard of %d, want %d", i, got, step.want)
			}
		}
	})
}

func TestPenaltyDecays(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, s *shop) {
		t.Helper()
		ctx, now := testkit.Context(t), time.Now()
		bots := consumerstore.NewBots(s.Store)
		b := bot.BotSuspected{
			GuestSessionID: bff.NewID(bff.PrefixGuestSession, now), Score: 0.5, Verdict: "suspect", Signals: []bot.Signal{{Kind: bot.SignalHeaders, Weight: 0.5}},
			FingerprintHash: consumer.Hash{1}, EvaluatedAt: bff.At(now), ActionTaken: "none",
		}
		for range 2 {
			if err := s.Suspect(ctx, b, nil); err != nil {
				t.Fatal(err)
			}
		}
		for after, want := range map[time.Duration]float64{0: 1, 5 * time.Minute: 0.5, 10 * time.Minute: 0.25} {
			got, err := bots.Penalty(ctx, consumer.Hash{1}, now.Add(after))
			if err != nil || math.Abs(got-want) > 0.01 {
				t.Errorf("after %s: %v %v, want %v", after, got, err, want)
			}
		}
		if got, err := bots.Penalty(ctx, consumer.Hash{2}, now); err != nil || got != 0 {
			t.Errorf("somebody else's: %v %v", got, err)
		}
		b.EvaluatedAt = bff.At(now.Add(5 * time.Minute))
		if err := s.Suspect(ctx, b, nil); err != nil {
			t.Fatal(err)
		}
		if got, err := bots.Penalty(ctx, consumer.Hash{1}, now.Add(5*time.Minute)); err != nil || math.Abs(got-1) > 0.01 {
			t.Errorf("half of one and a new half: %v %v", got, err)
		}
	})
}
