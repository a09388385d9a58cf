package main

import (
	"testing"

	"melmastoon.ghasi.io/bff/internal/daemon"
	"melmastoon.ghasi.io/bff/internal/testkit"
)

// TestDocumentedCommands: what a document tells people to type, the program takes.
func TestDocumentedCommands(t *testing.T) {
	t.Parallel()
	testkit.CheckCommands(t, "../..", "melmastoon", func(args []string) error {
		_, err := daemon.Parse(new(commands), "melmastoon", "", args)
		return err
	})
}
