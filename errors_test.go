package bff_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io"
	"maps"
	"net/http"
	"os"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"

	bff "melmastoon.ghasi.io/bff"
)

// declaredCodes returns the Code constants of errors.go, as the source says.
func declaredCodes(t *testing.T) []bff.Code {
	t.Helper()
	file, err := parser.ParseFile(token.NewFileSet(), "errors.go", nil, parser.SkipObjectResolution)
	if err != nil {
		t.Fatal(err)
	}
	var codes []bff.Code
	for _, decl := range file.Decls {
		gen, ok := decl.(*ast.GenDecl)
		if !ok || gen.Tok != token.CONST {
			continue
		}
		for _, spec := range gen.Specs {
			v, ok := spec.(*ast.ValueSpec)
			if !ok {
				continue
			}
			if typ, ok := v.Type.(*ast.Ident); !ok || typ.Name != "Code" {
				continue
			}
			lit, ok := v.Values[0].(*ast.BasicLit)
			if !ok {
				t.Fatalf("%s is not a plain string", v.Names[0])
			}
			code, err := strconv.Unquote(lit.Value)
			if err != nil {
				t.Fatal(err)
			}
			codes = append(codes, bff.Code(code))
		}
	}
	return codes
}

func registered(t *testing.T) []bff.CodeInfo {
	t.Helper()
	b, err := os.ReadFile("contracts/errors/registry.json")
	if err != nil {
		t.Fatal(err)
	}
	var file struct {
		Description string         `json:"description"`
		Codes       []bff.CodeInfo `json:"codes"`
	}
	dec := json.NewDecoder(bytes.NewReader(b))
	dec.DisallowUnknownFields()
	if err := dec.Decode(&file); err != nil {
		t.Fatal(err)
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		t.Fatal("more than one document")
	}
	return file.Codes
}

