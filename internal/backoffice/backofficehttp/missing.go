package backofficehttp

// Missing names a part of an answer that is missing or old, and why.
type Missing struct {
	Part   MissingPart   `json:"part"`
	Reason MissingReason `json:"reason"`
}

// MissingPart is a part that an answer can do without.
type MissingPart string

// The parts there are.
const (
	MissingDecisions        MissingPart = "decisions"
	MissingAcknowledgements MissingPart = "acknowledgements"
	MissingPreferences      MissingPart = "preferences"
	MissingSuggestions      MissingPart = "suggestions"
	MissingProperties       MissingPart = "properties"
)

// MissingReason is why a part is missing.
type MissingReason string

// The reasons there are.
const (
	StoreAway    MissingReason = "store"        // our own store could not be read
	UpstreamAway MissingReason = "upstream"     // the service that has it could not be asked
	ShownStale   MissingReason = "stale"        // an earlier one is shown, because that service could not be asked
	SwitchedOff  MissingReason = "switched_off" // a feature flag is off
)
