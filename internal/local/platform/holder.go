package platform

import (
	"bufio"
	"context"
	"encoding/binary"
	"fmt"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// portHolder says which process listens on a TCP port of an address, such as
// "pid 123, nginx"; without an address, on any. It is empty where that cannot be found out: another user's processes show their
// sockets to root alone.
func portHolder(host, port string) string {
	n, err := strconv.Atoi(port)
	if err != nil {
		return ""
	}
	sockets := listening(host, n)
	if len(sockets) == 0 {
		return askLsof(port)
	}
	links, _ := filepath.Glob("/proc/[0-9]*/fd/*")
	for _, link := range links {
		target, err := os.Readlink(link)
		if err != nil || !sockets[target] {
			continue
		}
		pid := strings.Split(link, "/")[2]
		name, _ := os.ReadFile("/proc/" + pid + "/comm") //nolint:gosec // of the kernel
		return holder(pid, string(name))
	}
	return ""
}

func holder(pid, name string) string {
	if name = strings.TrimSpace(name); name == "" {
		return "pid " + pid
	}
	return "pid " + pid + ", " + name
}

// listening are the sockets that listen on a port, as /proc/PID/fd names them.
func listening(host string, port int) map[string]bool {
	const listen = "0A" // TCP_LISTEN
	suffix := fmt.Sprintf(":%04X", port)
	out := map[string]bool{}
	for _, file := range []string{"/proc/net/tcp", "/proc/net/tcp6"} {
		f, err := os.Open(file) //nolint:gosec // of the kernel
		if err != nil {
			continue
		}
		for lines := bufio.NewScanner(f); lines.Scan(); {
			if c := strings.Fields(lines.Text()); len(c) > 9 && strings.HasSuffix(c[1], suffix) && c[3] == listen && covers(strings.TrimSuffix(c[1], suffix), host) {
				out["socket:["+c[9]+"]"] = true
			}
		}
		_ = f.Close()
	}
	return out
}

// covers reports whether a socket's address, as the kernel writes it, is an IPv4 host or
// all addresses. Two programs can have one port, each on its own address.
func covers(socket, host string) bool {
	addr, err := netip.ParseAddr(host)
	if err != nil || !addr.Is4() {
		return true
	}
	b := addr.As4()
	return strings.Trim(socket, "0") == "" || strings.HasSuffix(socket, fmt.Sprintf("%08X", binary.NativeEndian.Uint32(b[:])))
}

// lsofTimeout bounds a question that is asked for comfort alone.
const lsofTimeout = 2 * time.Second

// askLsof is for systems without /proc.
func askLsof(port string) string {
	ctx, cancel := context.WithTimeout(context.Background(), lsofTimeout)
	defer cancel()
	out, err := exec.CommandContext(ctx, "lsof", "-nP", "-iTCP:"+port, "-sTCP:LISTEN", "-Fpc").Output() //nolint:gosec // a number
	if err != nil {
		return ""
	}
	var pid, name string
	for line := range strings.Lines(string(out)) { // p123, then cnginx
		switch line = strings.TrimSpace(line); {
		case strings.HasPrefix(line, "p") && pid == "":
			pid = line[1:]
		case strings.HasPrefix(line, "c") && name == "":
			name = line[1:]
		}
	}
	if pid == "" {
		return ""
	}
	return holder(pid, name)
}