// wantStatuses is the promise to clients: a code's status never changes. A line
// may be added here, never edited.
var wantStatuses = map[bff.Code]int{
	"MELMASTOON.GENERAL.VALIDATION_FAILED":      400,
	"MELMASTOON.GENERAL.UNAUTHENTICATED":        401,
	"MELMASTOON.GENERAL.RESOURCE_NOT_FOUND":     404,
	"MELMASTOON.GENERAL.METHOD_NOT_ALLOWED":     405,
	"MELMASTOON.GENERAL.ORIGIN_NOT_ALLOWED":     403,
	"MELMASTOON.GENERAL.PAYLOAD_TOO_LARGE":      413,
	"MELMASTOON.GENERAL.UNSUPPORTED_MEDIA_TYPE": 415,
	"MELMASTOON.GENERAL.NOT_ACCEPTABLE":         406,
	"MELMASTOON.GENERAL.INTERNAL":               500,
	"MELMASTOON.GENERAL.SERVICE_UNAVAILABLE":    503,

	"MELMASTOON.BFF.SURFACE_MISMATCH":     400,
	"MELMASTOON.BFF.UPSTREAM_UNAVAILABLE": 503,

	// DOMAIN_MODEL §7.
	"MELMASTOON.BFF.CONSUMER.WISHLIST_LIMIT_EXCEEDED":   422,
	"MELMASTOON.BFF.CONSUMER.HANDOFF_REPLAYED":          409,
	"MELMASTOON.BFF.CONSUMER.HANDOFF_EXPIRED":           410,
	"MELMASTOON.BFF.CONSUMER.HANDOFF_SIGNATURE_INVALID": 401,
	"MELMASTOON.BFF.CONSUMER.TENANT_SUSPENDED":          403,
	"MELMASTOON.BFF.CONSUMER.SUSPECTED_BOT":             429,
	"MELMASTOON.BFF.CONSUMER.UPSTREAM_BUDGET_EXCEEDED":  504,
	"MELMASTOON.BFF.CONSUMER.LOCALE_NOT_SUPPORTED":      422,
	"MELMASTOON.BFF.CONSUMER.CURRENCY_NOT_SUPPORTED":    422,

	"MELMASTOON.BFF.CONSUMER.RATE_LIMITED":             429,
	"MELMASTOON.BFF.CONSUMER.IDEMPOTENCY_KEY_REQUIRED": 428,
	"MELMASTOON.BFF.CONSUMER.IDEMPOTENCY_KEY_REUSED":   422,
	"MELMASTOON.BFF.CONSUMER.IDEMPOTENCY_IN_FLIGHT":    409,
	"MELMASTOON.BFF.CONSUMER.CHALLENGE_INVALID":        403,

	"MELMASTOON.BFF.BACKOFFICE.DPOP_INVALID":               401,
	"MELMASTOON.BFF.BACKOFFICE.DPOP_REPLAYED":              401,
	"MELMASTOON.BFF.BACKOFFICE.DEVICE_MISMATCH":            401,
	"MELMASTOON.BFF.BACKOFFICE.TOKEN_EXPIRED":              401,
	"MELMASTOON.BFF.BACKOFFICE.SESSION_REVOKED":            401,
	"MELMASTOON.BFF.BACKOFFICE.MFA_REQUIRED":               403,
	"MELMASTOON.BFF.BACKOFFICE.MFA_ATTESTATION_INVALID":    403,
	"MELMASTOON.BFF.BACKOFFICE.PROPERTY_SCOPE_DENIED":      403,
	"MELMASTOON.BFF.BACKOFFICE.ROLE_DENIED":                403,
	"MELMASTOON.BFF.BACKOFFICE.TENANT_SUSPENDED":           403,
	"MELMASTOON.BFF.BACKOFFICE.IDEMPOTENCY_KEY_REQUIRED":   428,
	"MELMASTOON.BFF.BACKOFFICE.IDEMPOTENCY_IN_FLIGHT":      409,
	"MELMASTOON.BFF.BACKOFFICE.IDEMPOTENCY_KEY_REUSED":     422,
	"MELMASTOON.BFF.BACKOFFICE.IDEMPOTENCY_KEY_EXPIRED":    409,
	"MELMASTOON.BFF.BACKOFFICE.SUGGESTION_ALREADY_DECIDED": 409,
	// Ours beyond the list: what another service has refuses the change.
	"MELMASTOON.BFF.BACKOFFICE.STATE_CONFLICT":               409,
	"MELMASTOON.BFF.BACKOFFICE.SYNC_CURSOR_CONFLICT":         409,
	"MELMASTOON.BFF.BACKOFFICE.PREFERENCES_VERSION_CONFLICT": 412,
	"MELMASTOON.BFF.BACKOFFICE.PREFERENCES_VERSION_REQUIRED": 428,
	"MELMASTOON.BFF.BACKOFFICE.APP_VERSION_UNSUPPORTED":      426,
	"MELMASTOON.BFF.BACKOFFICE.LOCK_OUTCOME_UNKNOWN":         504,
	"MELMASTOON.BFF.BACKOFFICE.UPSTREAM_TIMEOUT":             504,
	"MELMASTOON.BFF.BACKOFFICE.RATE_LIMITED":                 429,
}

func TestRegistry(t *testing.T) {
	t.Parallel()
	var codes []bff.Code
	statuses := map[bff.Code]int{}
	for _, info := range registered(t) {
		code := info.Code
		if _, twice := statuses[code]; twice {
			t.Errorf("%s is registered twice", code)
		}
		codes = append(codes, code)
		statuses[code] = info.Status

		if got := code.Info(); got != info {
			t.Errorf("%s: Info = %+v, the registry says %+v", code, got, info)
		}
		if info.Title == "" || http.StatusText(info.Status) == "" {
			t.Errorf("%s: title %q, status %d", code, info.Title, info.Status)
		}
		if want := "error." + strings.ToLower(strings.TrimPrefix(string(code), "MELMASTOON.")); info.UserMessageKey != want {
			t.Errorf("%s: userMessageKey %q, want %q", code, info.UserMessageKey, want)
		}
		if (info.Status >= 500) != (info.Runbook != "") {
			t.Errorf("%s: status %d with runbook %q: our own failures have one, and no others", code, info.Status, info.Runbook)
		}
		checkRunbook(t, info)
	}
	if diff := cmp.Diff(declaredCodes(t), codes); diff != "" {
		t.Errorf("errors.go and the registry differ (- source, + registry):\n%s", diff)
	}
	if diff := cmp.Diff(wantStatuses, statuses); diff != "" {
		t.Errorf("statuses (- promised, + registry):\n%s", diff)
	}
}

