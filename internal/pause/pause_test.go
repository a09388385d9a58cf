package pause

import (
	"context"
	"testing"
	"testing/synctest"
	"time"
)

func TestFor(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		if !For(t.Context(), time.Minute) || time.Since(began) != time.Minute {
			t.Errorf("waited for %s, want a minute to the end", time.Since(began))
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if began = time.Now(); For(ctx, time.Minute) || time.Since(began) != time.Second {
			t.Errorf("waited for %s, want as long as the caller and no end", time.Since(began))
		}
		for range 1000 {
			if d := Jitter(time.Second); d < time.Second/2 || d > time.Second {
				t.Fatalf("a second became %s", d)
			}
		}
	})
}
