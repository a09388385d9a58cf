package postgres

import (
	"context"
	"errors"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/trace"

	"melmastoon.ghasi.io/bff/internal/tracing"
)

// tracer makes a span of each statement, and of each batch, below what is recorded.
// What is not, such as the relay's reading, has none. A span says what a statement
// does to which table and has neither its text nor its parameters.
type tracer struct{}

var (
	_ pgx.QueryTracer = tracer{}
	_ pgx.BatchTracer = tracer{}
)

// TraceQueryStart implements pgx.QueryTracer.
func (tracer) TraceQueryStart(ctx context.Context, _ *pgx.Conn, data pgx.TraceQueryStartData) context.Context {
	if tracing.Of(ctx) == nil {
		return ctx
	}
	return start(ctx, describe(data.SQL))
}

// TraceQueryEnd implements pgx.QueryTracer.
func (tracer) TraceQueryEnd(ctx context.Context, _ *pgx.Conn, data pgx.TraceQueryEndData) {
	end(ctx, data.Err)
}

// TraceBatchStart implements pgx.BatchTracer. A batch is one round trip: its span is
// named by the statement that is not only there for the others.
func (tracer) TraceBatchStart(ctx context.Context, _ *pgx.Conn, data pgx.TraceBatchStartData) context.Context {
	if tracing.Of(ctx) == nil {
		return ctx
	}
	var s statement
	for _, q := range data.Batch.QueuedQueries {
		if s = describe(q.SQL); s.table != "" {
			break
		}
	}
	s.operation = "BATCH " + s.operation
	return start(ctx, s, attribute.Int("db.operation.batch.size", data.Batch.Len()))
}

// TraceBatchQuery implements pgx.BatchTracer.
func (tracer) TraceBatchQuery(context.Context, *pgx.Conn, pgx.TraceBatchQueryData) {}

// TraceBatchEnd implements pgx.BatchTracer.
func (tracer) TraceBatchEnd(ctx context.Context, _ *pgx.Conn, data pgx.TraceBatchEndData) {
	end(ctx, data.Err)
}

func start(ctx context.Context, s statement, more ...attribute.KeyValue) context.Context {
	more = append(more, attribute.String("db.system.name", "postgresql"), attribute.String("db.operation.name", s.operation))
	name := "postgres " + s.operation
	if s.table != "" {
		name += " " + s.table
		more = append(more, attribute.String("db.collection.name", s.table))
	}
	ctx, _ = tracing.Child(ctx, name, trace.SpanKindClient, more...)
	return ctx
}

// end ends the span that start began. If it began none, ctx is not recorded.
func end(ctx context.Context, err error) {
	span := tracing.Of(ctx)
	if span == nil {
		return
	}
	if refused, ok := errors.AsType[*pgconn.PgError](err); ok {
		tracing.Fail(span, refused.Code) // SQLSTATE; the message may quote a row
	} else if err != nil && !errors.Is(err, pgx.ErrNoRows) {
		reason := "connection"
		switch {
		case errors.Is(err, context.DeadlineExceeded):
			reason = "timeout"
		case errors.Is(err, context.Canceled):
			reason = "cancelled"
		}
		tracing.Fail(span, reason)
	}
	span.End()
}

// statement is what may be told of an SQL text.
type statement struct{ operation, table string }

// describe finds a statement's operation and the first table that it names. Below
// WITH the operation is the first that changes something.
func describe(sql string) statement {
	var s statement
	words := scanner{rest: sql}
	for word, ok := words.next(); ok; word, ok = words.next() {
		verb := strings.ToUpper(word)
		switch changes := verb == "INSERT" || verb == "UPDATE" || verb == "DELETE"; {
		case changes && (s.operation == "" || s.operation == "WITH"):
			s = statement{operation: verb}
			if verb == "UPDATE" {
				s.table = words.table()
			}
		case s.operation == "":
			s.operation = verb
		case s.table == "" && verb == "INTO":
			s.table = words.table()
		case s.table == "" && verb == "FROM":
			if name := words.table(); !strings.HasPrefix(words.rest, "(") { // else a function
				s.table = name
			}
		}
	}
	if s.operation == "WITH" {
		s.operation = "SELECT"
	}
	return s
}

// scanner walks over the words of an SQL text and passes over literals.
type scanner struct{ rest string }

func (s *scanner) next() (string, bool) {
	for s.rest != "" {
		switch c := s.rest[0]; {
		case c == '\'':
			_, s.rest, _ = strings.Cut(s.rest[1:], "'") // a doubled quote begins the next literal
		case isWord(c):
			n := 1
			for n < len(s.rest) && isWord(s.rest[n]) {
				n++
			}
			word := s.rest[:n]
			s.rest = s.rest[n:]
			return word, true
		default:
			s.rest = s.rest[1:]
		}
	}
	return "", false
}

// table is the name that comes next, if it is one and not a subquery.
func (s *scanner) table() string {
	s.rest = strings.TrimLeft(s.rest, " \t\n")
	if s.rest == "" || !isWord(s.rest[0]) {
		return ""
	}
	name, _ := s.next()
	return name
}

func isWord(c byte) bool {
	return c == '_' || c == '.' || c >= '0' && c <= '9' || c|0x20 >= 'a' && c|0x20 <= 'z'
}
