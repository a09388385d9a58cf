package flags

// The flags of the platform. A flag is named once, here.
const (
	// CampaignMode keeps search lists longer and lowers the hand-off limit, to
	// absorb the spike of a campaign.
	CampaignMode = "bff.consumer.campaign_mode.v1"
	// BrownoutRung holds the service on a rung of the brownout ladder, by name.
	BrownoutRung = "bff.consumer.brownout_rung.v1"
)

// SampleRate names the flag that says which share of an event's kind leaves.
func SampleRate(subject string) string { return "bff.consumer.sample_rate.v1:" + subject }
