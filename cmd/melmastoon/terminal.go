package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"melmastoon.ghasi.io/bff/internal/world"
)

// terminal is what commands of a second terminal have in common: they find the
// running platform by themselves.
type terminal struct {
	World string `env:"MELMASTOON_WORLD,MELMASTOON_HOME" placeholder:"DIR" help:"The platform with its data in DIR (default: this user's)."`
}

func (t terminal) find() (*world.World, error) { return world.Find(t.World) }

const (
	askTimeout = 10 * time.Second
	// maxAnswer is more than the catalogue of hotels takes.
	maxAnswer = 16 << 20
)

// ask calls a server of the platform and returns what it answers.
func ask(ctx context.Context, method, url string, body, into any) error {
	var sent []byte
	if body != nil {
		var err error
		if sent, err = json.Marshal(body); err != nil {
			return err
		}
	}
	req, err := http.NewRequestWithContext(ctx, method, url, bytes.NewReader(sent))
	if err != nil {
		return err
	}
	req.Header.Set("Content-Type", "application/json")
	res, err := (&http.Client{Timeout: askTimeout}).Do(req)
	if err != nil {
		return unreachable(err, url)
	}
	defer func() { _ = res.Body.Close() }()
	b, err := io.ReadAll(io.LimitReader(res.Body, maxAnswer))
	if err != nil {
		return err
	}
	if res.StatusCode >= http.StatusBadRequest {
		return &refusal{status: res.StatusCode, body: b}
	}
	if into == nil {
		return nil
	}
	return json.Unmarshal(b, into)
}

// refusal is an answer that says no.
type refusal struct {
	status int
	body   []byte
}

func (r *refusal) Error() string {
	var doc struct {
		Error struct {
			Code, Message string
			Fields        []struct{ Field, Code string }
		}
	}
	if err := json.Unmarshal(r.body, &doc); err != nil || doc.Error.Code == "" {
		return fmt.Sprintf("answered %d", r.status)
	}
	text := []string{doc.Error.Code + ": " + doc.Error.Message}
	for _, f := range doc.Error.Fields {
		text = append(text, f.Field+": "+f.Code)
	}
	return strings.Join(text, "; ")
}

// isRefused reports whether a server answered, and not with success.
func isRefused(err error) bool {
	_, ok := errors.AsType[*refusal](err)
	return ok
}
