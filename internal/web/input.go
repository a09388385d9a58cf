package web

import (
	"encoding/json"
	"errors"
	"io"
	"math"
	"mime"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"melmastoon.ghasi.io/bff"
)

// Input reads the members of a request's body or query one by one and collects
// everything that is wrong with them, so that a client hears of all its
// mistakes at once. Members that nobody asks for are ignored.
type Input struct {
	members map[string]any
	path    string
	bad     *bff.FieldErrors
}

// ReadBody reads a JSON object of at most limit bytes.
func ReadBody(w http.ResponseWriter, r *http.Request, limit int64) (*Input, error) {
	body, err := ReadBytes(w, r, limit)
	if err != nil {
		return nil, err
	}
	return ParseBody(body)
}

// ReadBytes reads a body that says it is JSON, for ParseBody.
func ReadBytes(w http.ResponseWriter, r *http.Request, limit int64) ([]byte, error) {
	if ct := r.Header.Get("Content-Type"); ct != "" {
		media, _, err := mime.ParseMediaType(ct)
		if err != nil || (media != "application/json" && !strings.HasSuffix(media, "+json")) {
			return nil, bff.Errorf(bff.CodeUnsupportedMediaType, "the content type must be application/json")
		}
	}
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, limit))
	if err != nil {
		if tooLarge, ok := errors.AsType[*http.MaxBytesError](err); ok {
			return nil, bff.Errorf(bff.CodePayloadTooLarge, "the body may have at most %d bytes", tooLarge.Limit)
		}
		return nil, &bff.Error{
			Code: bff.CodeValidationFailed, Detail: "the body could not be read",
			Fields: bff.FieldErrors{{Field: "body", Code: bff.FieldFormat}}, Err: err,
		}
	}
	return body, nil
}

// ParseBody reads a JSON object.
func ParseBody(body []byte) (*Input, error) {
	bad := func(code, detail string) error {
		return &bff.Error{
			Code: bff.CodeValidationFailed, Detail: detail,
			Fields: bff.FieldErrors{{Field: "body", Code: code}},
		}
	}
	if len(body) == 0 {
		return nil, bad(bff.FieldRequired, "a JSON object is required")
	}
	if !utf8.Valid(body) {
		return nil, bad(bff.FieldFormat, "the body must be UTF-8")
	}
	dec := json.NewDecoder(strings.NewReader(string(body)))
	dec.UseNumber()
	var v any
	if err := dec.Decode(&v); err != nil {
		return nil, bad(bff.FieldFormat, "the body must be one JSON object")
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		return nil, bad(bff.FieldFormat, "the body must be one JSON object")
	}
	members, ok := v.(map[string]any)
	if !ok {
		return nil, bad(bff.FieldType, "the body must be one JSON object")
	}
	return &Input{members: members, bad: new(bff.FieldErrors)}, nil
}

// ReadQuery reads the parameters of a URL. A parameter given twice is refused:
// two readers could believe two different values.
func ReadQuery(r *http.Request) *Input {
	in := &Input{members: map[string]any{}, bad: new(bff.FieldErrors)}
	values, err := url.ParseQuery(r.URL.RawQuery)
	if err != nil {
		in.bad.Add("query", bff.FieldFormat)
	}
	for k, v := range values {
		if len(v) > 1 {
			in.bad.Add(k, bff.FieldConflict)
		}
		in.members[k] = queryValue(v[0])
	}
	return in
}

// queryValue is a string that may stand for a number.
type queryValue string

// Err returns everything that was refused, or nil.
func (in *Input) Err() error { return in.bad.Err() }

// Refuse records a member that the caller refuses.
func (in *Input) Refuse(name, code string) { in.bad.Add(in.at(name), code) }

// RefuseAll records the refused members of a part that the caller validated.
func (in *Input) RefuseAll(part bff.FieldErrors) {
	for _, e := range part {
		in.Refuse(e.Field, e.Code)
	}
}

func (in *Input) at(name string) string {
	if in.path == "" {
		return name
	}
	return in.path + "." + name
}

// Members are the members as they came, for objects whose names are the
// client's own; they must not be changed.
func (in *Input) Members() map[string]any { return in.members }

// Has reports whether a member is there and not null.
func (in *Input) Has(name string) bool {
	v, ok := in.members[name]
	return ok && v != nil && v != queryValue("")
}

