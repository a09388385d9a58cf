package board

import (
	"context"
	"errors"
	"time"

	"melmastoon.ghasi.io/bff"
	"melmastoon.ghasi.io/bff/internal/backoffice"
)

// WidgetStatus says how a widget was answered.
type WidgetStatus string

// The statuses there are.
const (
	WidgetOK        WidgetStatus = "ok"
	WidgetStale     WidgetStatus = "stale"
	WidgetTimeout   WidgetStatus = "timeout"
	WidgetError     WidgetStatus = "error"
	WidgetForbidden WidgetStatus = "forbidden"
)

// WidgetAnswer is one widget, answered.
type WidgetAnswer struct {
	Widget    WidgetID      `json:"widgetId"`
	Status    WidgetStatus  `json:"status"`
	Data      any           `json:"data,omitempty"`
	AsOf      bff.Timestamp `json:"asOf"`
	ErrorCode bff.Code      `json:"errorCode,omitempty"`
}

// Partial reports whether another attempt could bring more.
func (a *WidgetAnswer) Partial() bool { return a.Status != WidgetOK && a.Status != WidgetForbidden }

// Deadlines are how long readings are waited for.
type Deadlines struct {
	// Widget caps the wait for one widget, whatever its upstream may take.
	Widget time.Duration
	// Whole caps the wait for all widgets of a dashboard.
	Whole time.Duration
	// Of is how long an upstream may take; nil = [backoffice.Upstream.Timeout].
	Of func(backoffice.Upstream) time.Duration
}

// of is how long the upstream of a source may take.
func (d *Deadlines) of(s Source) time.Duration {
	if d.Of != nil {
		return d.Of(s.Upstream())
	}
	return s.Upstream().Timeout()
}

// Composer makes dashboards.
type Composer struct {
	house     House
	deadlines Deadlines
	widgets   []Widget
}

// NewComposer returns a Composer of all widgets.
func NewComposer(h House, d Deadlines) *Composer {
	return &Composer{house: h, deadlines: d, widgets: Widgets()}
}

// Widgets lists the widgets that are composed, in their order.
func (c *Composer) Widgets() []Widget { return c.widgets }

// Compose answers every widget once, each as soon as its own source has: show is
// called with them one after the other. A source is asked once for all of its
// widgets, and not at all if the roles may see none of them. Partial reports that
// something is missing or old.
func (c *Composer) Compose(ctx context.Context, at Place, roles []backoffice.Role, now time.Time, show func(WidgetAnswer)) (partial bool) {
	ctx, cancel := context.WithTimeout(ctx, c.deadlines.Whole)
	defer cancel()
	waiting := map[Source][]*Widget{}
	for i := range c.widgets {
		w := &c.widgets[i]
		if !w.Visible(roles) {
			show(WidgetAnswer{Widget: w.ID, Status: WidgetForbidden, AsOf: bff.At(now), ErrorCode: bff.CodeRoleDenied})
			continue
		}
		waiting[w.From] = append(waiting[w.From], w)
	}
	type answer struct {
		from    Source
		reading Reading
		err     error
	}
	answers := make(chan answer, len(waiting)) // no source waits for a reader that has gone
	for from := range waiting {
		deadline := min(c.deadlines.of(from), c.deadlines.Widget)
		go func() {
			ctx, cancel := context.WithTimeout(ctx, deadline)
			defer cancel()
			r, err := c.house.Read(ctx, from, at)
			answers <- answer{from, r, err}
		}()
	}
	give := func(a answer) {
		for _, w := range waiting[a.from] {
			out := answerOf(w, a.reading, a.err, now)
			partial = partial || out.Partial()
			show(out)
		}
		delete(waiting, a.from)
	}
	for len(waiting) > 0 {
		select {
		case a := <-answers:
			give(a)
		case <-ctx.Done():
			for from := range waiting {
				give(answer{from: from, err: context.Cause(ctx)})
			}
		}
	}
	return partial
}

func answerOf(w *Widget, r Reading, err error, now time.Time) WidgetAnswer {
	out := WidgetAnswer{Widget: w.ID, Status: WidgetOK, AsOf: bff.At(r.AsOf)}
	if err == nil {
		out.Data, err = w.show(r.Value)
	}
	code := bff.CodeOf(err)
	switch {
	case err == nil && r.Stale:
		out.Status = WidgetStale
		return out
	case err == nil:
		return out
	case errors.Is(err, context.DeadlineExceeded), code == bff.CodeUpstreamTimeout:
		out.Status, code = WidgetTimeout, bff.CodeUpstreamTimeout
	case code == bff.CodeRoleDenied:
		out.Status = WidgetForbidden
	default:
		out.Status = WidgetError
	}
	out.AsOf, out.ErrorCode = bff.At(now), code
	return out
}
