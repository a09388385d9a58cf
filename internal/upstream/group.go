package upstream

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"runtime/debug"
	"sync"
	"time"
)

// Branch is one part of a fan-out.
type Branch struct {
	Part string // names the part in the outcome
	// Cap bounds the branch; 0 leaves it what is left of the whole.
	Cap time.Duration
	// Run does the work and returns when ctx ends. It writes its result to a
	// variable of its own, which may be read once its outcome is there.
	Run func(ctx context.Context) error
}

// Outcome is how a branch ended. Reason is "" and Err nil if it is whole.
type Outcome struct {
	Part   string
	Reason Reason
	Err    error
	Took   time.Duration
}

// errBranch is the cause of a branch's context that ended at its own cap.
var errBranch = errors.New("branch cap reached")

// Gather runs the branches at once and returns their outcomes in their order,
// after the last has ended. Each has min(its cap, what is left of ctx and
// budget); budget 0 means what ctx has.
func Gather(ctx context.Context, budget time.Duration, branches ...Branch) []Outcome {
	outcomes := make([]Outcome, len(branches))
	for i, o := range each(ctx, budget, branches) {
		outcomes[i] = o
	}
	return outcomes
}

// Each is Gather, with the outcomes as they come. Leaving the loop cancels what
// still runs and waits for it.
func Each(ctx context.Context, budget time.Duration, branches ...Branch) iter.Seq[Outcome] {
	return func(yield func(Outcome) bool) {
		for _, o := range each(ctx, budget, branches) {
			if !yield(o) {
				return
			}
		}
	}
}

// Partial returns the outcomes that are not whole.
func Partial(outcomes []Outcome) []Outcome {
	var partial []Outcome
	for _, o := range outcomes {
		if o.Err != nil {
			partial = append(partial, o)
		}
	}
	return partial
}

func each(ctx context.Context, budget time.Duration, branches []Branch) iter.Seq2[int, Outcome] {
	return func(yield func(int, Outcome) bool) {
		ctx, cancel := within(ctx, budget)
		var running sync.WaitGroup
		defer running.Wait()
		defer cancel()

		type result struct {
			index    int
			outcome  Outcome
			panicked any
		}
		results := make(chan result, len(branches)) // room for all: nobody waits to report
		for i, b := range branches {
			running.Go(func() {
				r := result{index: i}
				defer func() {
					if p := recover(); p != nil {
						r.panicked = fmt.Sprintf("branch %s: %v\n\n%s", b.Part, p, debug.Stack())
					}
					results <- r
				}()
				r.outcome = b.run(ctx)
			})
		}
		for range branches {
			r := <-results
			if r.panicked != nil { // where the caller's recovery can see it; a lone goroutine would end the process
				panic(r.panicked)
			}
			if !yield(r.index, r.outcome) {
				return
			}
		}
	}
}

func (b Branch) run(ctx context.Context) Outcome {
	if b.Cap > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeoutCause(ctx, b.Cap, errBranch)
		defer cancel()
	}
	start := time.Now()
	err := b.Run(ctx)
	o := Outcome{Part: b.Part, Reason: ReasonOf(err), Err: err, Took: time.Since(start)}
	if o.Reason == Budget && errors.Is(context.Cause(ctx), errBranch) {
		o.Reason = Timeout // its own cap, not the caller's patience
	}
	return o
}

func within(ctx context.Context, budget time.Duration) (context.Context, context.CancelFunc) {
	if budget > 0 {
		return context.WithTimeout(ctx, budget)
	}
	return context.WithCancel(ctx)
}