// Require refuses the named members that are missing.
func (in *Input) Require(names ...string) {
	for _, n := range names {
		if !in.Has(n) {
			in.Refuse(n, bff.FieldRequired)
		}
	}
}

// String reads a text of at most maxRunes characters without control
// characters; "" if absent or refused.
func (in *Input) String(name string, maxRunes int) string {
	if !in.Has(name) {
		return ""
	}
	var s string
	switch v := in.members[name].(type) {
	case string:
		s = v
	case queryValue:
		s = string(v)
	default:
		in.Refuse(name, bff.FieldType)
		return ""
	}
	return in.text(name, s, maxRunes)
}

func (in *Input) text(name, s string, maxRunes int) string {
	switch {
	case !utf8.ValidString(s) || strings.ContainsFunc(s, unicode.IsControl):
		in.Refuse(name, bff.FieldFormat)
		return ""
	case utf8.RuneCountInString(s) > maxRunes:
		in.Refuse(name, bff.FieldLength)
		return ""
	}
	return s
}

// Enum reads one of a closed set of words.
func (in *Input) Enum(name string, allowed ...string) string {
	s := in.String(name, 64)
	if s == "" {
		return ""
	}
	if !slices.Contains(allowed, s) {
		in.Refuse(name, bff.FieldUnsupported)
		return ""
	}
	return s
}

// Int reads a whole number within bounds; def if absent or refused.
func (in *Input) Int(name string, def, lo, hi int) int {
	if !in.Has(name) {
		return def
	}
	n, ok := in.number(name)
	if !ok {
		return def
	}
	if n != math.Trunc(n) {
		in.Refuse(name, bff.FieldType)
		return def
	}
	if n < float64(lo) || n > float64(hi) {
		in.Refuse(name, bff.FieldRange)
		return def
	}
	return int(n)
}

// Float reads a number within bounds; 0 if absent or refused.
func (in *Input) Float(name string, lo, hi float64) float64 {
	if !in.Has(name) {
		return 0
	}
	n, ok := in.number(name)
	if !ok {
		return 0
	}
	if n < lo || n > hi {
		in.Refuse(name, bff.FieldRange)
		return 0
	}
	return n
}

func (in *Input) number(name string) (float64, bool) {
	var text string
	switch v := in.members[name].(type) {
	case json.Number:
		text = v.String()
	case queryValue:
		text = string(v)
	default:
		in.Refuse(name, bff.FieldType)
		return 0, false
	}
	n, err := strconv.ParseFloat(text, 64)
	if err != nil || math.IsNaN(n) || math.IsInf(n, 0) {
		in.Refuse(name, bff.FieldFormat)
		return 0, false
	}
	return n, true
}

// Bool reads a truth value; nil if absent or refused.
func (in *Input) Bool(name string) *bool {
	if !in.Has(name) {
		return nil
	}
	b, ok := in.members[name].(bool)
	if !ok {
		in.Refuse(name, bff.FieldType)
		return nil
	}
	return &b
}

// Object reads a nested object; nil if absent or refused.
func (in *Input) Object(name string) *Input {
	if !in.Has(name) {
		return nil
	}
	m, ok := in.members[name].(map[string]any)
	if !ok {
		in.Refuse(name, bff.FieldType)
		return nil
	}
	return &Input{members: m, path: in.at(name), bad: in.bad}
}

// list reads an array of at most most entries; a query parameter may hold
// entries between commas.
func (in *Input) list(name string, most int) []any {
	if !in.Has(name) {
		return nil
	}
	var items []any
	switch v := in.members[name].(type) {
	case []any:
		items = v
	case queryValue:
		for part := range strings.SplitSeq(string(v), ",") {
			items = append(items, queryValue(part))
		}
	default:
		in.Refuse(name, bff.FieldType)
		return nil
	}
	if len(items) > most {
		in.Refuse(name, bff.FieldCount)
		return nil
	}
	return items
}

// Strings reads a list of texts.
func (in *Input) Strings(name string, most, maxRunes int) []string {
	items := in.list(name, most)
	out := make([]string, 0, len(items))
	for i, item := range items {
		at := name + "[" + strconv.Itoa(i) + "]"
		switch v := item.(type) {
		case string:
			out = append(out, in.text(at, v, maxRunes))
		case queryValue:
			out = append(out, in.text(at, string(v), maxRunes))
		default:
			in.Refuse(at, bff.FieldType)
		}
	}
	if len(items) == 0 {
		return nil
	}
	return out
}