// Every code has a sentence for people in each language of our locales, and no
// sentence is left over.
func TestMessages(t *testing.T) {
	t.Parallel()
	b, err := os.ReadFile("contracts/errors/messages.json")
	if err != nil {
		t.Fatal(err)
	}
	var file struct {
		Messages map[string]map[string]string
	}
	if err := json.Unmarshal(b, &file); err != nil {
		t.Fatal(err)
	}
	for _, info := range registered(t) {
		texts := file.Messages[info.UserMessageKey]
		delete(file.Messages, info.UserMessageKey)
		values, languages := valuesOf(texts["en"]), map[string]bool{}
		for _, l := range bff.Locales() {
			language, _, _ := strings.Cut(string(l), "-")
			languages[language] = true
			if err := checkMessage(texts[language], l, values); err != nil {
				t.Errorf("%s in %s: %v: %q", info.UserMessageKey, language, err, texts[language])
			}
		}
		for language := range texts {
			if !languages[language] {
				t.Errorf("%s has a text in %s, which no locale speaks", info.UserMessageKey, language)
			}
		}
	}
	for key := range file.Messages {
		t.Errorf("%s is no userMessageKey of the registry", key)
	}
}

var (
	messageValue = regexp.MustCompile(`\{(\w+)(?:, plural, ((?:\w+ \{[^{}]*\} ?)+))?\}`)
	pluralForm   = regexp.MustCompile(`(\w+) \{[^{}]*\}`)
)

