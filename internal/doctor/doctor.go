// Package doctor examines a deployment: its settings, and the servers that they lead to.
// It reads, compares with what the service's own files and lists say, and changes
// nothing. A service adds what it alone has.
package doctor

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"time"

	"melmastoon.ghasi.io/bff/internal/daemon"
	"melmastoon.ghasi.io/bff/internal/service"
)

// Settings are those of the commands that examine.
type Settings struct {
	JSON    bool          `name:"json" help:"As one JSON document, for tools."`
	Timeout time.Duration `name:"timeout" default:"5s" help:"How long a server may take to answer one check."`
}

// ExaminesSettings lets the command run with wrong settings, to tell of them.
func (*Settings) ExaminesSettings() {}

// Verdict is what a check has come to.
type Verdict string

// The verdicts there are. Only what is wrong fails the command.
const (
	OK      Verdict = "ok"
	Warning Verdict = "warning"
	Wrong   Verdict = "wrong"
)

// Finding is one line of an examination.
type Finding struct {
	Area    string  `json:"area"`
	Check   string  `json:"check"`
	Verdict Verdict `json:"verdict"`
	Found   string  `json:"found"`            // in plain words; never a secret
	Advice  string  `json:"advice,omitempty"` // what to do
}

// Check is one thing to look at.
type Check struct {
	Area, Name string
	// Timeout caps it; zero = the command's, twice: once for a server that is slow to
	// connect.
	Timeout time.Duration
	// Run returns findings, which have the name of the check unless they bring their
	// own. An error says that it could not be found out.
	Run func(ctx context.Context) ([]Finding, error)
}

// Good is the one finding of a check that is content.
func Good(format string, args ...any) []Finding {
	return []Finding{{Verdict: OK, Found: fmt.Sprintf(format, args...)}}
}

// Bad is the one finding of a check that is not.
func Bad(advice, format string, args ...any) []Finding {
	return []Finding{{Verdict: Wrong, Found: fmt.Sprintf(format, args...), Advice: advice}}
}

// wrong is one of several findings of a check.
func wrong(subject, text, advice string) Finding {
	return Finding{Check: subject, Verdict: Wrong, Found: text, Advice: advice}
}

// Doubtful is the one finding of a check that has doubts.
func Doubtful(advice, format string, args ...any) []Finding {
	return []Finding{{Verdict: Warning, Found: fmt.Sprintf(format, args...), Advice: advice}}
}

// errNotChecked says that what a check stands on does not, which another check tells.
var errNotChecked = errors.New("not checked")

// Examination is a run of checks: what all services have is examined by this package,
// and the service adds its own.
type Examination struct {
	service.Identity
	// Now is the clock of this machine, for tests; nil = the time.
	Now func() time.Time

	settings *service.Settings
	doctor   Settings
	checks   []Check

	mu      sync.Mutex
	closers []func()
}

// NewExamination returns one without checks.
func NewExamination(id service.Identity, s *service.Settings, d Settings) *Examination {
	return &Examination{Identity: id, Now: time.Now, settings: s, doctor: d}
}

// Add appends checks. They are reported in this order, each area in one place.
func (x *Examination) Add(checks ...Check) { x.checks = append(x.checks, checks...) }

// onEnd closes what a check has opened.
func (x *Examination) onEnd(closed func()) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.closers = append(x.closers, closed)
}

// closeWait is how long the end waits for connections to be given back.
const closeWait = time.Second

// Run runs all checks at once, so that a server that hangs holds up no other, and
// writes the findings in the order of the checks. It returns an error that sets the
// exit status if something is wrong.
func (x *Examination) Run(ctx context.Context, w io.Writer) error {
	var findings []Finding
	counts := map[Verdict]int{}
	out := report{w: w, quiet: x.doctor.JSON}
	out.begin(x)
	for found := range x.examine(ctx) {
		for _, f := range found {
			counts[f.Verdict]++
			out.finding(f)
			findings = append(findings, f)
		}
	}
	x.close()
	out.end(counts)
	if x.doctor.JSON {
		e := json.NewEncoder(w)
		e.SetIndent("", "  ")
		e.SetEscapeHTML(false)
		if err := e.Encode(struct {
			Service     string    `json:"service"`
			Environment string    `json:"environment"`
			Verdict     Verdict   `json:"verdict"`
			Findings    []Finding `json:"findings"`
		}{x.Name, x.settings.Environment, overall(counts), findings}); err != nil {
			return err
		}
	}
	if out.err != nil {
		return out.err
	}
	if counts[Wrong] > 0 {
		return &daemon.ExitError{Status: 1}
	}
	return nil
}

