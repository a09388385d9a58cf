package web

import (
	"context"
	"errors"
	"runtime"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

type someKey struct{}

func newContext(parent context.Context, budget time.Duration) *requestContext {
	c := &requestContext{parent: parent, req: &Request{name: "own"}}
	if budget > 0 {
		c.deadline = time.Now().Add(budget)
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
			if !errors.Is(context.Cause(child), errBudget) {
				t.Errorf("the child's cause is %v", context.Cause(child))
			}
		},
		"asked late for its cause": func(*testing.T, context.Context) { <-time.After(time.Hour) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				c := newContext(t.Context(), time.Minute)
				defer c.end()
				if at, ok := c.Deadline(); !ok || time.Until(at) != time.Minute {
					t.Errorf("deadline %v, %v", at, ok)
				}
				if cause := context.Cause(c); cause != nil {
					t.Errorf("cause %v before the end", cause)
				}
				wait(t, c)
				if cause := context.Cause(c); !errors.Is(cause, errBudget) || !errors.Is(c.Err(), context.DeadlineExceeded) {
					t.Errorf("err %v, cause %v", c.Err(), cause)
				}
			})
		})
	}
}

func TestContextEndsWithTheRequest(t *testing.T) {
	t.Parallel()
	c := newContext(context.WithValue(t.Context(), someKey{}, "x"), time.Hour)
	if c.Err() != nil {
		t.Fatal(c.Err())
	}
	c.end()
	if !errors.Is(c.Err(), context.Canceled) {
		t.Errorf("err %v after the end", c.Err())
	}
	<-c.Done() // asked for the first time after the end
	if !errors.Is(context.Cause(c), context.Canceled) {
		t.Errorf("cause %v", context.Cause(c))
	}
	kept := context.WithoutCancel(c) // as work after the response keeps it
	if From(kept).name != "own" || kept.Value(someKey{}) != "x" || kept.Err() != nil {
		t.Error("values are lost to the work after the response")
	}
}

func TestContextEndsWithItsParent(t *testing.T) {
	t.Parallel()
	parent, cancel := context.WithTimeout(context.WithValue(t.Context(), someKey{}, "x"), time.Hour)
	c := newContext(parent, 2*time.Hour)
	if c.Value(someKey{}) != "x" || From(c).name != "own" {
		t.Error("values are lost")
	}
	want, _ := parent.Deadline()
	if got, ok := c.Deadline(); !ok || !got.Equal(want) {
		t.Errorf("deadline %v, want the parent's %v", got, want)
	}
	late := newContext(parent, 0)
	if c.left() {
		t.Error("the client has left already")
	}
	cancel()
	<-c.Done()
	for _, c := range []*requestContext{c, late} {
		if !errors.Is(c.Err(), context.Canceled) || !c.left() {
			t.Errorf("err %v, left %v", c.Err(), c.left())
		}
	}
}

// TestContextStartsWithAWait: reading values and the state starts no timer, and
// the server's watch over the client with it.
func TestContextStartsWithAWait(t *testing.T) {
	t.Parallel()
	c := newContext(t.Context(), time.Hour)
	defer c.end()
	_, _, _ = c.Err(), c.Value(someKey{}), context.Cause(c)
	_, _ = c.Deadline()
	if c.started != nil {
		t.Error("started before a call of Done")
	}
}

// TestContextNeedsNoGoroutine: the standard library starts one for each child
// of a context that it does not know.
func TestContextNeedsNoGoroutine(t *testing.T) { //nolint:paralleltest // it counts goroutines
	c := newContext(t.Context(), time.Hour)
	defer c.end()
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
	c := newContext(t.Context(), time.Hour)
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
	c.end()
	wg.Wait()
}
