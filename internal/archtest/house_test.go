package archtest

import (
	"os"
	"testing"
)

func TestHouseKeepsTheImportRule(t *testing.T) {
	t.Parallel()

	tree, err := Load(os.DirFS("../.."))
	if err != nil {
		t.Fatal(err)
	}
	if tree["."] == nil || tree["internal/archtest"] == nil {
		t.Fatalf("read %d packages, but neither the root nor this one: wrong directory?", len(tree))
	}
	for _, breach := range House().Check(tree) {
		t.Error(breach)
	}
}
