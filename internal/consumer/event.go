package consumer

import (
	"encoding/json"
	"strconv"
	"strings"
	"time"

	"melmastoon.ghasi.io/bff"
)

// Producer is this service's name in envelopes.
const Producer = "bff-consumer-service"

// Subject names an event.
type Subject string

// The events that this service publishes. They are telemetry: nothing in
// another service's domain follows from them.
const (
	SubjectSessionStarted   Subject = "melmastoon.bff.consumer.session.started.v1"
	SubjectSessionEnded     Subject = "melmastoon.bff.consumer.session.ended.v1"
	SubjectSearchExecuted   Subject = "melmastoon.bff.consumer.search.executed.v1"
	SubjectClickRecorded    Subject = "melmastoon.bff.consumer.click.recorded.v1"
	SubjectHandoffInitiated Subject = "melmastoon.bff.consumer.handoff.initiated.v1"
	SubjectLocaleChanged    Subject = "melmastoon.bff.consumer.locale.changed.v1"
	SubjectCurrencyChanged  Subject = "melmastoon.bff.consumer.currency.changed.v1"
	SubjectWishlistAdded    Subject = "melmastoon.bff.consumer.wishlist.added.v1"
	SubjectWishlistRemoved  Subject = "melmastoon.bff.consumer.wishlist.removed.v1"
	SubjectBotSuspected     Subject = "melmastoon.bff.consumer.bot_suspected.v1"
	SubjectDetailViewed     Subject = "melmastoon.bff.consumer.detail.viewed.v1"
	SubjectPageViewed       Subject = "melmastoon.bff.consumer.page.viewed.v1"
	SubjectFunnelStep       Subject = "melmastoon.bff.consumer.funnel.step_recorded.v1"
)

// Subjects lists every event of the service, for topics and contracts.
func Subjects() []Subject {
	return []Subject{
		SubjectSessionStarted, SubjectSessionEnded, SubjectSearchExecuted, SubjectClickRecorded,
		SubjectHandoffInitiated, SubjectLocaleChanged, SubjectCurrencyChanged, SubjectWishlistAdded,
		SubjectWishlistRemoved, SubjectBotSuspected, SubjectDetailViewed, SubjectPageViewed, SubjectFunnelStep,
	}
}

// Retention returns the class of the event.
func (s Subject) Retention() bff.RetentionClass {
	if s == SubjectHandoffInitiated || s == SubjectBotSuspected {
		return bff.RetentionAudit
	}
	return bff.RetentionOperational
}

// version is the number at the end of the subject.
func (s Subject) version() int {
	n, err := strconv.Atoi(string(s[strings.LastIndex(string(s), ".v")+2:]))
	if err != nil {
		return 1
	}
	return n
}

// schemaURI is where the schema of the event is published.
func (s Subject) schemaURI() string {
	name := strings.TrimPrefix(string(s), "melmastoon.bff.consumer.")
	i := strings.LastIndex(name, ".v")
	return "https://schemas.melmastoon.ghasi.io/bff-consumer/" +
		strings.NewReplacer(".", "-", "_", "-").Replace(name[:i]) + "/" + name[i+1:] + ".json"
}

// Occasion is what the envelope says of the request that caused an event.
type Occasion struct {
	Instance    string // of this process
	RequestID   bff.ID
	TraceParent string
	Session     bff.ID // zero before a guest has one
	Sampling    float64
}

// NewEvent wraps a payload for publishing. Ids come from a sequence, so that
// rows drained in id order keep the order of the guest's actions.
func NewEvent(id bff.ID, s Subject, payload any, o Occasion, now time.Time) (bff.Event, error) {
	body, err := json.Marshal(payload)
	if err != nil {
		return bff.Event{}, err
	}
	if o.Sampling == 0 {
		o.Sampling = 1
	}
	return bff.Event{
		Envelope: bff.Envelope{
			EventID: id.String(), Subject: string(s), Version: s.version(), OccurredAt: bff.At(now),
			Producer: Producer, ProducerInstance: o.Instance,
			SessionID: optional(o.Session.String()), RequestID: optional(o.RequestID.String()),
			TraceID: optional(o.TraceParent), CorrelationID: optional(o.RequestID.String()),
			SchemaURI: s.schemaURI(), RetentionClass: s.Retention(), SamplingRate: o.Sampling,
		},
		Payload: body,
	}, nil
}

func optional(s string) *string {
	if s == "" {
		return nil
	}
	return &s
}
