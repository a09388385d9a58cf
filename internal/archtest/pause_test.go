package archtest

import (
	"bytes"
	"io/fs"
	"os"
	"regexp"
	"strings"
	"testing"
)

// A pause in a test is too short on a busy machine and too long on any other: tests wait for events (testkit.Until), repeat what failed within a budget
// (testkit.Retry), or let the clock of a bubble pass (testing/synctest). pause.For, which ends with its caller, is for what takes its time: upstreams and guests.
func TestTestsDoNotPause(t *testing.T) {
	t.Parallel()
	pauses := regexp.MustCompile(`(?m)time\.Sleep\(|(?:^|[{;])\s*<-time\.After\(|^\s*case <-time\.After\(.*:(?: //.*)?\n\s*(?:case |default:|\})`)
	root, files := os.DirFS("../.."), 0
	err := fs.WalkDir(root, ".", func(name string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && passOver(root, name):
			return fs.SkipDir
		case d.IsDir() || !strings.HasSuffix(name, "_test.go") || strings.HasPrefix(name, "internal/archtest/"):
			return nil
		}
		files++
		b, err := fs.ReadFile(root, name)
		if err != nil || bytes.Contains(b, []byte(`"testing/synctest"`)) || !bytes.Contains(b, []byte("time.After(")) && !bytes.Contains(b, []byte("time.Sleep(")) {
			return err
		}
		for _, at := range pauses.FindAllIndex(b, -1) {
			t.Errorf("%s:%d: %s", name, 1+bytes.Count(b[:at[0]], []byte("\n")), bytes.TrimSpace(b[at[0]:at[1]]))
		}
		return nil
	})
	if err != nil || files < 100 {
		t.Fatalf("%d files: %v", files, err)
	}
}
