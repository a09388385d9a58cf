package backofficewarehouse_test

import (
	"context"
	"encoding/json"
	"errors"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/api/bigquery/v2"
	"google.golang.org/api/option"

	"melmastoon.ghasi.io/bff/internal/backoffice/backofficelake"
	"melmastoon.ghasi.io/bff/internal/backoffice/backofficewarehouse"
	"melmastoon.ghasi.io/bff/internal/testkit"
)

// fakeBigQuery speaks jobs.insert and jobs.get.
type fakeBigQuery struct {
	mu     sync.Mutex
	jobs   map[string]*bigquery.Job
	loaded []string // sources of the jobs that succeeded
	// How it behaves.
	away  bool            // answers 503
	lose  bool            // takes a job and cuts the connection
	fail  string          // jobs that begin now fail for this reason
	hold  bool            // jobs do not end
	asked func(id string) // called when a job is looked at
}

func (f *fakeBigQuery) set(change func()) {
	f.mu.Lock()
	defer f.mu.Unlock()
	change()
}

// outcome is what was loaded, and the jobs there are.
func (f *fakeBigQuery) outcome() (loaded []string, jobs []*bigquery.Job) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Clone(f.loaded), slices.Collect(maps.Values(f.jobs))
}

func (f *fakeBigQuery) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	f.mu.Lock()
	defer f.mu.Unlock()
	rest, ours := strings.CutPrefix(r.URL.Path, "/bigquery/v2/projects/some-project/jobs")
	switch {
	case f.away:
		refuse(w, http.StatusServiceUnavailable)
	case !ours:
		refuse(w, http.StatusNotFound)
	case r.Method == http.MethodPost && rest == "":
		f.insert(w, r)
	case r.Method == http.MethodGet:
		f.get(w, r, strings.TrimPrefix(rest, "/"))
	default:
		refuse(w, http.StatusMethodNotAllowed)
	}
}

func (f *fakeBigQuery) insert(w http.ResponseWriter, r *http.Request) {
	job := &bigquery.Job{}
	if err := json.NewDecoder(r.Body).Decode(job); err != nil {
		refuse(w, http.StatusBadRequest)
		return
	}
	id := job.JobReference.JobId
	if f.jobs[id] != nil {
		refuse(w, http.StatusConflict)
		return
	}
	job.Status = &bigquery.JobStatus{State: "RUNNING"}
	if f.fail != "" {
		job.Status.ErrorResult = &bigquery.ErrorProto{Reason: f.fail, Message: "in detail"}
	}
	f.jobs[id] = job
	if f.lose {
		panic(http.ErrAbortHandler)
	}
	answer(w, job)
}

func (f *fakeBigQuery) get(w http.ResponseWriter, r *http.Request, id string) {
	job := f.jobs[id]
	if job == nil || r.URL.Query().Get("location") != "asia-south1" {
		refuse(w, http.StatusNotFound)
		return
	}
	if f.asked != nil {
		f.asked(id)
	}
	if job.Status.State == "RUNNING" && !f.hold {
		job.Status.State = "DONE"
		if job.Status.ErrorResult == nil {
			f.loaded = append(f.loaded, job.Configuration.Load.SourceUris...)
		}
	}
	answer(w, job)
}

func answer(w http.ResponseWriter, job *bigquery.Job) {
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(job) // a test that is told nothing fails
}

func refuse(w http.ResponseWriter, status int) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(map[string]any{"error": map[string]any{"code": status, "message": http.StatusText(status)}}) // as above
}

func mustParse(t *testing.T, address string) *url.URL {
	t.Helper()
	u, err := url.Parse(address)
	if err != nil {
		t.Fatal(err)
	}
	return u
}

// openBigQuery returns a fake and what loads into it.
func openBigQuery(t *testing.T, lake string) (*fakeBigQuery, *backofficewarehouse.BigQuery) {
	t.Helper()
	fake := &fakeBigQuery{jobs: map[string]*bigquery.Job{}}
	server := httptest.NewServer(fake)
	t.Cleanup(server.Close)
	q, err := backofficewarehouse.New(mustParse(t, lake), mustParse(t, "bigquery://some-project/staff_audit?location=asia-south1"),
		option.WithEndpoint(server.URL+"/bigquery/v2/"), option.WithoutAuthentication())
	if err != nil {
		t.Fatal(err)
	}
	return fake, q
}

var (
	target = backofficelake.Target{Table: "operator_activity", Moment: "occurred_at"}
	file   = backofficelake.File{Path: "operator_activity/month=2026-11/1-2-abcd.parquet", SHA256: "abcd"}
)

const uri = "gs://the-lake/operator_activity/month=2026-11/1-2-abcd.parquet"

