package main_test

import (
	"bytes"
	"sync"
)

// lines collects what a command prints and tells when it says that it is up.
type lines struct {
	mu   sync.Mutex
	buf  bytes.Buffer
	once sync.Once
	want chan struct{}
}

func (l *lines) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	n, err := l.buf.Write(b)
	if bytes.Contains(l.buf.Bytes(), []byte("Ctrl-C stops everything.")) {
		l.once.Do(func() { close(l.want) })
	}
	return n, err
}

func (l *lines) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.String()
}
