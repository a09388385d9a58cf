package recaptcha

import (
	"context"
	"net"
	"testing"
	"time"

	"cloud.google.com/go/recaptchaenterprise/v2/apiv1/recaptchaenterprisepb"
	"google.golang.org/api/option"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"
)

// google answers as reCAPTCHA Enterprise does.
type google struct {
	recaptchaenterprisepb.UnimplementedRecaptchaEnterpriseServiceServer
}

func (google) CreateAssessment(_ context.Context, r *recaptchaenterprisepb.CreateAssessmentRequest) (*recaptchaenterprisepb.Assessment, error) {
	event := r.GetAssessment().GetEvent()
	if r.GetParent() != "projects/p" || event.GetSiteKey() != "site" {
		return nil, status.Error(codes.InvalidArgument, "whose is this?")
	}
	answer := func(valid bool, score float32) (*recaptchaenterprisepb.Assessment, error) {
		return &recaptchaenterprisepb.Assessment{
			Event:           event,
			TokenProperties: &recaptchaenterprisepb.TokenProperties{Valid: valid},
			RiskAnalysis:    &recaptchaenterprisepb.RiskAnalysis{Score: score},
		}, nil
	}
	switch event.GetToken() {
	case "person":
		return answer(true, 0.9)
	case "program":
		return answer(true, 0.1)
	case "broken":
		return nil, status.Error(codes.PermissionDenied, "no")
	}
	return answer(false, 0)
}

func TestAssess(t *testing.T) {
	t.Parallel()
	l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := grpc.NewServer()
	recaptchaenterprisepb.RegisterRecaptchaEnterpriseServiceServer(s, google{})
	go func() { _ = s.Serve(l) }()
	t.Cleanup(s.Stop)
	a, err := New(t.Context(), Config{Project: "p", SiteKey: "site", Options: []option.ClientOption{
		option.WithEndpoint(l.Addr().String()), option.WithoutAuthentication(),
		option.WithGRPCDialOption(grpc.WithTransportCredentials(insecure.NewCredentials())),
	}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = a.Close() })
	for token, want := range map[string]struct {
		person float32
		valid  bool
		fails  bool
	}{
		"person": {person: 0.9, valid: true}, "program": {person: 0.1, valid: true}, "forged": {}, "broken": {fails: true},
	} {
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		person, valid, err := a.Assess(ctx, token)
		cancel()
		if float32(person) != want.person || valid != want.valid || (err != nil) != want.fails {
			t.Errorf("%s: got %v %v %v", token, person, valid, err)
		}
	}
}

func TestConfig(t *testing.T) {
	t.Parallel()
	if _, err := New(t.Context(), Config{Project: "p"}); err == nil {
		t.Error("no site key, and no error")
	}
}
