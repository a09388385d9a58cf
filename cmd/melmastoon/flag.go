package main

import (
	"context"
	"fmt"
	"net/http"
	"strings"

	"melmastoon.ghasi.io/bff/internal/consumer/consumerd"
	"melmastoon.ghasi.io/bff/internal/local/console"
)

type flag struct {
	terminal
	Set   flagSet   `cmd:"" help:"Give a flag a value: 'flag set rung brand' holds the brownout ladder, 'flag set campaign true' switches campaign mode on."`
	Clear flagClear `cmd:"" help:"Take a flag back: 'flag clear rung' lets the ladder go."`
}

type flagSet struct {
	Name  string `arg:"" help:"rung, campaign, or a flag's whole name, such as bff.consumer.campaign_mode.v1 or ai_inbox."`
	Value string `arg:"" help:"Its value."`
}

type flagClear struct {
	Name string `arg:"" help:"rung, campaign, or a flag's whole name."`
}

// Run switches a flag of the service that reads it.
func (s flagSet) Run(ctx context.Context, f *flag) error { return f.send(ctx, s.Name, s.Value) }

// Run takes a flag back.
func (c flagClear) Run(ctx context.Context, f *flag) error { return f.send(ctx, c.Name, "") }

func (f *flag) send(ctx context.Context, name, value string) error {
	w, err := f.find()
	if err != nil {
		return err
	}
	set := console.Flag{Service: "bff-backoffice", Name: name, Value: value}
	switch name {
	case "rung":
		set.Name = consumerd.FlagBrownout
	case "campaign":
		set.Name = consumerd.FlagCampaign
	}
	if strings.HasPrefix(set.Name, "bff.consumer.") {
		set.Service = "bff-consumer"
	}
	if err := ask(ctx, http.MethodPost, w.Environment[ourPages]+"/_up/flags", set, nil); err != nil {
		return err
	}
	if value == "" {
		fmt.Printf("%s: %s has its default again.\n", set.Service, set.Name)
		return nil
	}
	fmt.Printf("%s: %s is %s. 'melmastoon flag clear %s' takes it back.\n", set.Service, set.Name, value, name)
	return nil
}