// A file is one job, however often it is loaded; another file is another job.
func TestLoadIsOneJob(t *testing.T) {
	t.Parallel()
	fake, q := openBigQuery(t, "gs://the-lake?prefix=audit/")
	other := backofficelake.File{Path: "operator_activity/month=2026-11/2-3-ef01.parquet", SHA256: "ef01"}
	for _, f := range []backofficelake.File{file, file, other, file} {
		if err := q.Load(testkit.Context(t), target, f); err != nil {
			t.Fatal(err)
		}
	}
	loaded, jobs := fake.outcome()
	if diff := cmp.Diff([]string{"gs://the-lake/audit/" + file.Path, "gs://the-lake/audit/" + other.Path}, loaded); diff != "" {
		t.Errorf("loaded: %s", diff)
	}
	if len(jobs) != 2 {
		t.Fatalf("%d jobs, want 2", len(jobs))
	}
	for _, job := range jobs {
		want := &bigquery.JobConfigurationLoad{
			SourceUris: job.Configuration.Load.SourceUris, SourceFormat: "PARQUET",
			DestinationTable:  &bigquery.TableReference{ProjectId: "some-project", DatasetId: "staff_audit", TableId: "operator_activity"},
			CreateDisposition: "CREATE_IF_NEEDED", WriteDisposition: "WRITE_APPEND",
			TimePartitioning:    &bigquery.TimePartitioning{Type: "MONTH", Field: "occurred_at"},
			SchemaUpdateOptions: []string{"ALLOW_FIELD_ADDITION"},
		}
		if diff := cmp.Diff(want, job.Configuration.Load); diff != "" {
			t.Error(diff)
		}
	}
}

// Whatever a first attempt met, the next one loads the file, and nothing is loaded twice.
func TestLoadIsTriedAgain(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name    string
		first   func(f *fakeBigQuery)
		want    string // of the first attempt's error
		jobs    int
		refusal string // final, for now; empty = it is not about the file
	}{
		{"away", func(f *fakeBigQuery) { f.away = true }, "503", 1, ""},
		{"answer lost", func(f *fakeBigQuery) { f.lose = true }, "load job", 1, ""},
		{"failed job", func(f *fakeBigQuery) { f.fail = "accessDenied" }, "accessDenied: in detail", 2, "for now"},
		{"refused file", func(f *fakeBigQuery) { f.fail = "invalid" }, "invalid: in detail", 2, "final"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			fake, q := openBigQuery(t, "gs://the-lake")
			fake.set(func() { tt.first(fake) })
			err := q.Load(testkit.Context(t), target, file)
			if err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("%v, want %s", err, tt.want)
			}
			refusal := ""
			if r, ok := errors.AsType[*backofficelake.Refusal](err); ok {
				refusal = map[bool]string{true: "final", false: "for now"}[r.Final]
			}
			if refusal != tt.refusal {
				t.Errorf("refusal %q, want %q", refusal, tt.refusal)
			}
			fake.set(func() { fake.away, fake.lose, fake.fail = false, false, "" })
			for range 2 {
				if err := q.Load(testkit.Context(t), target, file); err != nil {
					t.Error(err)
				}
			}
			loaded, jobs := fake.outcome()
			if diff := cmp.Diff([]string{uri}, loaded); diff != "" {
				t.Errorf("loaded: %s", diff)
			}
			if len(jobs) != tt.jobs {
				t.Errorf("%d jobs, want %d", len(jobs), tt.jobs)
			}
		})
	}
}

// A job that outlasts its run is found by the next.
func TestLongLoadIsFoundAgain(t *testing.T) {
	t.Parallel()
	fake, q := openBigQuery(t, "gs://the-lake")
	ctx, cancel := context.WithCancel(testkit.Context(t))
	defer cancel()
	fake.set(func() { fake.hold, fake.asked = true, func(string) { cancel() } })
	if err := q.Load(ctx, target, file); err == nil {
		t.Error("was loaded by a job that still runs")
	}
	fake.set(func() { fake.hold, fake.asked = false, nil })
	if err := q.Load(testkit.Context(t), target, file); err != nil {
		t.Error(err)
	}
	loaded, jobs := fake.outcome()
	if diff := cmp.Diff([]string{uri}, loaded); diff != "" || len(jobs) != 1 {
		t.Errorf("%d jobs, loaded: %s", len(jobs), diff)
	}
}

func TestWarehouseMustFitTheLake(t *testing.T) {
	t.Parallel()
	const (
		local = "warehouse-url: BigQuery loads from Google Cloud Storage alone, so that lake-url must be gs://bucket"
		name  = "warehouse-url: want bigquery://project/dataset"
	)
	for _, tt := range []struct{ lake, warehouse, want string }{
		{"file:///lake", "bigquery://some-project/staff_audit", local},
		{"", "bigquery://some-project/staff_audit", local},
		{"gs://lake", "bigquery://some-project", name},
		{"gs://lake", "bigquery://some-project/staff-audit", name},
		{"gs://lake", "bigquery:///staff_audit", name},
		{"file:///lake", "bigquery://UP/", local + "\n" + name},
	} {
		if _, err := backofficewarehouse.OpenLoader(tt.lake, tt.warehouse); err == nil || err.Error() != tt.want {
			t.Errorf("%s into %s: %v, want %s", tt.lake, tt.warehouse, err, tt.want)
		}
	}
	if _, err := backofficewarehouse.OpenLoader("gs://lake", "bigquery://some-project/staff_audit"); err != nil {
		t.Error(err)
	}
}

func TestWarehouseIsKnown(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ name, lake, warehouse, want string }{
		{"no URL", "gs://bucket", "bigquery://%zz", "warehouse-url: it or lake-url is no URL"},
		{
			"not in this program", "gs://bucket", "elsewhere://project/dataset",
			`warehouse-url: this program can not load into "elsewhere", want bigquery://project/dataset`,
		},
	} {
		if _, err := backofficewarehouse.OpenLoader(tt.lake, tt.warehouse); err == nil || err.Error() != tt.want {
			t.Errorf("%s: %v, want %s", tt.name, err, tt.want)
		}
	}
	if l, err := backofficewarehouse.OpenLoader("file:///lake", ""); l != nil || err != nil {
		t.Errorf("without: %v, %v", l, err)
	}
}
