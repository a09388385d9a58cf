package upstream

import (
	"net"
	"net/http"
	"time"
)

// newTransport returns a pool of HTTP/1.1 connections for one upstream: its
// own, so that no other upstream can use it up.
func newTransport(cfg Config) *http.Transport {
	dialer := net.Dialer{
		// A lost SYN is sent again after a second: better to give up and dial
		// once more within the call's time.
		Timeout:   min(cfg.Timeout/2, time.Second),
		KeepAlive: 30 * time.Second,
	}
	return &http.Transport{
		Proxy:                  http.ProxyFromEnvironment, // never for loopback
		DialContext:            dialer.DialContext,
		TLSHandshakeTimeout:    min(cfg.Timeout, 2*time.Second),
		MaxIdleConns:           cfg.MaxConcurrent,
		MaxIdleConnsPerHost:    cfg.MaxConcurrent,
		IdleConnTimeout:        90 * time.Second,
		MaxResponseHeaderBytes: 64 << 10,
		ReadBufferSize:         16 << 10,
		// Inside the cluster bytes are cheaper than unpacking them, and a
		// packed answer cannot grow past the limit on its size.
		DisableCompression: true,
	}
}
