package web

import (
	"context"
	"errors"
	"io"
	"mime"
	"net/http"
	"strings"
	"unicode/utf8"

	"go.opentelemetry.io/otel/attribute"

	"melmastoon.ghasi.io/bff"
	"melmastoon.ghasi.io/bff/internal/jsonscan"
	"melmastoon.ghasi.io/bff/internal/tracing"
)

// ReadBody reads a JSON object of at most as many bytes as the route allows.
func ReadBody(w http.ResponseWriter, r *http.Request) (*Input, error) {
	text, err := ReadText(w, r)
	if err != nil {
		return nil, err
	}
	return ParseText(r.Context(), text)
}

// isJSON reports whether a content type is that of JSON.
func isJSON(contentType string) bool {
	if contentType == "application/json" {
		return true
	}
	media, _, err := mime.ParseMediaType(contentType)
	return err == nil && (media == "application/json" || strings.HasSuffix(media, "+json"))
}

// ReadText reads a body, whose content type the Server has checked, for ParseText.
func ReadText(w http.ResponseWriter, r *http.Request) (string, error) {
	text, err := readText(w, r, From(r.Context()).MaxBody)
	// What signs operators in, or proves who they are, is never kept.
	if span := tracing.Detail(r.Context()); span != nil && len(text) <= smallBody && !strings.Contains(r.URL.Path, "/auth/") {
		span.SetAttributes(attribute.String("http.request.body", strings.Clone(text)))
	}
	if err != nil {
		if tooLarge, ok := errors.AsType[*http.MaxBytesError](err); ok {
			return "", bff.Errorf(bff.CodePayloadTooLarge, "the body may have at most %d bytes", tooLarge.Limit)
		}
		return "", &bff.Error{
			Code: bff.CodeValidationFailed, Detail: "the body could not be read",
			Fields: bff.FieldErrors{{Field: "body", Code: bff.FieldFormat}}, Err: err,
		}
	}
	return text, nil
}

// smallBody is the length up to which a body is read in one piece, on the word of
// its Content-Length.
const smallBody = 8 << 10

func readText(w http.ResponseWriter, r *http.Request, limit int64) (string, error) {
	if n := r.ContentLength; n > 0 && n <= min(limit, smallBody) {
		buffer := make([]byte, n)
		_, err := io.ReadFull(r.Body, buffer)
		return jsonscan.Text(buffer), err
	}
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, limit))
	return jsonscan.Text(body), err
}

// ParseBody reads a JSON object.
func ParseBody(ctx context.Context, body []byte) (*Input, error) { return ParseText(ctx, string(body)) }

// ParseText reads a JSON object. A member that is there twice is among the refused ones
// from the beginning, unless the body only asks for something.
func ParseText(ctx context.Context, text string) (*Input, error) {
	bad := func(code, detail string) error {
		return &bff.Error{
			Code: bff.CodeValidationFailed, Detail: detail,
			Fields: bff.FieldErrors{{Field: "body", Code: code}},
		}
	}
	if text == "" {
		return nil, bad(bff.FieldRequired, "a JSON object is required")
	}
	if !utf8.ValidString(text) {
		return nil, bad(bff.FieldFormat, "the body must be UTF-8")
	}
	nodes, doubled, ok := parseJSON(text)
	if !ok {
		return nil, bad(bff.FieldFormat, "the body must be one JSON object")
	}
	if nodes[0].kind != jsonscan.Object {
		return nil, bad(bff.FieldType, "the body must be one JSON object")
	}
	doc := newRoot(ctx, nodes)
	if doubled && !From(ctx).Question {
		doc.refuseDoubles(0, "")
	}
	return &doc.Input, nil
}
