package backofficestore_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"melmastoon.ghasi.io/bff"
	"melmastoon.ghasi.io/bff/internal/backoffice/backofficestore"
	"melmastoon.ghasi.io/bff/internal/redis"
)

// The names are those of the data model.
func TestKeys(t *testing.T) {
	t.Parallel()
	const ulid = "01H8YN7QV4D8KZ4F8Y5CK4MV3A"
	id := func(p bff.Prefix) bff.ID { return bff.MustParseID(p, string(p)+"_"+ulid) }
	keys := backofficestore.NewKeys(redis.NewKeys("prod", "bff-backoffice"))
	tenant, err := keys.Tenant(id(bff.PrefixTenant))
	if err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct{ got, want string }{
		{keys.Proof("thumb", "jti"), "dpop:thumb:WxKIvbhszzPMAVjaGh9AXA"},
		{tenant.Session(id(bff.PrefixBackofficeLogin)).Name(), "session:bos_" + ulid},
		{tenant.Device(id(bff.PrefixDevice)).Name(), "session:by-device:tnt_" + ulid + ":dev_" + ulid},
		{tenant.Operator("opt_1").Name(), "session:by-operator:tnt_" + ulid + ":opt_1"},
		{tenant.All().Name(), "session:by-tenant:tnt_" + ulid},
		{tenant.Revoked(id(bff.PrefixDevice)).Name(), "revoked:tnt_" + ulid + ":dev_" + ulid},
		{tenant.OperatorAccess("opt_1").Name(), "standing:tnt_" + ulid + ":opt_1"},
		{tenant.TenantAccess().Name(), "standing:tnt_" + ulid},
		{keys.Limit("session:x"), "rl:session:x"},
		{tenant.StreamLog(id(bff.PrefixDevice)).Name(), "sse:log:tnt_" + ulid + ":dev_" + ulid},
		{backofficestore.BusName(tenant.StreamBus(id(bff.PrefixDevice)), "alerts"), "sse:bus:dev_" + ulid + ":channel:alerts"},
		{tenant.Attestation(id(bff.PrefixMFA)).Name(), "mfa:mfa_" + ulid},
	} {
		if want := "prod:bff-backoffice:" + test.want; test.got != want {
			t.Errorf("%s, want %s", test.got, want)
		}
	}
	if _, err := keys.Tenant(bff.ID{}); err == nil {
		t.Error("keys without a tenant")
	}
}

// Code of the staff service names keys in keys.go alone: elsewhere the key of a
// Redis command is the Name of one that was made there, or a variable.
func TestKeysAreMadeInOnePlace(t *testing.T) {
	t.Parallel()
	made := 0
	err := filepath.WalkDir("..", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
			return err
		}
		src, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		file, err := parser.ParseFile(token.NewFileSet(), path, src, 0)
		if err != nil {
			return err
		}
		ast.Inspect(file, func(n ast.Node) bool {
			call, ok := n.(*ast.CallExpr)
			if !ok {
				return true
			}
			sel, ok := call.Fun.(*ast.SelectorExpr)
			if !ok || sel.Sel.Name != "Key" {
				return true
			}
			if filepath.Base(path) == "keys.go" {
				made++
				return true
			}
			for _, arg := range call.Args {
				if !namesKey(arg) {
					t.Errorf("%s: a key that is put together outside keys.go: %s", path, src[arg.Pos()-1:arg.End()-1])
				}
			}
			return true
		})
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if made == 0 {
		t.Error("found no key at all: the test looks at the wrong files")
	}
}

// namesKey accepts a variable, a method's result without arguments such as
// Name(), and the result of a method of Keys.
func namesKey(e ast.Expr) bool {
	switch e := e.(type) {
	case *ast.Ident:
		return true
	case *ast.CallExpr:
		sel, ok := e.Fun.(*ast.SelectorExpr)
		return ok && (sel.Sel.Name == "Name" || sel.Sel.Name == "Proof")
	}
	return false
}
