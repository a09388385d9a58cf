package backoffice

import (
	"slices"
	"strings"
	"testing"
)

// Every action is declared in full: what is not decided is not let through.
func TestActionsAreDeclared(t *testing.T) {
	t.Parallel()
	seen := map[ActionName]bool{}
	for _, a := range Actions() {
		if seen[a.Name] {
			t.Errorf("%s is there twice", a.Name)
		}
		seen[a.Name] = true
		switch {
		case len(a.Roles) == 0 || !slices.Contains(a.Roles, GeneralManager) || !slices.Contains(a.Roles, Owner):
			t.Errorf("%s: roles %v", a.Name, a.Roles)
		case a.Category == "" || a.Kind == "" || a.ID == "" || a.Upstream.MutationTimeout() == 0:
			t.Errorf("%s: %+v", a.Name, a)
		case !strings.HasPrefix(a.Path, "/") || strings.Contains(a.Path, "{"+a.Member+"}") == a.New || a.Member == "" ||
			(a.Body == BodyPosting) != (a.Category == categoryFolio):
			t.Errorf("%s: path %s of %s, body %s", a.Name, a.Path, a.Member, a.Body)
		case (len(a.From) == 0) != (a.New || a.Category == categoryFolio):
			t.Errorf("%s: offered in the states %v", a.Name, a.From)
		case a.Large && a.Scope == "" || (a.Category == categoryFolio) != (a.Scope != ""):
			t.Errorf("%s: second factor %q", a.Name, a.Scope)
		}
	}
}
