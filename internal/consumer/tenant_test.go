package consumer_test

import (
	"context"
	"errors"
	"maps"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"melmastoon.ghasi.io/bff"
	"melmastoon.ghasi.io/bff/internal/consumer"
	"melmastoon.ghasi.io/bff/internal/consumer/booking"
	"melmastoon.ghasi.io/bff/internal/consumer/consumertest"
)

// record is what all instances know of tenants, and tenant-service with tenants
// that cannot be asked for.
type record struct {
	*platform
	consumer.TenantStatus
	list    *consumer.SuspendedTenants
	broken  map[int]bool
	seen    []bff.ID
	refuses bool // something newer was recorded

	mu        sync.Mutex
	asked     int
	at        map[int]time.Time // of what was corrected
	announced []int
}

func (r *record) FindTenant(ctx context.Context, id bff.ID) (consumer.Tenant, error) {
	r.mu.Lock()
	r.asked++
	r.mu.Unlock()
	if r.broken[consumertest.Number(id)] {
		return consumer.Tenant{}, errDown
	}
	return r.platform.FindTenant(ctx, id)
}

func (r *record) CorrectTenant(_ context.Context, c consumer.TenantChange, at time.Time) (bool, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.refuses {
		return false, nil
	}
	r.at[consumertest.Number(c.Tenant)] = at
	if c.Suspended {
		r.list.Suspend(c.Tenant)
	} else {
		r.list.Reinstate(c.Tenant)
	}
	return true, nil
}

func (r *record) Announce(_ context.Context, tenant bff.ID) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.announced = append(r.announced, consumertest.Number(tenant))
	return nil
}

func (r *record) ListTenants(_ context.Context, after bff.ID, limit int) ([]bff.ID, error) {
	from := 0
	if !after.IsZero() {
		from = slices.Index(r.seen, after) + 1
	}
	return r.seen[from:min(from+limit, len(r.seen))], nil
}

func (r *record) listed() []int {
	var out []int
	for _, id := range r.list.List() {
		out = append(out, consumertest.Number(id))
	}
	slices.Sort(out)
	return out
}

func readerOn(r *record, p *platform, tenants int, suspended ...int) *consumer.TenantReader {
	r.platform, r.list, r.at = platformOr(p), new(consumer.SuspendedTenants), map[int]time.Time{}
	for n := range tenants {
		r.seen = append(r.seen, tenantID(n+1))
	}
	for _, n := range suspended {
		r.list.Suspend(tenantID(n))
	}
	return consumer.NewTenantReader(consumer.TenantReaderConfig{
		Tenants: r, Suspended: r.list, Status: r, Now: func() time.Time { return midday },
		Behind: func(_ context.Context, work func(context.Context)) bool { work(context.Background()); return true },
		Failed: func(_ context.Context, _ bff.ID, err error) { panic(err) },
	})
}

// TestReconcile compares the list of suspended tenants with tenant-service.
func TestReconcile(t *testing.T) {
	t.Parallel()
	some := func(n ...int) map[int]bool {
		out := map[int]bool{}
		for _, n := range n {
			out[n] = true
		}
		return out
	}
	for _, tt := range []struct {
		name        string
		record      *record
		platform    *platform
		tenants     int
		suspended   []int // as the list has it
		want        []int // as the list has it afterwards
		wantChanged int
		wantErr     bool
	}{
		{name: "none was ever seen", platform: &platform{Suspended: some(1)}},
		{name: "suspended before we listened", platform: &platform{Suspended: some(3, 1200)}, tenants: 1300, want: []int{3, 1200}, wantChanged: 2},
		{name: "reinstated meanwhile", platform: &platform{Suspended: some(2)}, tenants: 3, suspended: []int{1, 2}, want: []int{2}, wantChanged: 1},
		{name: "all as known", platform: &platform{Suspended: some(2)}, tenants: 3, suspended: []int{2}, want: []int{2}},
		{
			name: "something newer is recorded", record: &record{refuses: true}, platform: &platform{Suspended: some(2)}, tenants: 3, suspended: []int{1},
			want: []int{1},
		},
		{
			name: "some fail", record: &record{broken: some(1, 4)}, platform: &platform{Suspended: some(3, 5)}, tenants: 5, suspended: []int{4},
			want: []int{3, 4, 5}, wantChanged: 2,
		},
		{name: "gone", platform: &platform{Unknown: some(1, 2, 3), Suspended: some(1, 2, 3)}, tenants: 3, suspended: []int{1}, want: []int{1}},
		{name: "tenant-service is away", platform: &platform{Down: failures{Tenant: errDown}}, tenants: 1000, suspended: []int{2}, want: []int{2}, wantErr: true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			r := tt.record
			if r == nil {
				r = new(record)
			}
			changed, err := readerOn(r, tt.platform, tt.tenants, tt.suspended...).Reconcile(t.Context(), r)
			if changed != tt.wantChanged || (err != nil) != tt.wantErr {
				t.Errorf("changed %d, %v; want %d", changed, err, tt.wantChanged)
			}
			if diff := cmp.Diff(tt.want, r.listed()); diff != "" {
				t.Errorf("suspended (-want +got):\n%s", diff)
			}
			if tt.wantErr && r.asked > 40 {
				t.Errorf("asked %d times although tenant-service is away", r.asked)
			}
			slices.Sort(r.announced)
			if diff := cmp.Diff(slices.Sorted(maps.Keys(r.at)), r.announced); diff != "" {
				t.Errorf("announced what was not corrected, or not all (-want +got):\n%s", diff)
			}
			for n, at := range r.at {
				if !at.Before(midday) {
					t.Errorf("the reading of tenant %d counts as of %v: it would win over an event that came while it ran", n, at)
				}
			}
		})
	}
}

