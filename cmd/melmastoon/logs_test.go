package main

import "testing"

// TestLogsByTime: what one service did because of the other stands behind it.
func TestLogsByTime(t *testing.T) {
	t.Parallel()
	const (
		a1 = `{"time":"2026-11-18T10:00:00.1Z","msg":"a1"}` + "\n"
		a2 = `{"time":"2026-11-18T10:00:00.25Z","msg":"a2"}` + "\n" + "panic: oh\n\tgoroutine 1\n"
		b1 = `{"time":"2026-11-18T10:00:00.2Z","msg":"b1"}` + "\n"
		b2 = `{"time":"2026-11-18T12:00:01+02:00","msg":"b2"}` + "\n"
	)
	if got := byTime([]string{a1 + a2, b1 + b2}); got != a1+b1+a2+b2 {
		t.Errorf("got\n%s", got)
	}
}
