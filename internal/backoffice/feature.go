package backoffice

// Feature is a part of the service that can be switched off while it runs, for all
// tenants or for one.
type Feature string

// The features there are.
const (
	// FeatureStream is the live stream. Without it streams end, and apps poll.
	FeatureStream Feature = "live_stream"
	// FeatureAIInbox is the list of what the AI orchestrator suggests.
	FeatureAIInbox Feature = "ai_inbox"
	// FeatureBlackout is the pack for the time without a line: guests' names on a hotel's
	// computers, which a tenant has to want.
	FeatureBlackout Feature = "blackout_desk"
)

// Features lists every feature.
func Features() []Feature { return []Feature{FeatureStream, FeatureAIInbox, FeatureBlackout} }

// OptIn reports whether only those tenants have the feature that have switched it on.
func (f Feature) OptIn() bool { return f == FeatureBlackout }
