// Package backofficewarehouse opens where the audit lake's files are, a directory or Google Cloud Storage, and loads them into BigQuery. It
// brings the cloud's clients along, and knows nothing of rows and seals.
package backofficewarehouse

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"

	"google.golang.org/api/bigquery/v2"
	"google.golang.org/api/googleapi"
	"google.golang.org/api/option"

	"melmastoon.ghasi.io/bff/internal/backoffice/backofficelake"
)

// OpenLoader opens a warehouse by its URL; nil for none. What does not fit the lake is refused.
func OpenLoader(lake, warehouse string) (backofficelake.Loader, error) {
	if warehouse == "" {
		return nil, nil //nolint:nilnil // files are loaded nowhere
	}
	from, err1 := url.Parse(lake)
	to, err2 := url.Parse(warehouse)
	if err := errors.Join(err1, err2); err != nil {
		return nil, errors.New("warehouse-url: it or lake-url is no URL") // the cause quotes them
	}
	if to.Scheme != "bigquery" {
		return nil, fmt.Errorf("warehouse-url: this program can not load into %q, want bigquery://project/dataset", to.Scheme)
	}
	return New(from, to)
}

const (
	// loadTimeout is what one file has, within the time of a run. A load that takes
	// longer goes on, and the next run finds it.
	loadTimeout = 4 * time.Minute
	callTimeout = 30 * time.Second
	// Between two looks at a job that runs.
	firstPause = 250 * time.Millisecond
	maxPause   = 10 * time.Second
	// maxFailures is after how many failed jobs a file is given up. Each is a job of its
	// own, because a job that has failed can not be run again.
	maxFailures = 500
)

// finalReasons are why a job fails that would fail again with the same file. Others, as a
// right that is missing or a quota, pass.
var finalReasons = []string{"invalid", "badRequest", "notImplemented", "responseTooLarge"}

// BigQuery loads files from Google Cloud Storage, each with a load job of its own.
type BigQuery struct {
	project, dataset, location string
	bucket, prefix             string

	options []option.ClientOption
	mu      sync.Mutex
	service *bigquery.Service // nil until the first file
}

// The names that BigQuery takes.
var (
	projectName = regexp.MustCompile(`^[a-z][a-z0-9-]{4,28}[a-z0-9]$`)
	datasetName = regexp.MustCompile(`^[A-Za-z0-9_]{1,255}$`)
)

// New returns what loads the files of a lake, gs://bucket, into a warehouse,
// bigquery://project/dataset?location=EU. It does not call BigQuery yet.
func New(lake, warehouse *url.URL, options ...option.ClientOption) (*BigQuery, error) {
	var errs []error
	if lake.Scheme != "gs" || lake.Host == "" {
		errs = append(errs, errors.New("warehouse-url: BigQuery loads from Google Cloud Storage alone, so that lake-url must be gs://bucket"))
	}
	dataset := strings.TrimPrefix(warehouse.Path, "/")
	if !projectName.MatchString(warehouse.Host) || !datasetName.MatchString(dataset) {
		errs = append(errs, errors.New("warehouse-url: want bigquery://project/dataset"))
	}
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	return &BigQuery{
		project: warehouse.Host, dataset: dataset, location: warehouse.Query().Get("location"),
		bucket: lake.Host, prefix: lake.Query().Get("prefix"), options: options,
	}, nil
}

var _ backofficelake.Loader = (*BigQuery)(nil)

