package upstream

import (
	"net/url"
	"strings"
	"testing"
)

func TestPath(t *testing.T) {
	t.Parallel()
	tests := []struct {
		route  string
		values []string
		want   string
		clean  bool
	}{
		{"/v1/x", nil, "/v1/x", true},
		{"/v1/tenants/{t}/operators/{o}", []string{"tnt_1", "opr_2"}, "/v1/tenants/tnt_1/operators/opr_2", true},
		{"/v1/{id}/y", []string{"a/../b?c=d#e"}, "/v1/a%2F..%2Fb%3Fc=d%23e/y", true},
		{"/v1/{id}", []string{".."}, "/v1/..", false},
		{"/v1/{id}", nil, "/v1/{id}", false},
		{"/v1/{id}", []string{"{other}"}, "/v1/%7Bother%7D", true},
		{"v1", nil, "v1", false},
		{"/v1?x=1", nil, "/v1?x=1", false},
		{"/v1\r\nHost: evil", nil, "/v1\r\nHost: evil", false},
	}
	for _, tt := range tests {
		got := Path(tt.route, tt.values...)
		if got != tt.want || cleanPath(got) != tt.clean {
			t.Errorf("Path(%q, %q) = %q, clean %v; want %q, %v", tt.route, tt.values, got, cleanPath(got), tt.want, tt.clean)
		}
	}
}

// No value leads to another endpoint of the upstream.
func FuzzPath(f *testing.F) {
	for _, seed := range []string{"ppt_01", "..", "../admin", "a?b", "%2e%2e", "\x00", "{id}"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, value string) {
		path := Path("/v1/{id}/rooms", value)
		if !cleanPath(path) {
			return
		}
		u, err := url.Parse("http://far.test" + path)
		if err != nil {
			t.Fatalf("%q: %v", path, err)
		}
		if u.Path != "/v1/"+value+"/rooms" || u.RawQuery != "" || u.Fragment != "" || strings.Count(u.EscapedPath(), "/") != 3 {
			t.Errorf("%q became %q", value, u)
		}
	})
}