// Ints reads a list of whole numbers within bounds.
func (in *Input) Ints(name string, most, lo, hi int) []int {
	items := in.list(name, most)
	if len(items) == 0 {
		return nil
	}
	part := &Input{members: map[string]any{}, path: in.path, bad: in.bad}
	out := make([]int, 0, len(items))
	for i, item := range items {
		at := name + "[" + strconv.Itoa(i) + "]"
		part.members[at] = item
		if item == nil || item == queryValue("") {
			part.Refuse(at, bff.FieldType)
			continue
		}
		out = append(out, part.Int(at, lo, lo, hi))
	}
	return out
}

// ID reads an id of one kind; the zero ID if absent or refused.
func (in *Input) ID(name string, p bff.Prefix) bff.ID {
	s := in.String(name, 64)
	if s == "" {
		return bff.ID{}
	}
	id, err := bff.ParseID(p, s)
	if err != nil {
		in.Refuse(name, bff.FieldFormat)
		return bff.ID{}
	}
	return id
}

// Date reads a calendar day; the zero Date if absent or refused.
func (in *Input) Date(name string) (bff.Date, bool) {
	s := in.String(name, 32)
	if s == "" {
		return 0, false
	}
	d, err := bff.ParseDate(s)
	if err != nil {
		in.Refuse(name, bff.FieldFormat)
		return 0, false
	}
	return d, true
}

// Locale reads a supported locale; "" if absent or refused.
func (in *Input) Locale(name string) bff.Locale {
	s := in.String(name, 64)
	if s == "" {
		return ""
	}
	l, err := bff.ParseLocale(s)
	if err != nil {
		in.Refuse(name, bff.FieldUnsupported)
		return ""
	}
	return l
}

// Currency reads a supported currency; "" if absent or refused.
func (in *Input) Currency(name string) bff.Currency {
	s := in.String(name, 64)
	if s == "" {
		return ""
	}
	c, err := bff.ParseCurrency(s)
	if err != nil {
		in.Refuse(name, bff.FieldUnsupported)
		return ""
	}
	return c
}

// Stay reads checkIn and checkOut, both required.
func (in *Input) Stay() bff.StayDates {
	in.Require("checkIn", "checkOut")
	from, ok1 := in.Date("checkIn")
	to, ok2 := in.Date("checkOut")
	stay := bff.StayDates{CheckIn: from, CheckOut: to}
	if ok1 && ok2 {
		in.RefuseAll(stay.Validate())
	}
	return stay
}

// Occupancy reads the party. Adults and rooms must be given when required.
func (in *Input) Occupancy(required bool) bff.Occupancy {
	if required {
		in.Require("adults", "rooms")
	}
	def := bff.DefaultOccupancy()
	o := bff.Occupancy{
		Adults:       in.Int("adults", def.Adults, 1, bff.MaxAdults),
		Children:     in.Int("children", 0, 0, bff.MaxChildren),
		Rooms:        in.Int("rooms", def.Rooms, 1, bff.MaxRooms),
		ChildrenAges: in.Ints("childrenAges", bff.MaxChildren, 0, bff.MaxChildAge),
	}
	if o.ChildrenAges != nil && len(o.ChildrenAges) != o.Children {
		in.Refuse("childrenAges", bff.FieldCount)
	}
	return o
}

// WriteJSON writes an answer that belongs to one guest only.
func WriteJSON(w http.ResponseWriter, status int, v any) error {
	body, err := json.Marshal(v)
	if err != nil {
		return err
	}
	return WriteBytes(w, status, body)
}

// WriteBytes writes an encoded JSON answer that belongs to one guest only.
func WriteBytes(w http.ResponseWriter, status int, body []byte) error {
	h := w.Header()
	h.Set("Content-Type", "application/json")
	if h.Get("Cache-Control") == "" {
		h.Set("Cache-Control", "private, no-store")
	}
	h.Set("X-Content-Type-Options", "nosniff")
	w.WriteHeader(status)
	_, _ = w.Write(body) // the peer has gone: nothing is left to do
	return nil
}