// valuesOf are the names of the values that are put into a text.
func valuesOf(text string) []string {
	var names []string
	for _, m := range messageValue.FindAllStringSubmatch(text, -1) {
		names = append(names, m[1])
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// checkMessage wants a sentence in the script of the locale with these values,
// and every plural form that its language has.
func checkMessage(text string, l bff.Locale, values []string) error {
	info := l.Info()
	first, _ := utf8.DecodeRuneInString(text)
	script, _ := utf8.DecodeRuneInString(info.Name)
	stop := "."
	if l == bff.LocaleUrdu {
		stop = "۔"
	}
	for _, table := range []*unicode.RangeTable{unicode.Latin, unicode.Arabic, unicode.Cyrillic} {
		if unicode.Is(table, script) != unicode.Is(table, first) || !strings.HasSuffix(text, stop) || strings.TrimSpace(text) != text {
			return errors.New("no sentence")
		}
	}
	if !slices.Equal(valuesOf(text), values) {
		return fmt.Errorf("values %q, want %q", valuesOf(text), values)
	}
	for _, m := range messageValue.FindAllStringSubmatch(text, -1) {
		var forms []string
		for _, f := range pluralForm.FindAllStringSubmatch(m[2], -1) {
			forms = append(forms, f[1])
		}
		slices.Sort(forms)
		if want := slices.Sorted(maps.Keys(info.Plurals)); m[2] != "" && !slices.Equal(forms, want) {
			return fmt.Errorf("plural forms %q, want %q", forms, want)
		}
	}
	if rest := messageValue.ReplaceAllString(text, ""); strings.ContainsAny(rest, "{}") {
		return errors.New("braces that are no value")
	}
	return nil
}

func TestCheckMessage(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		locale bff.Locale
		text   string
		want   bool
	}{
		{bff.LocaleEnglish, "Wait {n, plural, one {# second} other {# seconds}}.", true},
		{bff.LocaleEnglish, "Wait {n} seconds.", true},
		{bff.LocaleEnglish, "Wait {n, plural, one {# second}}.", false},
		{bff.LocaleEnglish, "Wait {m} seconds.", false},
		{bff.LocaleEnglish, "Wait {n} {.", false},
		{bff.LocaleEnglish, "Wait {n}", false},
		{bff.LocaleRussian, "Ждите {n, plural, one {# секунду} few {# секунды} many {# секунд} other {# секунды}}.", true},
		{bff.LocaleRussian, "Ждите {n, plural, one {# секунду} other {# секунды}}.", false},
		{bff.LocaleRussian, "Wait {n}.", false},
		{bff.LocaleArabic, "انتظر {n, plural, one {ثانية} two {ثانيتين} few {# ثوان} many {# ثانية} other {# ثانية}}.", false},
		{bff.LocaleArabic, "انتظر {n, plural, zero {} one {ثانية} two {ثانيتين} few {# ثوان} many {# ثانية} other {# ثانية}}.", true},
		{bff.LocaleUrdu, "{n} سیکنڈ انتظار کریں۔", false}, // it begins with no letter
		{bff.LocaleUrdu, "براہ کرم {n} سیکنڈ انتظار کریں۔", true},
		{bff.LocaleUrdu, "", false},
	} {
		if err := checkMessage(tt.text, tt.locale, []string{"n"}); (err == nil) != tt.want {
			t.Errorf("%s %q: %v", tt.locale, tt.text, err)
		}
	}
}

// checkRunbook: an engineer woken by an error finds the three answers.
func checkRunbook(t *testing.T, info bff.CodeInfo) {
	t.Helper()
	if info.Runbook == "" {
		return
	}
	b, err := os.ReadFile(info.Runbook)
	if err != nil {
		t.Errorf("%s: %v", info.Code, err)
		return
	}
	for _, want := range []string{string(info.Code), "## What it means", "## How to see it", "## What to do"} {
		if !strings.Contains(string(b), want) {
			t.Errorf("%s: %s has no %q", info.Code, info.Runbook, want)
		}
	}
}

func TestUnregisteredCode(t *testing.T) {
	t.Parallel()
	if got := bff.Code("MELMASTOON.NO.SUCH").Info(); got.Code != bff.CodeInternal || got.Status != 500 {
		t.Errorf("Info = %+v, want that of an internal error", got)
	}
}

func TestError(t *testing.T) {
	t.Parallel()
	cause := errors.New("dial tcp: refused")
	tests := []struct {
		err  *bff.Error
		want string
	}{
		{&bff.Error{Code: bff.CodeInternal}, "MELMASTOON.GENERAL.INTERNAL"},
		{bff.Errorf(bff.CodeRateLimited, "at most %d a minute", 60), "MELMASTOON.BFF.CONSUMER.RATE_LIMITED: at most 60 a minute"},
		{bff.Wrap(bff.CodeUpstreamUnavailable, cause), "MELMASTOON.BFF.UPSTREAM_UNAVAILABLE: dial tcp: refused"},
		{
			&bff.Error{
				Code: bff.CodeValidationFailed, Detail: "no",
				Fields: bff.FieldErrors{{Field: "a", Code: "type"}, {Field: "b.c", Code: "range"}, {Field: "d", Code: "count"}}, Err: cause,
			},
			"MELMASTOON.GENERAL.VALIDATION_FAILED: no: a type, b.c range, d count: dial tcp: refused",
		},
	}
	for _, tt := range tests {
		if got := tt.err.Error(); got != tt.want {
			t.Errorf("Error = %q, want %q", got, tt.want)
		}
		wrapped := fmt.Errorf("search: %w", tt.err)
		if got := bff.CodeOf(wrapped); got != tt.err.Code {
			t.Errorf("CodeOf = %s, want %s", got, tt.err.Code)
		}
		if errors.Is(wrapped, cause) != (tt.err.Err != nil) {
			t.Errorf("%v: the cause is not found", wrapped)
		}
	}
	for _, err := range []error{nil, cause} {
		if got := bff.CodeOf(err); got != bff.CodeInternal {
			t.Errorf("CodeOf(%v) = %s", err, got)
		}
	}
}

func TestFieldErrors(t *testing.T) {
	t.Parallel()
	field := func(name, code string) bff.FieldErrors { return bff.FieldErrors{{Field: name, Code: code}} }
	tests := []struct {
		name string
		in   bff.FieldErrors
		want bff.Code // empty: no error
	}{
		{"none", nil, ""},
		{"empty", bff.FieldErrors{}, ""},
		{"a bad field", field("dates.checkOut", bff.FieldOrder), bff.CodeValidationFailed},
		{"an unsupported field", field("sortKey", bff.FieldUnsupported), bff.CodeValidationFailed},
		{"both", append(field("locale", bff.FieldUnsupported), field("currency", bff.FieldUnsupported)...), bff.CodeValidationFailed},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			err := tt.in.Err()
			if tt.want == "" {
				if err != nil {
					t.Errorf("Err = %v", err)
				}
				return
			}
			e, ok := errors.AsType[*bff.Error](err)
			if !ok || e.Code != tt.want {
				t.Fatalf("Err = %v, want %s", err, tt.want)
			}
			if diff := cmp.Diff(tt.in, e.Fields); diff != "" {
				t.Error(diff)
			}
		})
	}

	var bad bff.FieldErrors
	bad.Check(true, "fine", bff.FieldRange)
	bad.Check(false, "page", bff.FieldRange)
	bad.Under("dates", field("checkIn", bff.FieldFormat))
	bad.Under("dates", nil)
	want := bff.FieldErrors{{Field: "page", Code: "range"}, {Field: "dates.checkIn", Code: "format"}}
	if diff := cmp.Diff(want, bad); diff != "" {
		t.Error(diff)
	}
}