// Load appends a file to its table, once: the job's id follows from the file, so that a
// repeated load finds the job of the first.
func (q *BigQuery) Load(ctx context.Context, t backofficelake.Target, f backofficelake.File) error {
	ctx, cancel := context.WithTimeout(ctx, loadTimeout)
	defer cancel()
	jobs, err := q.jobs(ctx)
	if err != nil {
		return err
	}
	uri := "gs://" + q.bucket + "/" + q.prefix + f.Path
	sum := sha256.Sum256([]byte(strings.Join([]string{q.project, q.dataset, t.Table, uri, f.SHA256}, "\n")))
	for failures := range maxFailures {
		id := fmt.Sprintf("bff_backoffice_lake_%s_%d", hex.EncodeToString(sum[:16]), failures)
		job, earlier, err := q.begin(ctx, jobs, id, q.configuration(t, uri))
		if err == nil {
			job, err = q.await(ctx, jobs, id, job)
		}
		switch {
		case err != nil:
			return fmt.Errorf("load job %s: %w", id, err)
		case job.Status.ErrorResult == nil:
			return nil
		case !earlier:
			e := job.Status.ErrorResult
			return &backofficelake.Refusal{Detail: fmt.Sprintf("load job %s: %s: %s", id, e.Reason, e.Message), Final: slices.Contains(finalReasons, e.Reason)}
		}
		// A job of an earlier run that failed has loaded nothing.
	}
	return &backofficelake.Refusal{Detail: fmt.Sprintf("load of %s has failed %d times: see the jobs of the project", uri, maxFailures), Final: true}
}

// jobs opens the client. It looks for credentials, which may be missing for a while.
func (q *BigQuery) jobs(ctx context.Context) (*bigquery.JobsService, error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.service == nil {
		s, err := bigquery.NewService(context.WithoutCancel(ctx), q.options...)
		if err != nil {
			return nil, fmt.Errorf("open BigQuery: %w", err)
		}
		q.service = s
	}
	return q.service.Jobs, nil
}

func (q *BigQuery) configuration(t backofficelake.Target, uri string) *bigquery.JobConfiguration {
	return &bigquery.JobConfiguration{
		Labels: map[string]string{"service": "bff-backoffice"},
		Load: &bigquery.JobConfigurationLoad{
			SourceUris: []string{uri}, SourceFormat: "PARQUET",
			DestinationTable:  &bigquery.TableReference{ProjectId: q.project, DatasetId: q.dataset, TableId: t.Table},
			CreateDisposition: "CREATE_IF_NEEDED", WriteDisposition: "WRITE_APPEND",
			// Files are of one month each: a load writes one partition.
			TimePartitioning: &bigquery.TimePartitioning{Type: "MONTH", Field: t.Moment},
			// A later release may export a column more.
			SchemaUpdateOptions: []string{"ALLOW_FIELD_ADDITION"},
		},
	}
}

// begin starts a job, or finds the one that an earlier attempt has started.
func (q *BigQuery) begin(ctx context.Context, jobs *bigquery.JobsService, id string, c *bigquery.JobConfiguration) (job *bigquery.Job, earlier bool,
	err error,
) {
	call, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	job, err = jobs.Insert(q.project, &bigquery.Job{
		JobReference: &bigquery.JobReference{ProjectId: q.project, JobId: id, Location: q.location}, Configuration: c,
	}).Context(call).Do()
	if e, ok := errors.AsType[*googleapi.Error](err); ok && e.Code == http.StatusConflict {
		job, err = q.find(ctx, jobs, id, q.location)
		return job, true, err
	}
	return job, false, err
}

// find looks at a job. BigQuery finds one outside of the US and the EU by its location
// alone.
func (q *BigQuery) find(ctx context.Context, jobs *bigquery.JobsService, id, location string) (*bigquery.Job, error) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	call := jobs.Get(q.project, id).Context(ctx)
	if location != "" {
		call = call.Location(location)
	}
	return call.Do()
}

// await waits for a job's end.
func (q *BigQuery) await(ctx context.Context, jobs *bigquery.JobsService, id string, job *bigquery.Job) (*bigquery.Job, error) {
	location := q.location
	for pause := firstPause; ; pause = min(2*pause, maxPause) {
		if job.JobReference != nil && job.JobReference.Location != "" {
			location = job.JobReference.Location
		}
		if job.Status != nil && job.Status.State == "DONE" {
			return job, nil
		}
		select {
		case <-ctx.Done():
			return nil, fmt.Errorf("is still running, the next run looks again: %w", ctx.Err())
		case <-time.After(pause):
		}
		var err error
		if job, err = q.find(ctx, jobs, id, location); err != nil {
			return nil, err
		}
	}
}
