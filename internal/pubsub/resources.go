package pubsub

import (
	"slices"
	"strconv"
	"time"
)

// Resources are the topics and subscriptions that a service needs in a project.
// Its JSON is for tools that create them, such as Terraform.
type Resources struct {
	Topics []string `json:"topics"` // its own, those of dead letters included
	// Sources are the topics of other producers that the subscriptions are of.
	Sources       []string   `json:"sources"`
	Subscriptions []Resource `json:"subscriptions"`
}

// Resource is a subscription as it has to be created.
type Resource struct {
	Name                string `json:"name"`
	Topic               string `json:"topic"`
	DeadLetterTopic     string `json:"deadLetterTopic,omitempty"`
	MaxDeliveryAttempts int    `json:"maxDeliveryAttempts,omitempty"`
	AckDeadlineSeconds  int    `json:"ackDeadlineSeconds"`
	MinBackoff          string `json:"minimumBackoff"`
	MaxBackoff          string `json:"maximumBackoff"`
	Ordered             bool   `json:"enableMessageOrdering"`
	Filter              string `json:"filter,omitempty"`
}

// Needed lists what a service needs that publishes to the topics and receives
// through the subscriptions.
func Needed(topics []string, subs []Subscription) Resources {
	r := Resources{Topics: append([]string{}, topics...), Sources: []string{}, Subscriptions: []Resource{}}
	for _, s := range subs {
		s = s.withDefaults()
		r.Sources = append(r.Sources, s.Topic)
		res := Resource{
			Name: s.Name, Topic: s.Topic, AckDeadlineSeconds: int(s.AckDeadline / time.Second),
			MinBackoff: seconds(s.MinBackoff), MaxBackoff: seconds(s.MaxBackoff), Ordered: s.Ordered, Filter: s.Filter,
		}
		if s.DLQ != "" {
			r.Topics = append(r.Topics, s.DLQ)
			res.DeadLetterTopic, res.MaxDeliveryAttempts = s.DLQ, s.serverAttempts()
		}
		r.Subscriptions = append(r.Subscriptions, res)
	}
	for _, list := range []*[]string{&r.Topics, &r.Sources} {
		slices.Sort(*list)
		*list = slices.Compact(*list)
	}
	return r
}

// seconds is a duration as Pub/Sub's API writes it.
func seconds(d time.Duration) string {
	return strconv.FormatFloat(d.Seconds(), 'f', -1, 64) + "s"
}

// serverAttempts is the limit of Pub/Sub's own dead-letter policy. It stands behind
// ours, for a process that dies on a message before it can count: it must not fire
// first.
func (s Subscription) serverAttempts() int { return min(100, max(5, 2*s.MaxAttempts)) }
