package issuer

import (
	"context"
	"errors"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// stuck is an issuer that does not answer until it is released.
type stuck struct {
	asked   atomic.Int32
	release chan struct{}
}

func (s *stuck) RoundTrip(*http.Request) (*http.Response, error) {
	s.asked.Add(1)
	<-s.release
	return nil, errors.New("the issuer is down")
}

// Callers that come while the issuer does not answer wait for one fetch, none
// longer than its own budget, and the next fetch comes after a pause.
func TestIssuerDown(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		issuer := &stuck{release: make(chan struct{})}
		keys := &Keys{URL: "http://issuer", Client: &http.Client{Transport: issuer}}
		now := time.Now()
		var wg sync.WaitGroup
		for range 10 {
			wg.Go(func() {
				if _, err := keys.Current(t.Context(), now); !errors.Is(err, ErrNoKeys) {
					t.Errorf("got %v", err)
				}
			})
		}
		synctest.Wait()
		short, cancel := context.WithTimeout(t.Context(), time.Millisecond)
		defer cancel()
		if _, err := keys.Current(short, now); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("beyond its budget: %v", err)
		}
		close(issuer.release)
		wg.Wait()
		for _, test := range []struct {
			at   time.Time
			want int32
		}{{now.Add(keysPause / 2), 1}, {now.Add(keysPause), 2}} {
			if _, err := keys.Current(t.Context(), test.at); !errors.Is(err, ErrNoKeys) || issuer.asked.Load() != test.want {
				t.Errorf("%v after %d fetches, want %d", err, issuer.asked.Load(), test.want)
			}
		}
	})
}

// A copy that has become old is refreshed after the response; one that is much
// older is waited for; the same keys again are the same set.
func TestKeysGrowOld(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		i := newIssuer(t)
		i.add(t, "k1", true)
		keys := &Keys{URL: "http://issuer", Client: &http.Client{Transport: i}}
		now := time.Now()
		first, err := keys.Current(t.Context(), now)
		if err != nil {
			t.Fatal(err)
		}
		now = now.Add(keysFresh)
		if again, err := keys.Current(t.Context(), now); err != nil || again != first {
			t.Errorf("a refresh of the same keys: %v", err)
		}
		synctest.Wait()
		if n := i.asked.Load(); n != 2 {
			t.Errorf("%d fetches, want 2", n)
		}
		i.add(t, "k2", true)
		now = now.Add(keysFresh)
		if old, err := keys.Current(t.Context(), now); err != nil || old != first {
			t.Errorf("an old copy was waited for: %v", err)
		}
		synctest.Wait()
		second, err := keys.Current(t.Context(), now)
		if err != nil || second == first {
			t.Errorf("the new keys were not taken: %v", err)
		}
		i.add(t, "k3", true)
		now = now.Add(2 * keysFresh)
		third, err := keys.Current(t.Context(), now)
		if err != nil || third == second {
			t.Errorf("a copy that is much too old was used: %v", err)
		}

		// An issuer that hangs is waited for once; then the old keys go on.
		now = now.Add(time.Hour)
		hung := &stuck{release: make(chan struct{})}
		keys.Client = &http.Client{Transport: hung}
		short, cancel := context.WithTimeout(t.Context(), time.Millisecond)
		defer cancel()
		if _, err := keys.Current(short, now); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("the first caller: %v", err)
		}
		close(hung.release)
		synctest.Wait()
		hung.release = make(chan struct{})
		now = now.Add(keysPause)
		if old, err := keys.Current(t.Context(), now); err != nil || old != third {
			t.Errorf("while the issuer hangs: %v", err)
		}
		synctest.Wait()
		if n := hung.asked.Load(); n != 2 {
			t.Errorf("%d fetches, want 2", n)
		}
		close(hung.release)
	})
}
