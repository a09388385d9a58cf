package main

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"os"

	"melmastoon.ghasi.io/bff/internal/local/trace"
)

type why struct {
	terminal
	ID   string `arg:"" optional:"" default:"last" help:"The request's id, as X-Request-Id, requestId of a problem or a log line has it, or its trace's (default: the last request)."`
	Last bool   `help:"The last request that was answered, which is the default."`
	JSON bool   `name:"json" help:"Everything that is known, as one JSON document."`
}

// Run tells one request as a story.
func (y why) Run(ctx context.Context) error {
	w, err := y.find()
	if err != nil {
		return err
	}
	if y.Last {
		y.ID = "last"
	}
	var story trace.Story
	if err := ask(ctx, http.MethodGet, w.Environment[ourPages]+"/_up/requests/"+url.PathEscape(y.ID), nil, &story); err != nil {
		return err
	}
	if y.JSON {
		out := json.NewEncoder(os.Stdout)
		out.SetIndent("", "  ")
		return out.Encode(story)
	}
	fmt.Print(story.Text)
	return nil
}
