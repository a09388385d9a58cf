package service

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"text/tabwriter"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"melmastoon.ghasi.io/bff"
	"melmastoon.ghasi.io/bff/internal/outbox"
)

// DLQ is the command for events that could not be published and were given up.
type DLQ struct {
	List   dlqList   `cmd:"" help:"Show events that could not be published."`
	Replay dlqReplay `cmd:"" help:"Publish them after all."`
	Drop   dlqDrop   `cmd:"" help:"Delete them: they will never be published."`
}

// dlqBatch bounds one statement: a replay of thousands must not hold its rows
// against the relay for long.
const dlqBatch = 500

type dlqList struct {
	Database
	Limit    int  `name:"limit" default:"100" help:"At most so many, the newest first."`
	Archived bool `name:"archived" help:"Those that were moved to the archive when they were old; replay them by their ids."`
}

// Run shows what was given up, and why.
func (c *dlqList) Run(ctx context.Context, id Identity) error {
	db, err := c.Open(ctx, id)
	if err != nil {
		return err
	}
	defer db.Close()
	list := id.Outbox.DeadLetters
	if c.Archived {
		list = id.Outbox.ArchivedDeadLetters
	}
	letters, err := list(ctx, db, c.Limit)
	if err != nil {
		return err
	}
	return printDeadLetters(os.Stdout, letters)
}

func printDeadLetters(w io.Writer, letters []outbox.DeadLetter) error {
	if len(letters) == 0 {
		_, err := fmt.Fprintln(w, "there are no dead letters")
		return err
	}
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	_, _ = fmt.Fprintln(table, "ID\tTOPIC\tATTEMPTS\tCREATED\tERROR") // Flush reports
	for _, l := range letters {
		_, _ = fmt.Fprintf(table, "%s\t%s\t%d\t%s\t%s\n", l.ID, l.Topic, l.Attempts, bff.At(l.CreatedAt), firstLine(l.LastError))
	}
	return table.Flush()
}

const maxShownError = 120

func firstLine(s string) string {
	for i, r := range s {
		if r == '\n' || i >= maxShownError {
			return s[:i]
		}
	}
	return s
}

// chosen names dead letters: some by their ids, or all.
type chosen struct {
	IDs []string `arg:"" optional:"" name:"id" help:"Ids as 'dlq list' shows them."`
	All bool     `name:"all" help:"Every dead letter."`
}

// read checks that exactly one of the two was given: a forgotten id must not
// mean all.
func (c chosen) read() ([]bff.ID, error) {
	if c.All == (len(c.IDs) > 0) {
		return nil, errors.New("give ids, or --all")
	}
	ids := make([]bff.ID, 0, len(c.IDs))
	var errs []error
	for _, s := range c.IDs {
		id, err := bff.ParseID(bff.PrefixEvent, s)
		if err != nil {
			errs = append(errs, fmt.Errorf("%q: %w", s, err))
		}
		ids = append(ids, id)
	}
	return ids, errors.Join(errs...)
}

type dlqReplay struct {
	Database
	chosen
}

// Run queues dead letters for publishing again; a relay takes them within its poll.
func (c *dlqReplay) Run(ctx context.Context, id Identity) error {
	ids, err := c.read()
	if err != nil {
		return err
	}
	db, err := c.Open(ctx, id)
	if err != nil {
		return err
	}
	defer db.Close()
	n, err := replay(ctx, db, id.Outbox, ids)
	_, printErr := fmt.Fprintf(os.Stdout, "%d events will be published\n", n)
	return errors.Join(err, printErr)
}

func replay(ctx context.Context, db *pgxpool.Pool, table *outbox.Table, ids []bff.ID) (int, error) {
	total := 0
	if len(ids) > 0 {
		return table.Replay(ctx, db, len(ids), ids...)
	}
	for {
		n, err := table.Replay(ctx, db, dlqBatch)
		total += n
		if err != nil || n < dlqBatch {
			return total, err
		}
	}
}

type dlqDrop struct {
	Database
	chosen
}

// Run deletes dead letters.
func (c *dlqDrop) Run(ctx context.Context, id Identity) error {
	ids, err := c.read()
	if err != nil {
		return err
	}
	db, err := c.Open(ctx, id)
	if err != nil {
		return err
	}
	defer db.Close()
	n, err := drop(ctx, db, id.Outbox, ids)
	_, printErr := fmt.Fprintf(os.Stdout, "%d events were deleted\n", n)
	return errors.Join(err, printErr)
}

// drop deletes the named dead letters; without names, all that there were when
// it began.
func drop(ctx context.Context, db *pgxpool.Pool, table *outbox.Table, ids []bff.ID) (int, error) {
	if len(ids) > 0 {
		return table.Drop(ctx, db, ids...)
	}
	for total, before := 0, time.Now(); ; {
		n, err := table.PruneDLQ(ctx, db, before, dlqBatch)
		total += n
		if err != nil || n < dlqBatch {
			return total, err
		}
	}
}