func overall(counts map[Verdict]int) Verdict {
	switch {
	case counts[Wrong] > 0:
		return Wrong
	case counts[Warning] > 0:
		return Warning
	}
	return OK
}

// examine yields each check's findings in the order of the checks.
func (x *Examination) examine(ctx context.Context) func(yield func([]Finding) bool) {
	first := map[string]int{}
	for i, c := range x.checks {
		if _, seen := first[c.Area]; !seen {
			first[c.Area] = i
		}
	}
	slices.SortStableFunc(x.checks, func(a, b Check) int { return first[a.Area] - first[b.Area] })
	results := make([]chan []Finding, len(x.checks))
	for i, c := range x.checks {
		results[i] = make(chan []Finding, 1)
		go func() { results[i] <- x.run(ctx, c) }()
	}
	return func(yield func([]Finding) bool) {
		for _, r := range results {
			if !yield(<-r) {
				return
			}
		}
	}
}

// grace is how long a check may take to notice that its time is over; then it is
// left to itself.
const grace = 500 * time.Millisecond

func (x *Examination) run(ctx context.Context, c Check) []Finding {
	limit := c.Timeout
	if limit == 0 {
		limit = 2 * x.doctor.Timeout
	}
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	done := make(chan []Finding, 1)
	go func() { done <- c.findings(ctx, limit) }()
	var found []Finding
	select {
	case found = <-done:
	case <-ctx.Done():
		late := time.NewTimer(grace)
		defer late.Stop()
		select {
		case found = <-done:
		case <-late.C:
			found = tooLate(limit)
		}
	}
	for i := range found {
		f := &found[i]
		if f.Area == "" {
			f.Area = c.Area
		}
		if f.Check == "" {
			f.Check = c.Name
		}
	}
	return found
}

func tooLate(limit time.Duration) []Finding {
	return Bad("see whether the server is overloaded or a firewall drops packets; --timeout allows more", "gave no answer within %s", limit)
}

// findings runs the check. One that panics is wrong, and the others go on.
func (c Check) findings(ctx context.Context, limit time.Duration) (found []Finding) {
	defer func() {
		if p := recover(); p != nil {
			found = Bad("report this as a defect of the service", "the check itself failed: %v", p)
		}
	}()
	found, err := c.Run(ctx)
	switch {
	case err == nil:
		return found
	case errors.Is(err, errNotChecked):
		return append(found, Finding{Verdict: Warning, Found: err.Error()})
	case ctx.Err() != nil:
		return append(found, tooLate(limit)...)
	}
	return append(found, Bad("see whether the address and the credentials are right and the server is up", "%s", oneLine(err))...)
}

// maxFound bounds what is shown of an error.
const maxFound = 300

func oneLine(err error) string {
	text := strings.Join(strings.Fields(err.Error()), " ")
	return text[:min(len(text), maxFound)]
}

// close ends connections. A check that is left to itself may hold one: it is not
// waited for.
func (x *Examination) close() {
	var wg sync.WaitGroup
	x.mu.Lock()
	for _, c := range x.closers {
		wg.Go(c)
	}
	x.mu.Unlock()
	done := make(chan struct{})
	go func() { wg.Wait(); close(done) }()
	t := time.NewTimer(closeWait)
	defer t.Stop()
	select {
	case <-done:
	case <-t.C:
	}
}

// report writes findings for people.
type report struct {
	w     io.Writer
	quiet bool
	area  string
	err   error
}

func (p *report) printf(format string, args ...any) {
	if p.quiet || p.err != nil {
		return
	}
	_, p.err = fmt.Fprintf(p.w, format, args...)
}

func (p *report) begin(x *Examination) { p.printf("%s in %s\n", x.Name, x.settings.Environment) }

func (p *report) finding(f Finding) {
	if f.Area != p.area {
		p.area = f.Area
		p.printf("\n%s\n", f.Area)
	}
	p.printf("  %-8s %-44s %s\n", f.Verdict, service.Printable(f.Check), service.Printable(f.Found))
	if f.Advice != "" {
		p.printf("  %-8s %-44s do: %s\n", "", "", service.Printable(f.Advice))
	}
}

func (p *report) end(counts map[Verdict]int) {
	p.printf("\n%d ok, %d warnings, %d wrong\n", counts[OK], counts[Warning], counts[Wrong])
}
