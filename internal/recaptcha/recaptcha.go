// Package recaptcha asks reCAPTCHA Enterprise what it thinks of a token. It knows
// tokens and scores, and no guests: neither addresses nor user agents leave
// through it, since the browser that got the token has told Google its own.
package recaptcha

import (
	"context"
	"errors"
	"fmt"

	recaptchaenterprise "cloud.google.com/go/recaptchaenterprise/v2/apiv1"
	"cloud.google.com/go/recaptchaenterprise/v2/apiv1/recaptchaenterprisepb"
	"google.golang.org/api/option"
)

// Config says whose tokens are judged.
type Config struct {
	Project string // of Google Cloud
	SiteKey string // that the pages use
	// Options reach another server than Google's, in tests.
	Options []option.ClientOption
}

// Assessor judges tokens.
type Assessor struct {
	client          *recaptchaenterprise.Client
	parent, siteKey string
}

// New opens the client; it does not call yet.
func New(ctx context.Context, cfg Config) (*Assessor, error) {
	if cfg.Project == "" || cfg.SiteKey == "" {
		return nil, errors.New("recaptcha: project and site key are required")
	}
	client, err := recaptchaenterprise.NewClient(ctx, cfg.Options...)
	if err != nil {
		return nil, fmt.Errorf("recaptcha: %w", err)
	}
	return &Assessor{client: client, parent: "projects/" + cfg.Project, siteKey: cfg.SiteKey}, nil
}

// Assess returns how likely a person is behind a token, from 0 to 1; false if the
// token is forged, spent, too old or another site's. An error means that Google
// could not say; the caller sets the deadline.
func (a *Assessor) Assess(ctx context.Context, token string) (person float64, valid bool, err error) {
	got, err := a.client.CreateAssessment(ctx, &recaptchaenterprisepb.CreateAssessmentRequest{
		Parent: a.parent,
		Assessment: &recaptchaenterprisepb.Assessment{
			Event: &recaptchaenterprisepb.Event{Token: token, SiteKey: a.siteKey},
		},
	})
	if err != nil {
		return 0, false, fmt.Errorf("assess token: %w", err)
	}
	if !got.GetTokenProperties().GetValid() {
		return 0, false, nil
	}
	return float64(got.GetRiskAnalysis().GetScore()), true, nil
}

// Close ends the connection.
func (a *Assessor) Close() error { return a.client.Close() }