// TestHandoffTellsOfASuspension: what a hand-off learns is known in this process
// before it is answered, and recorded and announced once.
func TestHandoffTellsOfASuspension(t *testing.T) {
	t.Parallel()
	p := &platform{Suspended: map[int]bool{7: true}}
	r := new(record)
	cfg := deskConfig(t, p)
	cfg.Tenants = readerOn(r, p, 0)
	desk := booking.NewHandoffDesk(cfg)
	for range 3 {
		if _, _, _, err := desk.Mint(t.Context(), stayRequest(), someGuest(true), &consumer.Visit{}, midday); bff.CodeOf(err) != bff.CodeTenantSuspended {
			t.Fatalf("got %v", err)
		}
	}
	if !r.list.Has(tenantID(7)) || !slices.Equal(r.announced, []int{7}) || !r.at[7].Before(midday) {
		t.Errorf("listed %v, announced %v, as of %v", r.listed(), r.announced, r.at)
	}
	// An answer that says "active" is no reason to show a tenant: the event may be newer.
	p.Suspended = nil
	if _, _, _, err := desk.Mint(t.Context(), stayRequest(), someGuest(true), &consumer.Visit{}, midday); err != nil {
		t.Fatal(err)
	}
	if !r.list.Has(tenantID(7)) {
		t.Error("a hand-off reinstated the tenant")
	}
}

// TestSuspensionBeingRecorded: a record that was read before the suspension is in it
// does not show the tenant again. Once it is recorded, or cannot be, the record decides.
func TestSuspensionBeingRecorded(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name       string
		taken      bool
		wantBefore bool  // Has, after a reading without the tenant
		want       []int // as the list has it after a reading at the end
	}{
		{name: "recorded", taken: true, wantBefore: true, want: []int{8}},
		{name: "too much work waits", want: []int{8}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			r := new(record)
			readerOn(r, &platform{Suspended: map[int]bool{7: true}}, 0)
			var work []func(context.Context)
			reader := consumer.NewTenantReader(consumer.TenantReaderConfig{
				Tenants: r, Suspended: r.list, Status: r, Now: func() time.Time { return midday },
				Behind: func(_ context.Context, w func(context.Context)) bool {
					if tt.taken {
						work = append(work, w)
					}
					return tt.taken
				},
				Failed: func(_ context.Context, _ bff.ID, err error) { t.Error(err) },
			})
			if _, err := reader.FindTenant(t.Context(), tenantID(7)); err != nil {
				t.Fatal(err)
			}
			if !r.list.Has(tenantID(7)) {
				t.Error("not suspended before the answer")
			}
			r.list.Replace([]bff.ID{tenantID(8)})
			if got := r.list.Has(tenantID(7)); got != tt.wantBefore || !r.list.Has(tenantID(8)) {
				t.Errorf("after a reading: %v listed, want 7 there: %v", r.listed(), tt.wantBefore)
			}
			for _, w := range work {
				w(t.Context())
			}
			r.list.Replace([]bff.ID{tenantID(8)}) // it was reinstated meanwhile
			if diff := cmp.Diff(tt.want, r.listed()); diff != "" {
				t.Errorf("suspended (-want +got):\n%s", diff)
			}
		})
	}
}

// TestReconcileEndsWithTheProcess: a run that is cut short is no success.
func TestReconcileEndsWithTheProcess(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	r := new(record)
	if _, err := readerOn(r, nil, 10).Reconcile(ctx, r); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
}
