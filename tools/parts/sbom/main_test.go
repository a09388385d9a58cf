package main

import (
	"os"
	"runtime/debug"
	"strings"
	"testing"
)

// TestLicences: everything that a program links may be passed on in it.
func TestLicences(t *testing.T) {
	t.Chdir("../../..")
	for _, name := range []string{"bff-consumer", "bff-backoffice", "melmastoon"} {
		linked, err := packages("melmastoon.ghasi.io/bff/cmd/"+name, []debug.BuildSetting{{Key: "CGO_ENABLED", Value: "0"}})
		if err != nil || len(linked) < 50 {
			t.Fatalf("%s: %d modules, %v", name, len(linked), err)
		}
		for path, m := range linked {
			if _, err := licences(m); err != nil {
				t.Errorf("%s links %s: %v", name, path, err)
			}
		}
	}
}

func TestIdentify(t *testing.T) {
	t.Parallel()
	own, err := os.ReadFile("../../../LICENSE")
	if err != nil {
		t.Fatal(err)
	}
	const gpl = "This program is free software: you can redistribute it and/or modify it under the terms of the GNU General Public License as " +
		"published by the Free Software Foundation, either version 3 of the License, or (at your option) any later version."
	for text, want := range map[string]string{
		string(own): "", gpl: "may not be linked", string(own) + gpl: "may not be linked", "Ask before you use it.": "unknown licence", "": "unknown licence",
		string(own[:len(own)/2]): "unknown licence", strings.Repeat("No rights are given. ", 300) + string(own): "unknown licence",
	} {
		if ids, err := identify([]byte(text)); want == "" && (err != nil || ids[0] != "Apache-2.0") || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%.40q…: %v, %v, want %s", text, ids, err, want)
		}
	}
	if _, err := licences(&module{root: t.TempDir()}); err == nil {
		t.Error("a module without a licence passes")
	}
}
