package device

import (
	"context"
	"encoding/json"
	"time"

	"melmastoon.ghasi.io/bff"
	"melmastoon.ghasi.io/bff/internal/backoffice"
)

const (
	// MaxPreferences bounds the bytes of a change of preferences.
	MaxPreferences = 16 << 10
	// MaxPreferencesDepth bounds how deep objects and lists are nested in a payload.
	MaxPreferencesDepth = 8
	// MaxPreferencesValues bounds the values of a payload, at all depths.
	MaxPreferencesValues = 2000
)

// PreferencesOwner says whose preferences are meant: those of an operator, for one
// property or, without one, for all.
type PreferencesOwner struct {
	Tenant   bff.ID
	Operator string
	Property bff.ID
}

// Preferences are how an operator has set up the app. Tenant-service keeps them;
// each change makes a new version.
type Preferences struct {
	Payload   json.RawMessage `json:"payload"`
	Version   int             `json:"version"`
	UpdatedAt bff.Timestamp   `json:"updatedAt"`
	// Stale: tenant-service could not be asked, and this is our last copy.
	Stale bool `json:"stale,omitempty"`
}

// PreferencesChange replaces the preferences of a version that the operator has
// seen.
type PreferencesChange struct {
	Owner   PreferencesOwner
	Seen    int // version
	Payload json.RawMessage
}

// CheckPreferences reports what is wrong with a payload, by the names of its
// members. Its meaning is the app's, but for the keyboard shortcuts.
func CheckPreferences(payload map[string]any) bff.FieldErrors {
	var bad bff.FieldErrors
	if own, there := payload[shortcutsMember]; there {
		if _, ok := readShortcutOverrides(own); !ok {
			bad.Add("payload."+shortcutsMember, bff.FieldFormat)
		}
	}
	return bad
}

// PreferencesReader finds preferences: tenant-service's, or our copy of them.
type PreferencesReader interface {
	FindPreferences(ctx context.Context, o PreferencesOwner) (Preferences, error)
	// ForgetPreferences has the next read ask tenant-service, in every instance. An
	// error says that some instances may answer with what they remember for its
	// lifetime.
	ForgetPreferences(ctx context.Context, o PreferencesOwner) error
}

// PreferencesWriter is tenant-service.
type PreferencesWriter interface {
	// ReplacePreferences changes preferences, once per key. It fails with
	// CodePreferencesVersionConflict if the operator has not seen the newest version.
	ReplacePreferences(ctx context.Context, c PreferencesChange, key string) (Preferences, error)
}

// PreferencesUpdated is the payload of preferences.updated.v1. What was set is the
// operator's own and stays out of it.
type PreferencesUpdated struct {
	Version   int           `json:"version"`
	UpdatedAt bff.Timestamp `json:"updatedAt"`
}

// Subject implements backoffice.Fact.
func (PreferencesUpdated) Subject() backoffice.Subject { return backoffice.SubjectPreferencesUpdated }

// Settings shows and changes preferences.
type Settings struct {
	PreferencesReader

	writer    PreferencesWriter
	mutations backoffice.Mutations
	news      *backoffice.Envelopes
	notices   backoffice.Notifier
	now       func() time.Time
}

// SettingsConfig is what Settings work with.
type SettingsConfig struct {
	Reader    PreferencesReader
	Writer    PreferencesWriter
	Mutations backoffice.Mutations
	News      *backoffice.Envelopes
	Notices   backoffice.Notifier // tells the operator's devices
	Now       func() time.Time
}

// NewSettings returns Settings.
func NewSettings(cfg SettingsConfig) *Settings {
	return &Settings{PreferencesReader: cfg.Reader, writer: cfg.Writer, mutations: cfg.Mutations, news: cfg.News, notices: cfg.Notices, now: cfg.Now}
}

// ReplacePreferences has tenant-service change a visitor's preferences. Our copy, the
// activity's outcome and the event are committed together, after tenant-service has
// accepted the change. A process that is killed in between leaves a claim, which the
// repeated request takes over, and a copy that the next read brings up to date.
func (s *Settings) ReplacePreferences(ctx context.Context, v *backoffice.Visit, c PreferencesChange, o backoffice.Once, now time.Time) (Preferences, error) {
	var at time.Time // it ended
	did := v.Activity("preferences", "replace", backoffice.Resource{Kind: "operator", ID: v.Session.Operator}, now)
	answer, err := backoffice.Commit(ctx, s.mutations, backoffice.Attempt{Activity: did, Once: o}, func() (backoffice.Finished, error) {
		// Before the call as well: killed after it, this process tells no instance that
		// what it remembers is old. A failure leaves that to the memory's own lifetime.
		_ = s.ForgetPreferences(ctx, c.Owner)
		replaced, err := s.writer.ReplacePreferences(ctx, c, o.Key)
		at = s.now()
		if err != nil {
			return backoffice.Finished{At: at, Failure: err}, nil //nolint:nilerr // it is how the attempt ends
		}
		e, err := s.news.Event(PreferencesUpdated{Version: replaced.Version, UpdatedAt: replaced.UpdatedAt}, v.About(c.Owner.Property), v.Request, at)
		// The copy has what was checked, which is what tenant-service has accepted: what it
		// answers with might be something that no database takes.
		replaced.Payload = c.Payload
		return backoffice.Finished{
			At: at, Events: []bff.Event{e}, Effects: []backoffice.Effect{PreferencesCopy{Owner: c.Owner, Preferences: replaced}},
			Answer: backoffice.Answer{Status: 200, Receipt: backoffice.NewReceipt(map[string]any{
				"version": replaced.Version, "updatedAt": replaced.UpdatedAt.String(),
			})},
		}, err
	})
	if !at.IsZero() {
		// After any outcome: a version conflict or a timeout says that what is remembered
		// may be old.
		_ = s.ForgetPreferences(context.WithoutCancel(ctx), c.Owner)
	}
	if err != nil {
		return Preferences{}, err
	}
	out, err := c.result(answer)
	if err == nil && !at.IsZero() {
		// What has happened is committed: a device that is not told shows it when it reads
		// the preferences again.
		_ = s.notices.Notify(ctx, backoffice.Notice{
			Channel: backoffice.ChannelSession, Type: "preferences.updated", Tenant: c.Owner.Tenant, Operator: c.Owner.Operator, Property: c.Owner.Property,
			CausedBy: v.Request.RequestID.String(), At: at, Data: backoffice.NoticeData(map[string]int{"version": out.Version}),
		})
	}
	return out, err
}

// PreferencesCopy is what we keep of preferences, for when tenant-service is away.
type PreferencesCopy struct {
	Owner PreferencesOwner
	Preferences
}

// OfTenant implements backoffice.Effect.
func (c PreferencesCopy) OfTenant() bff.ID { return c.Owner.Tenant }

// result is the answer to a change. A repeated request has the same payload, or it
// would not be the same request: the answer need not be stored with it.
func (c *PreferencesChange) result(a backoffice.Answer) (Preferences, error) {
	body, err := json.Marshal(a.Receipt)
	if err != nil {
		return Preferences{}, err
	}
	p := Preferences{}
	if err := json.Unmarshal(body, &p); err != nil {
		return Preferences{}, err
	}
	p.Payload = c.Payload
	return p, nil
}
