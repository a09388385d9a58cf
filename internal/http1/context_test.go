package http1

import (
	"context"
	"errors"
	"net/http"
	"runtime"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

type (
	someKey struct{}
	ownKey  struct{}
)

var errSpent = errors.New("spent")

func newContext(t *testing.T, parent context.Context, budget time.Duration) *Context { //nolint:revive // the test comes first
	t.Helper()
	r, err := http.NewRequestWithContext(parent, http.MethodGet, "/", nil)
	if err != nil {
		t.Fatal(err)
	}
	r, c := Own(r)
	if r.Context() != c {
		t.Fatal("a request with another's context")
	}
	c.Bear(ownKey{}, "own")
	if budget > 0 {
		c.Limit(time.Now().Add(budget), errSpent)
	}
	return c
}

func TestContextEndsWithTheBudget(t *testing.T) {
	t.Parallel()
	for name, wait := range map[string]func(t *testing.T, c context.Context){
		"waited for": func(_ *testing.T, c context.Context) { <-c.Done() },
		"polled": func(_ *testing.T, c context.Context) {
			for c.Err() == nil {
				<-time.After(time.Second)
			}
		},
		"through a child": func(t *testing.T, c context.Context) {
			t.Helper()
			child, cancel := context.WithCancel(c)
			defer cancel()
			<-child.Done()
			if !errors.Is(context.Cause(child), errSpent) {
				t.Errorf("the child's cause is %v", context.Cause(child))
			}
		},
		"asked late for its cause": func(*testing.T, context.Context) { <-time.After(time.Hour) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				c := newContext(t, t.Context(), time.Minute)
				defer c.End()
				if at, ok := c.Deadline(); !ok || time.Until(at) != time.Minute {
					t.Errorf("deadline %v, %v", at, ok)
				}
				wait(t, c)
				if cause := context.Cause(c); !errors.Is(cause, errSpent) || !errors.Is(c.Err(), context.DeadlineExceeded) {
					t.Errorf("err %v, cause %v", c.Err(), cause)
				}
			})
		})
	}
}

func TestContextEndsWithTheRequest(t *testing.T) {
	t.Parallel()
	c := newContext(t, t.Context(), time.Hour)
	if c.Err() != nil {
		t.Fatal(c.Err())
	}
	c.End()
	if !errors.Is(c.Err(), context.Canceled) {
		t.Errorf("err %v after the end", c.Err())
	}
	<-c.Done() // asked for the first time after the end
	if !errors.Is(context.Cause(c), context.Canceled) {
		t.Errorf("cause %v", context.Cause(c))
	}
	kept := context.WithoutCancel(c) // as work behind the answer keeps it
	if kept.Value(ownKey{}) != "own" || kept.Err() != nil {
		t.Error("its value is lost to the work behind the answer")
	}
}

func TestContextEndsWithItsParent(t *testing.T) {
	t.Parallel()
	parent, cancel := context.WithTimeout(context.WithValue(t.Context(), someKey{}, "x"), time.Hour)
	c := newContext(t, parent, 2*time.Hour)
	if c.Value(someKey{}) != "x" || c.Value(ownKey{}) != "own" {
		t.Error("values are lost")
	}
	want, _ := parent.Deadline()
	if got, ok := c.Deadline(); !ok || !got.Equal(want) {
		t.Errorf("deadline %v, want the parent's %v", got, want)
	}
	late := newContext(t, parent, 0)
	cancel()
	<-c.Done()
	for _, c := range []context.Context{c, late} {
		if !errors.Is(c.Err(), context.Canceled) {
			t.Errorf("err %v", c.Err())
		}
	}
}

// TestContextNeedsNoGoroutine: the standard library starts one for each child
// of a context that it does not know.
func TestContextNeedsNoGoroutine(t *testing.T) { //nolint:paralleltest // it counts goroutines
	c := newContext(t, t.Context(), time.Hour)
	defer c.End()
	before := runtime.NumGoroutine()
	for range 100 {
		_, cancel := context.WithCancel(c)
		defer cancel()
	}
	if n := runtime.NumGoroutine() - before; n >= 100 {
		t.Errorf("%d goroutines for 100 children", n)
	}
}

func TestContextConcurrently(t *testing.T) {
	t.Parallel()
	c := newContext(t, t.Context(), time.Hour)
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for c.Err() == nil {
				_ = c.Value(someKey{})
				_, _ = c.Deadline()
				runtime.Gosched()
			}
			<-c.Done()
		})
	}
	c.End()
	wg.Wait()
}