var writeDocs = flag.Bool("write-docs", false, "write docs/errors and contracts/locales anew")

// page is a code's page of docs/errors, from what the registry says.
func page(info bff.CodeInfo) string {
	again := "fails again as it is"
	if info.Retriable {
		again = "may succeed later"
	}
	text := fmt.Sprintf(
		"# %s\n\n%d · %s · %s · %s\n\n%s\n\n**What to do.** %s\n", info.Code, info.Status, info.Title, info.RaisedBy, again, info.Meaning, info.Advice,
	)
	if info.Runbook != "" {
		text += fmt.Sprintf("\nOn call: [%s](../%s)\n", path.Base(info.Runbook), strings.TrimPrefix(info.Runbook, "docs/"))
	}
	return text
}

// Every code has a page under the address that problem documents name, made from the
// registry.
func TestErrorPages(t *testing.T) {
	t.Parallel()
	pages, err := os.ReadDir("docs/errors")
	if err != nil {
		t.Fatal(err)
	}
	known := map[string]bool{}
	for _, info := range registered(t) {
		if info.RaisedBy == "" || info.Meaning == "" || info.Advice == "" {
			t.Errorf("%s: says not who raises it, what it means and what to do", info.Code)
		}
		name := "docs/errors/" + string(info.Code) + ".md"
		known[path.Base(name)] = true
		if b, err := os.ReadFile(name); err == nil && string(b) == page(info) {
			continue
		}
		if !*writeDocs {
			t.Errorf("%s is stale: run go test . -run TestErrorPages -write-docs", name)
		} else if err := os.WriteFile(name, []byte(page(info)), 0o644); err != nil { //nolint:gosec // a page of the documentation
			t.Fatal(err)
		}
	}
	for _, p := range pages {
		if !known[p.Name()] {
			t.Errorf("docs/errors/%s: there is no such code", p.Name())
		}
	}
}
