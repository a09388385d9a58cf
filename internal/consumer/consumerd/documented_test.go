package consumerd

import (
	"testing"

	"melmastoon.ghasi.io/bff/internal/service"
	"melmastoon.ghasi.io/bff/internal/testkit"
)

// TestDocumentedCommands: what a document tells people to type, the program takes.
func TestDocumentedCommands(t *testing.T) {
	testkit.SetNowhere(t)
	testkit.CheckCommands(t, "../../..", "bff-consumer", func(args []string) error {
		_, err := service.Parse(Identity(), &commands{}, args)
		return err
	})
}
